// Variables from arguments, tensors from shapes.
#include "sim/host.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "base/error.h"
#include "ir/affine_form.h"
#include "ir/build.h"
#include "ir/text.h"

namespace tl {
namespace {

void poison(std::byte* begin, std::byte* end, DType type) {
  std::fill(begin, end, std::byte(0xAA));
  if (!type.is_float()) return;
  auto put = element_access(type).put;
  for (std::byte* at = begin; at < end; at += type.bytes()) put(at, scalar(std::nan("")));
}

std::vector<int64_t> row_major_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

std::vector<int64_t> in_bytes(std::vector<int64_t> values, bool strides) {
  for (size_t d = 0; d < values.size(); d++)
    if (strides ? d + 1 < values.size() : d + 1 == values.size()) values[d] /= 2;
  return values;
}

}  // namespace

Host::Host(const Function& f) : f(f), compile{.f = f} { frame.buffers.resize(f.buffers.size()); }

Scalar Host::run(const Expr& e) {
  auto it = cache.find(e.get());
  if (it == cache.end()) {
    frame.vars.resize(std::max(frame.vars.size(), compile.slots.size()));
    it = cache.emplace(e.get(), std::pair(e, compile(e))).first;
  }
  return it->second.second(frame);
}
int64_t Host::integer(const Expr& e) {
  if (auto v = as_int(e)) return *v;
  return run(e).i;
}
Array Host::value(const Expr& e) {
  Array a = make_array(e->dtype, {});
  Scalar v = run(e);
  e->dtype.is_float() ? void(a.floats[0] = v.d) : void(a.ints[0] = v.i);
  return a;
}

void Host::set(const Expr& v, Scalar value) {
  size_t slot = compile.slot_of(v);
  frame.vars.resize(compile.slots.size());
  frame.vars[slot] = value;
}

// Scalars, and variables in a shape or in strides, take their value from the arguments.
void Host::bind_variables(std::span<const HostArg> args) {
  for (size_t i = 0; i < args.size(); i++)
    if (f.params[i].var) {
      auto get = element_access(f.params[i].var->dtype).get;
      set(f.params[i].var, get(static_cast<const std::byte*>(args[i].data)));
    }
  auto extents = [&](const std::vector<Expr>& exprs, const std::vector<int64_t>& values) {
    for (size_t d = 0; d < exprs.size() && d < values.size(); d++)
      if (exprs[d].as<Var>() && !compile.slots.contains(exprs[d].get())) set(exprs[d], scalar(values[d]));
  };
  for (size_t i = 0; i < args.size(); i++)
    if (BufferId id = f.params[i].buffer) {
      extents(f[id].shape, args[i].shape);
      extents(f[id].strides, args[i].strides);
    }
  auto lines = [&](const std::vector<Expr>& exprs, const std::vector<int64_t>& values) {  // [n + 1] tells n
    for (size_t d = 0; d < exprs.size() && d < values.size(); d++)
      if (auto form = affine_form_of(exprs[d]); form && !compile.slots.contains(form->var.get()))
        set(form->var, scalar(std::max<int64_t>(0, (values[d] - form->offset) / form->factor)));
  };
  for (size_t i = 0; i < args.size(); i++)
    if (BufferId id = f.params[i].buffer) lines(f[id].shape, args[i].shape);
  for (auto& p : f.params)
    if (p.buffer)
      for (auto* list : {&f[p.buffer].shape, &f[p.buffer].strides})
        for (auto& e : *list)  // of tensors that are None, which nothing names
          if (auto form = affine_form_of(e); form && !compile.slots.contains(form->var.get()))
            set(form->var, scalar(int64_t(0)));
}

void Host::bind(std::span<const HostArg> args) {
  internal_check(args.size() == f.params.size(), "one argument per parameter");
  bind_variables(args);
  for (size_t i = 0; i < args.size(); i++)
    if (BufferId id = f.params[i].buffer) {
      Memory& m = frame.buffers[size_t(id.value)];
      shape_of(m, f[id]);
      m.data = static_cast<std::byte*>(args[i].data);
      bool pairs = f[id].dtype.is_packed();  // of two to a byte the caller gives the bytes
      agree(f.params[i].name, "shape", m, pairs ? in_bytes(m.shape, false) : m.shape, args[i].shape);
      agree(f.params[i].name, "strides", m, pairs ? in_bytes(m.strides, true) : m.strides, args[i].strides);
      if (args[i].fresh) poison(args[i].memory.first, args[i].memory.second, f[id].dtype);
    }
  for (auto& arg : args)
    if (arg.memory.first != arg.memory.second) {
      arguments.push_back(arg.memory);
      if (arg.fresh) fresh.push_back(arg.memory);
    }
  for (auto& check : f.checks)
    if (!integer(check.cond))
      fail(check.span, "{}: assertion failed{}{}: `{}` does not hold for these arguments", f.name,
           check.message.empty() ? "" : ": ", check.message, print(check.cond, &f));
  for (auto& fact : f.facts)
    if (!integer(fact))
      fail(fact->span, "{}: `{}` does not hold for these arguments", f.name, print(fact, &f));
}

void Host::agree(const std::string& name, std::string_view what, const Memory& m,
                 const std::vector<int64_t>& wanted, const std::vector<int64_t>& given) const {
  bool nothing = std::ranges::find(m.shape, 0) != m.shape.end();
  if ((given.empty() && !wanted.empty()) || (nothing && what == "strides")) return;
  bool same = given.size() == wanted.size();
  for (size_t d = 0; same && d < given.size(); d++)  // the stride of a single element says nothing
    same = given[d] == wanted[d] || (what == "strides" && m.shape[d] <= 1);
  if (same) return;
  auto list = [](const std::vector<int64_t>& v) {
    std::string s;
    for (auto i : v) s += fmt::format("{}{}", s.empty() ? "" : ", ", i);
    return s;
  };
  fail(f.span, "{}: the {} of {} must be ({}), not ({})", f.name, what, name, list(wanted), list(given));
}

void Host::shape_of(Memory& m, const BufferInfo& b) {
  m.shape.clear();
  m.strides.clear();
  for (auto& e : b.shape) m.shape.push_back(integer(e));
  for (auto& e : b.strides) m.strides.push_back(integer(e));
  if (b.strides.empty()) m.strides = row_major_strides(m.shape);
}

void Host::begin_at(BufferId id, int64_t address, Span span) {
  const BufferInfo& b = f[id];
  Memory& m = frame.buffers[size_t(id.value)];
  shape_of(m, b);
  m.data = reinterpret_cast<std::byte*>(uintptr_t(address));
  int64_t last = b.dtype.bytes();
  for (size_t d = 0; d < m.shape.size(); d++) last += (m.shape[d] - 1) * m.strides[d] * b.dtype.bytes();
  for (auto& [begin, end] : arguments)
    if (m.data >= begin && m.data < end) {
      if (m.data + last <= end) return;
      fail(span,
           "{} begins at the address {:#x} and has {} bytes, but the tensor argument there ends after {}",
           b.name, uint64_t(address), last, end - m.data);
    }
  fail(span,
       "{} begins at the address {:#x}, which is not in a tensor argument of this call, in {}; the reference "
       "can access only those: pass the tensor as an argument, too",
       b.name, uint64_t(address), frame.where);
}

void Host::begin(BufferId id) {
  const BufferInfo& b = f[id];
  Memory& m = frame.buffers[size_t(id.value)];
  if (b.alias_of) {  // it brings no storage
    shape_of(m, b);
    m.data = frame.buffers[size_t(b.alias_of.value)].data;
    return;
  }
  if (m.owned.empty()) {
    shape_of(m, b);
    int64_t elements = 1;
    for (size_t d = 0; d < m.shape.size(); d++) elements += (m.shape[d] - 1) * m.strides[d];
    bool empty = std::ranges::find(m.shape, 0) != m.shape.end();
    BufferAccess access = buffer_access(b);
    size_t bytes =
        access.pairs ? size_t(elements + 1) / 2 : size_t(empty ? 1 : elements) * size_t(access.bytes);
    try {
      m.owned.resize(bytes);
    } catch (const std::bad_alloc&) {
      fail(b.span, "{} takes {} bytes, and this machine has no such memory for the reference", b.name, bytes);
    }
    m.data = m.owned.data();
    fresh.push_back({m.data, m.data + m.owned.size()});
  }
  poison(m.data, m.data + m.owned.size(), b.dtype);
}

}  // namespace tl
