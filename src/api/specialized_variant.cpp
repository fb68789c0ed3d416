// What the specialized variant of a kernel assumes of a call, and whether a call meets it: alignment of
// addresses and rows, indices of 32 bits.
#include <algorithm>

#include "api/kernel.h"
#include "arith/simplify.h"
#include "ir/rewrite.h"

namespace tl {
namespace {

// The extents and strides of a call that no constant tells.
struct Found {
  int64_t value = 0;
  bool known = false;
};
Found dimension_of(const IntegerSource& source, std::span<const Argument> arguments) {
  if (size_t(source.param) >= arguments.size()) return {};
  if (auto* value = std::get_if<int64_t>(&arguments[size_t(source.param)])) return {*value, true};
  auto* t = std::get_if<TensorView>(&arguments[size_t(source.param)]);
  if (!t || source.dim >= t->ndim) return {};
  if (source.from == IntegerSource::From::extent) return {source.solve(t->shape[source.dim]), true};
  return {stride_of(*t, source.dim), true};
}

// How many elements make 16 bytes in every tensor whose rows are this variable apart; 1: none.  Row-major
// rows are as far apart as all extents but the first say.
int64_t elements_of_16_bytes(const Function& f, const Expr& v) {
  int64_t elements = 1;
  for (auto& p : f.params) {
    if (!p.buffer) continue;
    const BufferInfo& b = f[p.buffer];
    auto apart = b.strides.empty() && !b.shape.empty() ? std::span(b.shape).subspan(1) : std::span(b.strides);
    for (auto& e : apart)
      if (uses_var(e, v)) elements = std::max<int64_t>(elements, 16 / b.dtype.bytes());
  }
  return elements;
}

// The elements from the first to the last of a parameter, as narrow_index asks for them.
Expr span_of(const BufferInfo& b) {
  Expr span = imm(1);
  for (size_t d = 0; d < b.shape.size(); d++)
    span = b.strides.empty() ? span * b.shape[d] : span + (b.shape[d] - 1) * b.strides[d];
  return span;
}

// Do the indices of the tensor's elements fit 32 bits?
bool spans_32_bits(const TensorView& t) {
  __int128 last = 0, row_major = 1;
  for (int d = t.ndim; d-- > 0;) {
    if (t.shape[d] == 0) return true;
    __int128 stride = t.strides ? __int128(t.strides[d]) : row_major;
    if (stride < 0 || row_major > INT64_MAX) return false;
    last += (t.shape[d] - 1) * stride;
    row_major *= t.shape[d];
  }
  return last < INT32_MAX;
}

// No tensor map describes a tensor without elements (pass/move_boxes.cpp).
int64_t least_extent(const Target& chip) { return chip.warpgroup.empty() ? 0 : 1; }

}  // namespace

CompiledKernel::Specialization CompiledKernel::find_specialization() const {
  Specialization u;
  bool aligns = target.chip->vector_alignment != 1, narrows = target.chip->index_bits <= 32;
  if (aligns) u.alignment = target.chip->vector_bytes;
  if (!aligns && !narrows) return u;
  std::vector<Expr> vars = integer_vars(function);
  Program signature = signature_of(function, *target.chip);
  for (size_t i = 0; i < vars.size(); i++) {
    if (!signature.params[size_t(signature.integers[i].param)].is_used)
      continue;  // a tensor that may be None
    int64_t elements = aligns ? elements_of_16_bytes(function, vars[i]) : 1;
    if (signature.integers[i].from != IntegerSource::From::value || elements > 1)
      u.dimensions.push_back({vars[i], signature.integers[i], elements});
  }
  for (size_t i = 0; i < function.params.size() && narrows; i++)
    if (BufferId b = function.params[i].buffer; b && !as_int(simplify(span_of(function[b]))))
      u.sized.push_back(i);
  return u;
}

bool CompiledKernel::is_specialized(std::span<const Argument> arguments) const {
  if (specialization.alignment > 1 && common_alignment(arguments) < specialization.alignment) return false;
  int64_t least = least_extent(*target.chip);
  for (auto& d : specialization.dimensions) {
    Found found = dimension_of(d.source, arguments);
    if (!found.known || found.value % d.divisor != 0 || found.value > INT32_MAX || found.value < least)
      return false;
  }
  for (size_t i : specialization.sized)
    if (auto* t = i < arguments.size() ? std::get_if<TensorView>(&arguments[i]) : nullptr)
      if (!spans_32_bits(*t)) return false;
  return true;
}

std::string CompiledKernel::describe_specialization() const {
  std::vector<std::string> parts;
  if (specialization.alignment > 1)
    parts.push_back(fmt::format("addresses are divisible by {} bytes", specialization.alignment));
  for (auto& d : specialization.dimensions)
    if (d.divisor > 1) parts.push_back(fmt::format("{} is divisible by {}", d.source.name, d.divisor));
  if (!specialization.sized.empty()) parts.push_back("tensors span fewer than 2^31 elements");
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string CompiledKernel::why_generic(std::span<const Argument> arguments) const {
  std::vector<std::string> broken;
  if (int a = common_alignment(arguments); a < specialization.alignment)
    broken.push_back(
        fmt::format("an address is divisible by {} bytes only, not {}", a, specialization.alignment));
  for (auto& d : specialization.dimensions) {
    Found found = dimension_of(d.source, arguments);
    if (!found.known) continue;
    if (found.value % d.divisor)
      broken.push_back(fmt::format("{} = {} is not divisible by {}", d.source.name, found.value, d.divisor));
    if (int64_t least = least_extent(*target.chip); found.value > INT32_MAX || found.value < least)
      broken.push_back(fmt::format("{} = {} is not in [{}, 2^31)", d.source.name, found.value, least));
  }
  for (size_t i : specialization.sized)
    if (auto* t = std::get_if<TensorView>(&arguments[i]); t && !spans_32_bits(*t))
      broken.push_back(fmt::format("{} spans 2^31 elements or more", program.params[i].name));
  return fmt::format("{}", fmt::join(broken, ", "));
}

Function CompiledKernel::function_for(bool specialized) const {
  Function f = function;
  if (!specialized) {
    for (Kernel& k : f.kernels) k.attrs.entries["alignment"] = int64_t(0);
    return f;
  }
  for (auto& d : specialization.dimensions) {
    DType type = d.var->dtype;
    if (d.divisor > 1)
      f.facts.push_back(eq(binary(BinaryOp::floormod, d.var, imm(d.divisor, type)), zero(type)));
    if (type != i64) continue;
    f.facts.push_back(le(imm(least_extent(*target.chip)), d.var));
    f.facts.push_back(le(d.var, imm(INT32_MAX)));
  }
  for (size_t i : specialization.sized)
    f.facts.push_back(le(simplify(span_of(f[f.params[i].buffer])), imm(INT32_MAX)));
  return f;
}

}  // namespace tl
