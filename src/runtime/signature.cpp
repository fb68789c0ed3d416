// The quick half of checking.  It may be stricter than check_and_pack (then that decides), never laxer.
#include "runtime/signature.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "runtime/device.h"

namespace tl {

Signature::Signature(const Program& p, int device) : device_type(device), program(p) {
  usable = p.params.size() <= Bound::most_params && p.integers.size() <= Bound::most_integers;
  for (const ParamSpec& spec : p.params) {
    DlType type = dl_type(spec.dtype);
    params.push_back({.is_tensor = spec.is_tensor,
                      .is_written = spec.is_written,
                      .is_used = spec.is_used,
                      .code = type.code,
                      .bits = type.bits,
                      .ndim = int(spec.shape.size()),
                      .alignment = uintptr_t(p.alignment > 0 ? p.alignment : std::max(1, type.bits / 8)),
                      .first = extents.size()});
    usable = usable && spec.strides.size() == spec.shape.size();
    for (const Formula& f : spec.shape) add(f);
    for (const Formula& f : spec.strides) add(f);
    written += spec.is_tensor && spec.is_written;
  }
}

void Signature::add(const Formula& formula) {
  Extent extent{.from = Extent::From::formula, .value = 0, .formula = &formula};
  if (formula.steps.size() == 1) {
    extent.from =
        formula.steps[0].op == Formula::Op::constant ? Extent::From::constant : Extent::From::integer;
    extent.value = formula.steps[0].value;
  }
  extents.push_back(extent);
}

bool Signature::holds(const Extent& extent, int64_t value, const Bound& bound) const {
  switch (extent.from) {
    case Extent::From::constant:
      return value == extent.value;
    case Extent::From::integer:
      return value == bound.integers[size_t(extent.value)];
    case Extent::From::formula:
      return value == evaluate(*extent.formula, {bound.integers.data(), program.integers.size()});
  }
  return false;
}

bool Signature::bind_scalar(const Param& param, const Argument& argument, uint64_t& slot) const {
  if (auto integer = std::get_if<int64_t>(&argument)) {
    if (param.code == 0 && param.bits == 64) return slot = uint64_t(*integer), true;
    if (param.code == 0 && param.bits == 32 && *integer == int32_t(*integer))
      return slot = uint64_t(*integer), true;
    if (param.code == 2 && param.bits == 32)
      return slot = std::bit_cast<uint32_t>(float(double(*integer))), true;
    if (param.code == 2 && param.bits == 64) return slot = std::bit_cast<uint64_t>(double(*integer)), true;
  } else if (auto real = std::get_if<double>(&argument); real && param.code == 2) {
    bool too_large = std::isinf(float(*real)) && std::isfinite(*real);  // for 32 bits
    if (param.bits == 32 && !too_large) return slot = std::bit_cast<uint32_t>(float(*real)), true;
    if (param.bits == 64) return slot = std::bit_cast<uint64_t>(*real), true;
  }
  return false;
}

bool Signature::has_type(const Param& param, const TensorView& t, int& device_id) const {
  if (t.code != param.code || t.bits != param.bits || t.lanes != 1 || t.bits < 8 || t.ndim != param.ndim ||
      t.device_type != device_type)
    return false;
  if (device_type == device_cpu) return true;
  if (device_id < 0) device_id = t.device_id;
  return device_id == t.device_id;
}

// Shape, strides, memory.  Empty tensors, those that run backwards and written ones whose strides do not step
// over all that lies behind them are left to the slow half.
bool Signature::has_form(const Param& param, const TensorView& t, const Bound& bound, Range& range) const {
  auto address = reinterpret_cast<uintptr_t>(t.data);
  if (!address || (address & (param.alignment - 1)) || (t.readonly && param.is_written)) return false;
  const Extent *shape = &extents[param.first], *strides = shape + param.ndim;
  int64_t row_major = 1, last = 0;  // the last element's offset
  for (int d = param.ndim - 1; d >= 0; d--) {
    int64_t extent = t.shape[d], stride = t.strides ? t.strides[d] : row_major;
    if (extent <= 0 || !holds(shape[d], extent, bound)) return false;
    if (extent > 1) {
      if (stride < 0 || !holds(strides[d], stride, bound)) return false;
      if (param.is_written && stride <= last) return false;  // its elements may overlap
      last += (extent - 1) * stride;
    }
    row_major *= extent;
  }
  range = {address, address + uintptr_t(last + 1) * (t.bits / 8)};
  return true;
}

bool Signature::read_integers(std::span<const Argument> arguments, Bound& out) const {
  for (size_t i = 0; i < program.integers.size(); i++) {
    const IntegerSource& source = program.integers[i];
    const Argument& argument = arguments[size_t(source.param)];
    if (source.from == IntegerSource::From::value) {
      auto value = std::get_if<int64_t>(&argument);
      if (!value) return false;
      out.integers[i] = *value;
      continue;
    }
    auto t = std::get_if<TensorView>(&argument);
    if (!t || source.dim >= t->ndim) return false;
    bool is_extent = source.from == IntegerSource::From::extent;
    out.integers[i] = is_extent ? source.solve(t->shape[source.dim]) : stride_of(*t, source.dim);
  }
  return true;
}

bool Signature::bind(std::span<const Argument> arguments, Bound& out) const {
  if (!usable || arguments.size() != params.size()) return false;
  out.device_id = device_type == device_cpu ? 0 : -1;
  for (size_t i = 0; i < params.size(); i++) {
    if (!params[i].is_tensor) {
      if (!bind_scalar(params[i], arguments[i], out.slots[i])) return false;
      continue;
    }
    auto t = std::get_if<TensorView>(&arguments[i]);
    if (!t && !params[i].is_used && std::holds_alternative<std::monostate>(arguments[i])) {
      out.slots[i] = 0;
      continue;
    }
    if (!t || !has_type(params[i], *t, out.device_id)) return false;
    out.slots[i] = reinterpret_cast<uintptr_t>(t->data);
  }
  if (!read_integers(arguments, out)) return false;
  for (const CheckSpec& check : program.checks)
    if (!evaluate(check.holds, {out.integers.data(), program.integers.size()})) return false;
  Range ranges[Bound::most_params];
  for (size_t i = 0; i < params.size(); i++)
    if (!std::holds_alternative<TensorView>(arguments[i]) || !params[i].is_tensor)
      ranges[i] = {0, 0};
    else if (!has_form(params[i], *std::get_if<TensorView>(&arguments[i]), out, ranges[i]))
      return false;
  if (!written) return true;
  for (size_t i = 0; i < params.size(); i++) {
    if (!params[i].is_tensor || !params[i].is_written) continue;
    for (size_t k = 0; k < params.size(); k++)
      if (k != i && ranges[i].begin < ranges[k].end && ranges[k].begin < ranges[i].end) return false;
  }
  return true;
}

}  // namespace tl
