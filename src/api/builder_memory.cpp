// What one thread does to memory: addresses, atomic accesses, accesses of a given width, tensors made from
// addresses, foreign code.
#include <algorithm>
#include <numeric>

#include "api/builder.h"
#include "arith/analysis.h"
#include "arith/facts.h"
#include "base/error.h"
#include "ir/rewrite.h"
#include "layout/layout.h"
#include "ops/atomic.h"
#include "target/hopper.h"

namespace tl {
namespace {

// Those that make sense for an access: a load releases nothing, a store acquires nothing.
void check_order(std::string_view op, Intrinsic::Atomic kind, const std::string& order, Span span) {
  auto all = memory_orders();
  std::vector<std::string_view> fit(all.begin(), all.end());
  auto drop = [&](std::string_view name) { std::erase(fit, name); };
  if (kind == Intrinsic::Atomic::load) drop("release"), drop("acq_rel");
  if (kind == Intrinsic::Atomic::store) drop("acquire"), drop("acq_rel");
  if (std::ranges::find(fit, order) == fit.end())
    fail(span, "{}: the memory order cannot be `{}`; it is one of {}{}", op, order, listed(fit),
         did_you_mean(order, fit));
}

constexpr int64_t widest_access = 16;  // of one thread, in bytes, on every target

// The place of an element in its buffer, in elements, where nothing but its shape says so.
Expr offset_of(const BufferInfo& info, const std::vector<Expr>& index) {
  if (info.scope == Scope::global) return tensor_offset(info, index);
  Expr at = imm(0);
  for (size_t d = 0; d < index.size(); d++) at = at * info.shape[d] + index[d];
  return at;
}

// The holes of a PTX text must have operands.
void check_holes(const std::string& text, size_t operands, size_t outputs, Span span) {
  for (size_t at = text.find('{'); at != text.npos; at = text.find('{', at + 1)) {
    size_t end = text.find('}', at);
    if (end == text.npos) return;
    std::string word = text.substr(at + 1, end - at - 1);
    bool output = word.starts_with("out");
    std::string digits = output ? word.substr(3) : word;
    bool number = std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
    if (!number || digits.size() > 3 || (digits.empty() && !output)) continue;
    size_t hole = digits.empty() ? 0 : size_t(std::stoul(digits)), count = output ? outputs : operands;
    if (hole >= count)
      fail(
          span, "ptx: the template names {{{}}}, but there {} {} {}", word, count == 1 ? "is" : "are", count,
          output ? (count == 1 ? "output (out=)" : "outputs (out=)") : (count == 1 ? "operand" : "operands"));
  }
}

}  // namespace

// ── addresses ─────────────────────────────────────────────────────────────────────────────────────────
// Code that goes on from an address sees rows one after another: a shared tile whose address is taken is not
// swizzled.
void Builder::keep_rows(const Buffer& buffer, const std::string& by) {
  const BufferInfo& info = buffer.info();
  if (info.scope != Scope::shared || info.layout) return;
  std::vector<int64_t> shape;
  for (auto& e : info.shape) shape.push_back(*as_int(e));
  set_layout(buffer.id, row_major(shape), by);
}

Expr Builder::address(const Buffer& buffer, const std::vector<Value>& index, std::string_view access,
                      const std::optional<Value>& count) {
  std::vector<Expr> at = index_of(buffer, index, "taking the address of an element of");
  if (buffer.info().scope == Scope::fragment)
    fail(here(),
         "{} is spread over the registers of the block's threads and has no address: copy it to a shared "
         "tile, or use T.alloc_local",
         describe(buffer));
  keep_rows(buffer, "its address, which is taken");
  // The elements of a strided tensor do not follow one another.
  bool counted = count && buffer.info().strides.empty();
  Expr touched = counted ? to_index(*count, "an extent of an address", here()) : Expr();
  return tl::address(tl::load(draft->function, buffer.id, std::move(at), here()), access, here(),
                     std::move(touched));
}

Expr Builder::pointer(const std::string& name) {
  check_param_name(name);
  Expr v = var(name, handle, here());
  draft->function.params.push_back({.name = name, .var = v});
  return v;
}

Buffer Builder::tensor_at(const std::string& name, const Value& base, const std::vector<Value>& shape,
                          DType type, const std::optional<std::vector<Value>>& strides) {
  Expr from = strong(base, here());
  if (!from->dtype.is_handle() && from->dtype != i64 && from->dtype != u64)
    fail(here(), "{}: an address is a T.ptr parameter or an integer of 64 bits, not {}", name,
         to_string(from->dtype));
  if (!type.is_int() && !type.is_float() && !type.is_bool())
    fail(here(), "{}: an element cannot be {}", name, to_string(type));
  if (shape.empty()) fail(here(), "{}: a tensor has at least one dimension", name);
  if (strides && strides->size() != shape.size())
    fail(here(), "{} has {} extents but {} strides", name, shape.size(), strides->size());
  auto outside = [&](const Expr& e, std::string_view what) {
    auto known = [&](const Var& v) {
      auto is = [&](const Expr& x) { return x.get() == &v; };
      auto& params = draft->function.params;
      return std::ranges::any_of(params, [&](auto& p) { return p.var && is(p.var); }) ||
             std::ranges::any_of(dynamics, is);
    };
    if (contains(e, [&](const Var& v) { return !known(v); }, [](const Load&) { return true; }))
      fail(here(),
           "{}: {} must be known when the function is called, from constants, scalar parameters and "
           "T.dynamic extents: the shape of a tensor does not change within a kernel",
           name, what);
    return e;
  };
  BufferInfo info{.name = name, .dtype = type, .span = here()};
  for (auto& e : shape)
    info.shape.push_back(outside(to_index(e, "an extent of " + name, here()), "an extent"));
  if (strides)
    for (auto& e : *strides)
      info.strides.push_back(outside(to_index(e, "a stride of " + name, here()), "a stride"));
  BufferId id = draft->function.add(std::move(info));
  Stmt begin = tl::alloc(id, here(), {.entries = {{"base", from}}});
  Expr number = from->dtype.is_handle() ? cast(u64, from, here()) : from;
  Expr aligned = eq(floormod(number, imm(widest_access, number->dtype)), imm(0, number->dtype));
  std::string text = fmt::format(
      "the address of {} (T.make_tensor) is not divisible by {}, the widest access in bytes: begin at an "
      "address that is, and index from there",
      name, widest_access);
  std::string line = here().file ? fmt::format("{}:{}", *here().file, here().line) : "";
  Stmt check = eval(tl::call(device_assert, {aligned, string_imm(text, here()), string_imm(line, here())},
                             none_type, here()),
                    here());
  for (auto& s : {check, begin}) frames.empty() ? made_tensors.push_back(s) : emit(s);
  return {draft, id};
}

// ── accesses ──────────────────────────────────────────────────────────────────────────────────────────
Expr Builder::atomic(const std::string& op, const Buffer& buffer, const std::vector<Value>& index,
                     const std::optional<Value>& value, const std::string& order, bool returns) {
  const Intrinsic* row = find_intrinsic(op);
  if (!row || row->atomic == Intrinsic::Atomic::none) fail(here(), "there is no atomic access `{}`", op);
  refuse_barrier(buffer, op + " at");
  std::vector<Expr> at = index_of(buffer, index, op + " at");
  const BufferInfo& info = buffer.info();
  check_atomic_type(op, row->atomic, info.dtype, here());
  check_order(op, row->atomic, order, here());
  std::vector<Expr> args{
      tl::address(tl::load(draft->function, buffer.id, std::move(at), here()), "", here())};
  if (value) args.push_back(to_type(*value, info.dtype, op + ":", here()));
  args.push_back(string_imm(order, here()));
  bool gives = returns || row->atomic == Intrinsic::Atomic::load;
  Expr e = tl::call(*row, std::move(args), gives ? info.dtype : none_type, here());
  if (gives) return let("old", e);
  emit(eval(e, here()));
  return e;
}

Expr Builder::wide_place(std::string_view what, const Buffer& buffer, const std::vector<Value>& index,
                         int64_t bytes, const std::optional<Value>& predicate) {
  refuse_barrier(buffer, std::string(what) + " at");
  std::vector<Expr> at = index_of(buffer, index, std::string(what) + " at");
  const BufferInfo& info = buffer.info();
  bool wants_shared = what.find("ds") != what.npos || what.starts_with("sts");
  if (info.scope != (wants_shared ? Scope::shared : Scope::global))
    fail(here(), "{} takes an element of a {}, not of {}", what, wants_shared ? "shared tile" : "tensor",
         describe(buffer));
  int64_t element = info.dtype.bytes(), need = std::min<int64_t>(bytes, 16);
  Modular m = modular_of(offset_of(info, at), Facts{});
  int64_t step = std::gcd(m.modulus * element, need);
  if ((m.remainder * element) % step)
    fail(here(),
         "{} moves {} bytes and needs an address divisible by {}, but the address of this element of {} is "
         "not",
         what, bytes, need, describe(buffer));
  if (auto row = as_int(info.shape.back()); row && !wants_shared && *row * element < bytes)
    fail(here(),
         "{} moves {} bytes, which are {} elements, but a row of {} has only {}; give it longer rows "
         "(T.view), or move fewer bytes",
         what, bytes, bytes / element, describe(buffer), *row);
  keep_rows(buffer, fmt::format("{}, which moves neighbouring elements", what));
  Expr mask = predicate ? to_bool(*predicate, here()) : Expr();
  return tl::address(tl::load(draft->function, buffer.id, std::move(at), here(), mask), "", here());
}

Expr Builder::load_wide(std::string_view what, const Buffer& buffer, const std::vector<Value>& index,
                        int64_t bytes, const std::optional<Value>& predicate) {
  Expr place = wide_place(what, buffer, index, bytes, predicate);
  return let("wide", tl::call(tl::load_wide, {place}, u32.with_lanes(int(bytes / 4)), here()));
}

void Builder::store_wide(std::string_view what, const Buffer& buffer, const std::vector<Value>& index,
                         const Value& value, int64_t bytes, const std::optional<Value>& predicate) {
  Expr v = strong(value, here());
  DType wanted = u32.with_lanes(int(bytes / 4));
  if (bytes == 4 && (v->dtype == i64 || v->dtype == i32)) v = cast(u32, v, here());
  if (v->dtype != wanted)
    fail(here(), "{} stores {} ({} bytes, as a load of that width gives), not {}", what, to_string(wanted),
         bytes, to_string(v->dtype));
  Expr place = wide_place(what, buffer, index, bytes, predicate);
  emit(eval(tl::call(tl::store_wide, {place, v}, none_type, here()), here()));
}

void Builder::instruct(std::string_view name, const std::vector<Expr>& operands) {
  require_kernel(name);
  const Intrinsic* row = find_instr(name);
  if (!row || row->effect != Intrinsic::Effect::memory || row->access.size() != operands.size())
    fail(here(), "there is no instruction `{}` with {} operands", name, operands.size());
  for (size_t i = 0; i < operands.size(); i++) {
    bool value = row->access[i] == '-' || row->access[i] == 'n';
    if (!value && !place_of(operands[i]))
      fail(here(), "{}: an operand is the address of an element, not {}", name,
           to_string(operands[i]->dtype));
  }
  align_tiles(*row, operands);
  emit(eval(tl::call(*row, operands, none_type, here()), here()));
}

// A warpgroup's product applies the pattern of a tile to addresses, so the tile begins where a pattern does.
void Builder::align_tiles(const Intrinsic& row, const std::vector<Expr>& operands) {
  const WarpgroupInstr* product = warpgroup_row_of(row);
  if (!product) return;
  size_t mode = 5;  // of the first tile in shared memory
  for (size_t tile = product->a_in_registers ? 2 : 1; tile <= 2; tile++, mode += 4) {
    BufferInfo& info = draft->function[place_of(operands[tile])->buffer];
    if (info.scope == Scope::shared)
      info.alignment = std::max(info.alignment, 8 * as_int(operands[mode]).value_or(0));
  }
}

// ── foreign code ──────────────────────────────────────────────────────────────────────────────────────
Expr Builder::foreign(const std::string& kind, const std::string& text, const std::string& key,
                      const std::vector<Expr>& outputs, const std::vector<Value>& args,
                      std::optional<DType> type) {
  require_kernel(kind);
  const Intrinsic* row = find_intrinsic(kind);
  internal_check(row && is_foreign(*row), "a kind of foreign code");
  bool ptx = row == &inline_ptx;
  std::vector<Expr> all{string_imm(text, here()), string_imm(key, here())};
  if (ptx) {
    check_holes(text, args.size(), outputs.size(), here());
    all.push_back(imm(int64_t(outputs.size())));
    all.insert(all.end(), outputs.begin(), outputs.end());
  }
  for (auto& a : args) {
    auto* n = std::get_if<int64_t>(&a);
    Expr e = n && !ptx && *n == int32_t(*n) ? imm(*n, i32, here()) : strong(a, here());
    if (e->dtype.is_handle() && !place_of(e) && !e.as<Var>())
      fail(here(), "{}: this is not the address of an element", kind);
    if (ptx && (e->dtype.lanes > 1 || e->dtype.is_bool() || (e->dtype.bits < 16)))
      fail(here(), "ptx: an operand cannot be {}: registers hold 16, 32 or 64 bits; cast it to int32",
           to_string(e->dtype));
    all.push_back(std::move(e));
  }
  Expr e = tl::call(*row, std::move(all), type.value_or(none_type), here());
  if (e->dtype == none_type) {
    emit(eval(e, here()));
    return e;
  }
  return row == &call_pure_extern ? e : let("given", e);
}

}  // namespace tl
