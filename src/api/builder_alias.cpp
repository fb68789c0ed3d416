// Views of a buffer's storage in other shapes and types, and the safe value of a tensor outside its bounds.

#include "api/builder.h"
#include "arith/simplify.h"
#include "base/error.h"
#include "ir/buffer_size.h"
#include "ir/text.h"

namespace tl {
namespace {

std::string shape_text(const std::vector<Expr>& shape) {
  std::string s;
  for (auto& e : shape) s += (s.empty() ? "" : ", ") + print(e);
  return "[" + s + "]";
}

Expr size_of(const std::vector<Expr>& shape, int64_t unit) {
  Expr n = imm(unit);
  for (auto& e : shape) n = n * e;
  return simplify(n);
}

void check_storage(const BufferInfo& info, DType type, std::string_view what, const Span& here) {
  if (!info.strides.empty() || (info.scope == Scope::global && info.layout))
    fail(here, "{}: {} has {} of its own; only a row-major tensor can be viewed in another shape", what,
         info.name, info.strides.empty() ? "a layout" : "strides");
  if (info.shape.empty()) fail(here, "{}: {} is a single value", what, info.name);
  if (!info.reducer.empty()) fail(here, "{}: {} is a reducer", what, info.name);
  if (info.safe_value) fail(here, "{}: {} has a safe value; annotate it afterwards", what, info.name);
  if (type == info.dtype || info.scope == Scope::shared) return;
  auto whole = [](DType t) { return !t.is_bool() && !t.is_packed() && t.lanes == 1; };
  if (whole(type) && whole(info.dtype)) return;
  fail(here, "{}: {} is {} of {}, which cannot be viewed as {}: copy it to a shared buffer", what, info.name,
       info.scope == Scope::global ? "a tensor" : "in a thread's registers, an array", to_string(info.dtype),
       to_string(type));
}

}  // namespace

Buffer Builder::alias(const std::string& name, const Buffer& of, const std::vector<Value>& shape, DType type,
                      std::string_view what) {
  require_kernel(what);
  check_owner(of);
  refuse_barrier(of, fmt::format("{} of", what));
  const BufferInfo base = of.info();
  check_storage(base, type, what, here());
  BufferInfo info{.name = name, .dtype = type, .scope = base.scope, .span = here()};
  info.alias_of = base.alias_of ? base.alias_of : of.id;
  for (auto& extent : shape) {
    Expr e = to_index(extent, "an extent of " + name, here());
    if (auto n = as_int(e); n && *n < 1) fail(here(), "{}: an extent is {}; it must be positive", what, *n);
    if (!as_int(e) && base.scope != Scope::global)
      fail(here(), "{}: the shape of a tile must be constant, but it has {}", what, print(e));
    info.shape.push_back(e);
  }
  if (info.shape.empty()) fail(here(), "{}: the new shape has no dimension", what);
  if (std::string why = why_uncountable(info); !why.empty()) fail(here(), "{}: {}", what, why);
  DType root = draft->function[info.alias_of].dtype;
  if (type.bits != root.bits) check_storage(draft->function[info.alias_of], type, what, here());
  Expr have = size_of(base.shape, base.dtype.bits), want = size_of(info.shape, type.bits);
  if (!is_int(simplify(eq(have, want)), 1))
    fail(here(), "{}: {} takes {} bits, but {}{} takes {}; they must be equal", what, describe(of),
         print(have), to_string(type), shape_text(info.shape), print(want));
  BufferId id = draft->function.add(std::move(info));
  emit(tl::alloc(id, here()));
  return {draft, id};
}

void Builder::annotate_safe_value(const Buffer& buffer, const Value& value) {
  check_owner(buffer);
  BufferInfo& info = draft->function[buffer.id];
  if (info.scope != Scope::global)
    fail(here(), "annotate_safe_value: {} is a tile; only a tensor may be read outside of its bounds",
         info.name);
  if (info.alias_of)
    fail(here(), "annotate_safe_value: {} is a view of a tensor: annotate the tensor itself", info.name);
  Expr e = to_type(value, info.dtype, "annotate_safe_value: the value for " + info.name, here());
  auto* real = e.as<FloatImm>();
  auto whole = as_int(e);
  if (!real && !whole)
    fail(here(), "annotate_safe_value: the value for {} must be a constant, not {}", info.name, print(e));
  info.safe_value = (real ? real->value == 0 : *whole == 0) ? Expr() : e;
}

}  // namespace tl
