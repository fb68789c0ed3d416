// Loads and stores in LLVM IR.  A vector index that counts up by one is a vector access, any other a gather
// or scatter.  A mask is split into conditions of all lanes (a branch), bounds `base + lane < limit` (all
// lanes hold almost always: a branch to the plain access, else the masked one) and the rest (a masked
// access).
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "codegen/llvm_kernel.h"
#include "ir/rewrite.h"

namespace tl::llvm {
namespace {

// base, base + stride, …
struct Steps {
  Expr base;
  int64_t stride;
};

std::optional<Steps> read_steps(const Expr& e) {
  if (auto* r = e.as<Ramp>()) {
    auto stride = as_int(r->stride);
    return stride ? std::optional(Steps{r->base, *stride}) : std::nullopt;
  }
  if (auto* b = e.as<Broadcast>()) return Steps{b->value, 0};
  auto* n = e.as<Binary>();
  if (!n || (n->op != BinaryOp::add && n->op != BinaryOp::sub && n->op != BinaryOp::mul)) return std::nullopt;
  auto a = read_steps(n->a), b = read_steps(n->b);
  if (!a || !b) return std::nullopt;
  if (n->op == BinaryOp::add) return Steps{a->base + b->base, a->stride + b->stride};
  if (n->op == BinaryOp::sub) return Steps{a->base - b->base, a->stride - b->stride};
  auto x = as_int(a->base), y = as_int(b->base);
  if (y && b->stride == 0) return Steps{a->base * *y, a->stride * *y};
  if (x && a->stride == 0) return Steps{b->base * *x, b->stride * *x};
  return std::nullopt;
}

// base + lane/times: each of neighbouring elements `times` times, as values packed into a byte are read.
struct Repeats {
  Expr base;
  int64_t times;
};

std::optional<Repeats> read_repeats(const Expr& e) {
  auto* n = e.as<Binary>();
  if (!n || e->dtype.lanes == 1) return std::nullopt;
  if (n->op == BinaryOp::floordiv || n->op == BinaryOp::truncdiv) {
    auto* lanes = n->a.as<Ramp>();
    auto* by = n->b.as<Broadcast>();
    if (!lanes || !by || !is_int(lanes->stride, 1)) return std::nullopt;
    int64_t first = as_int(lanes->base).value_or(-1), times = as_int(by->value).value_or(0);
    bool whole = first >= 0 && times > 1 && first % times == 0 && e->dtype.lanes % times == 0;
    if (!whole || e->dtype.lanes == times) return std::nullopt;
    return Repeats{imm(first / times, lanes->base->dtype), times};
  }
  if (n->op != BinaryOp::add) return std::nullopt;
  for (auto& [x, y] : {std::pair(n->a, n->b), std::pair(n->b, n->a)})
    if (auto all = read_steps(x); all && all->stride == 0)
      if (auto repeats = read_repeats(y)) return Repeats{all->base + repeats->base, repeats->times};
  return std::nullopt;
}

// e == variable + constant; the variable part is null where there is none.
struct Offset {
  Expr variable;
  int64_t constant = 0;
};

Offset split_offset(const Expr& e) {
  if (auto c = as_int(e)) return {{}, *c};
  if (auto* n = e.as<Binary>(); n && (n->op == BinaryOp::add || n->op == BinaryOp::sub)) {
    Offset a = split_offset(n->a), b = split_offset(n->b);
    bool minus = n->op == BinaryOp::sub;
    int64_t constant = minus ? a.constant - b.constant : a.constant + b.constant;
    if (!b.variable) return {a.variable, constant};
    if (!a.variable && !minus) return {b.variable, constant};
    if (!a.variable) return {e, 0};
    return {binary(n->op, a.variable, b.variable), constant};
  }
  return {e, 0};
}

struct Bound {
  Expr base, limit;  // base + lane < limit
};

struct Mask {
  std::vector<Expr> scalars, vectors;
  std::vector<Bound> bounds;
  Value extra;  // of the arm of a select; empty: none
  bool none() const { return scalars.empty() && vectors.empty() && bounds.empty() && extra.empty(); }
};

void read_mask(KernelWriter& k, const Expr& e, Mask& out) {
  if (!e || is_int(e, 1)) return;
  if (auto* b = e.as<Broadcast>()) return read_mask(k, b->value, out);
  auto* n = e.as<Binary>();
  if (n && n->op == BinaryOp::logical_and && !k.needs_condition(n->b)) {
    read_mask(k, n->a, out);
    read_mask(k, n->b, out);
    return;
  }
  if (e->dtype.lanes == 1) return out.scalars.push_back(e);
  if (n &&
      (n->op == BinaryOp::lt || n->op == BinaryOp::le || n->op == BinaryOp::gt || n->op == BinaryOp::ge)) {
    bool flipped = n->op == BinaryOp::gt || n->op == BinaryOp::ge;
    auto low = read_steps(flipped ? n->b : n->a), high = read_steps(flipped ? n->a : n->b);
    bool or_equal = n->op == BinaryOp::le || n->op == BinaryOp::ge;
    if (low && high && low->stride == 1 && high->stride == 0 && low->base->dtype.is_signed()) {
      out.bounds.push_back({low->base, or_equal ? high->base + 1 : high->base});
      return;
    }
  }
  out.vectors.push_back(e);
}

// One access, scalar or vector, with everything needed to write it with or without a mask.
struct Place {
  KernelWriter& k;
  BufferId buffer;
  DType type;          // of the value, with lanes
  bool contiguous;     // else a gather or scatter
  Value pointer = {};  // to the first element, or one per lane
  int64_t alignment;   // of the first element, in bytes
  Mask mask = {};

  DType lanes_of(DType t) const { return t.with_lanes(type.lanes); }
  DType flags() const { return lanes_of(boolean); }
  DType memory() const { return type.is_bool() ? lanes_of(u8) : type; }
};

// What is known of the lowest bits of the address.  A caller's tensor may begin anywhere.
int64_t alignment_of(const KernelWriter& k, BufferId buffer, const Expr& index) {
  const BufferInfo& info = k.f[buffer];
  if (info.scope == Scope::global) return 1;
  Modular m = modular_of(index, k.facts);
  int64_t bytes = std::gcd(int64_t{64}, std::gcd(m.modulus, m.remainder) * info.dtype.bytes());
  return is_in_arena(info) ? std::gcd(bytes, info.address) : bytes;
}

Place place_of(KernelWriter& k, BufferId buffer, const std::vector<Expr>& index, DType type,
               const Expr& mask) {
  internal_check(index.size() <= 1, "one index per access at level machine");
  Expr i = index.empty() ? imm(0) : index[0];
  Place p{.k = k, .buffer = buffer, .type = type, .contiguous = true, .alignment = 1};
  read_mask(k, mask, p.mask);
  if (i->dtype.lanes > 1) {
    auto steps = read_steps(i);
    p.contiguous = steps && steps->stride == 1;
    if (p.contiguous) i = steps->base;
  }
  if (!k.predicate.empty()) p.mask.extra = k.predicate_of(type.lanes);
  p.alignment = alignment_of(k, buffer, p.contiguous ? i : imm(1));
  p.pointer = k.address(buffer, i);
  return p;
}

// The conditions of all lanes and, of the bounds: nothing, that some lane is within them, or that every lane
// is. Empty: nothing to ask.
enum class Within { unasked, some, every };
Value all_lanes(Place& p, Within within) {
  Writer& w = p.k.w;
  Value all;
  auto add = [&](const Value& v) { all = all.empty() ? v : w.op("and", boolean, all, v); };
  for (auto& e : p.mask.scalars) add(p.k.expr(e));
  if (p.type.lanes == 1 && !p.mask.extra.empty()) add(p.mask.extra);
  if (within == Within::unasked) return all;
  int64_t last = within == Within::every ? p.type.lanes - 1 : 0;
  for (auto& b : p.mask.bounds)
    add(w.compare("icmp slt", b.base->dtype, p.k.expr(b.base + last), p.k.expr(b.limit)));
  return all;
}

// The lanes that take part, as <n x i1>.
Value lane_mask(Place& p) {
  Writer& w = p.k.w;
  DType flags = p.flags(), narrow = p.lanes_of(i32);
  Value all;
  auto add = [&](const Value& v) { all = all.empty() ? v : w.op("and", flags, all, v); };
  std::string steps = "<";
  for (int l = 0; l < p.type.lanes; l++) steps += fmt::format("{}i32 {}", l ? ", " : "", l);
  for (auto& b : p.mask.bounds) {
    DType t = b.base->dtype;
    Value room = p.k.expr(b.limit - b.base);
    Value few = w.llvm_intrinsic("llvm.smin", t, {room, int_constant(p.type.lanes, t)});
    Value some = w.llvm_intrinsic("llvm.smax", t, {few, int_constant(0, t)});
    Value limit = w.splat(i32, convert(w, t, some, i32, false), p.type.lanes);
    add(w.compare("icmp slt", narrow, steps + ">", limit));
  }
  for (auto& e : p.mask.vectors) add(p.k.expr(e));
  if (!p.mask.extra.empty()) add(p.mask.extra);
  if (Value scalars = all_lanes(p, Within::unasked); !scalars.empty())
    add(w.splat(boolean, scalars, p.type.lanes));
  return all.empty() ? int_constant(1, flags) : all;
}

// Intrinsics for a masked or scattered access; their names carry the type and that of the pointer.
Value call_masked(Place& p, bool store, const Value& value, const Value& mask) {
  Writer& w = p.k.w;
  std::string type = type_text(p.memory()), flags = type_text(p.flags());
  std::string pointers = p.contiguous ? "ptr" : fmt::format("<{} x ptr>", p.type.lanes);
  std::string_view kind = p.contiguous ? (store ? "store" : "load") : (store ? "scatter" : "gather");
  std::string suffix = mangled(p.memory()),
              pointer_suffix = p.contiguous ? "p0" : fmt::format("v{}p0", p.type.lanes);
  std::string name = fmt::format("@llvm.masked.{}.{}.{}", kind, suffix, pointer_suffix);
  if (store) {
    w.declarations.insert(
        fmt::format("declare void {}({}, {}, i32 immarg, {})", name, type, pointers, flags));
    w.line(fmt::format("call void {}({} {}, {} {}, i32 {}, {} {})", name, type, value, pointers, p.pointer,
                       p.alignment, flags, mask));
    return "";
  }
  w.declarations.insert(
      fmt::format("declare {} {}({}, i32 immarg, {}, {})", type, name, pointers, flags, type));
  return w.fresh(fmt::format("call {} {}({} {}, i32 {}, {} {}, {} zeroinitializer)", type, name, pointers,
                             p.pointer, p.alignment, flags, mask, type));
}

Value plain_load(Place& p) {
  if (!p.contiguous) return call_masked(p, false, "", int_constant(1, p.flags()));
  return p.k.w.fresh(fmt::format("load {}, ptr {}, align {}", type_text(p.memory()), p.pointer, p.alignment));
}

// Past the caches, where the address allows it: which the tensor's first byte decides, at run time.
void stream_store(Place& p, const Value& value) {
  Writer& w = p.k.w;
  std::string type = type_text(p.memory());
  int64_t bytes = p.memory().bytes() * p.type.lanes;
  Value address = w.pure(fmt::format("ptrtoint ptr {} to i64", p.pointer));
  Value beyond = w.op("and", i64, address, int_constant(bytes - 1, i64));
  std::string aligned = w.new_label("aligned"), odd = w.new_label("odd"), join = w.new_label("join");
  w.branch(w.compare("icmp eq", i64, beyond, "0"), aligned, odd);
  w.label(aligned);
  w.line(fmt::format("store {} {}, ptr {}, align {}, !nontemporal !0", type, value, p.pointer, bytes));
  w.jump(join);
  w.label(odd);
  w.line(fmt::format("store {} {}, ptr {}, align {}", type, value, p.pointer, p.alignment));
  w.jump(join);
  w.label(join);
}

void plain_store(Place& p, const Value& value) {
  int64_t bytes = p.memory().bytes() * p.type.lanes;
  bool whole = p.contiguous && bytes >= 16 && (bytes & (bytes - 1)) == 0 && bytes <= p.k.target.vector_bytes;
  if (!p.contiguous)
    call_masked(p, true, value, int_constant(1, p.flags()));
  else if (whole && p.k.streamed.contains(p.buffer))
    stream_store(p, value);
  else
    p.k.w.line(
        fmt::format("store {} {}, ptr {}, align {}", type_text(p.memory()), value, p.pointer, p.alignment));
}

// A scalar access, or one whose lanes share their conditions, is a branch around the plain access; where only
// bounds differ per lane, the branch is to the masked access instead.
enum class Form { plain, skip, split, masked };
Form form_of(const Place& p) {
  if (p.mask.none()) return Form::plain;
  if (p.type.lanes == 1) return Form::skip;
  if (!p.mask.vectors.empty() || !p.mask.extra.empty()) return Form::masked;
  if (p.mask.bounds.empty()) return Form::skip;
  bool constant = p.mask.scalars.empty();
  for (auto& b : p.mask.bounds) constant = constant && as_int(b.base) && as_int(b.limit);
  return constant ? Form::masked : Form::split;
}

// Writes an access under its mask; `access` writes the plain or the masked one and gives what it loads.
// Returns the values with which the code that follows is reached, and from where; an empty value: nothing was
// accessed.
struct Arrival {
  Value value;
  std::string from;
};
template <class F>
std::vector<Arrival> guarded(Place& p, Form form, F access) {
  Writer& w = p.k.w;
  std::string whole = w.new_label("whole"), part = w.new_label("part"), some = w.new_label("some");
  std::string join = w.new_label("join");
  std::vector<Arrival> out;
  auto arm = [&](const std::string& label, bool masked) {
    w.label(label);
    w.open_scope();
    Value v = access(masked);
    w.close_scope();
    out.push_back({v, w.block});
    w.jump(join);
  };
  Value every = all_lanes(p, Within::every);
  std::string before = w.block;  // the mask may itself hold a guarded load, which ends in a block of its own
  w.branch(every, whole, form == Form::split ? part : join);
  arm(whole, false);
  if (form == Form::split) {
    w.label(part);
    w.open_scope();
    w.branch(all_lanes(p, Within::some), some, join);
    w.close_scope();
    before = w.block;
    arm(some, true);
  }
  out.push_back({"", before});
  w.label(join);
  return out;
}

Value load_place(Place& p) {
  Form form = form_of(p);
  if (form == Form::plain) return plain_load(p);
  if (form == Form::masked) return call_masked(p, false, "", lane_mask(p));
  DType t = p.memory();
  Value nothing = t.is_float() ? float_constant(0, t) : int_constant(0, t);
  auto from = guarded(
      p, form, [&](bool masked) { return masked ? call_masked(p, false, "", lane_mask(p)) : plain_load(p); });
  std::string all;
  for (auto& [value, block] : from)
    all += fmt::format("{}[ {}, %{} ]", all.empty() ? "" : ", ", value.empty() ? nothing : value, block);
  return p.k.w.fresh(fmt::format("phi {} {}", type_text(t), all));
}

void store_place(Place& p, const Value& value) {
  Form form = form_of(p);
  if (form == Form::plain) return plain_store(p, value);
  if (form == Form::masked) {
    call_masked(p, true, value, lane_mask(p));
    return;
  }
  guarded(p, form, [&](bool masked) {
    if (masked)
      call_masked(p, true, value, lane_mask(p));
    else
      plain_store(p, value);
    return Value();
  });
}

}  // namespace

Value KernelWriter::address(BufferId buffer, const Expr& index) {
  const BufferInfo& info = f[buffer];
  bool in_arena = is_in_arena(info);
  internal_check(!in_arena || info.address >= 0, "no address for buffer " + info.name);
  auto it = pointers.find(buffer);
  internal_check(in_arena || it != pointers.end(), "no pointer for buffer " + info.name);
  Value base = in_arena ? "%arena" : it->second;
  int64_t size = info.dtype.bytes(), constant = in_arena ? info.address : 0;
  std::string element = memory_text(info.dtype);
  Expr variable = index;
  if (index->dtype.lanes == 1) {
    Offset offset = split_offset(index);
    variable = offset.variable;
    constant += offset.constant * size;
  }
  if (index->dtype.lanes > 1 && constant)
    base = w.pure(fmt::format("getelementptr i8, ptr {}, i64 {}", base, constant));
  if (variable) {
    Value i = expr(variable);
    base =
        w.pure(fmt::format("getelementptr {}, ptr {}, {} {}", element, base, type_text(variable->dtype), i));
  }
  if (index->dtype.lanes > 1 || constant == 0) return base;
  return w.pure(fmt::format("getelementptr i8, ptr {}, i64 {}", base, constant));
}

bool KernelWriter::is_inside(const Load& n) {
  const BufferInfo& info = f[n.buffer];
  if (n.index.empty()) return true;
  int64_t elements = info.elements;
  bool passed = std::ranges::any_of(f.params, [&](auto& p) { return p.buffer == n.buffer; });
  if (elements < 0 && passed) elements = element_count(info);
  Expr last = n.index[0], first = last;
  if (auto steps = last->dtype.lanes > 1 ? read_steps(last) : std::nullopt; steps && steps->stride >= 0) {
    first = steps->base;
    last = steps->base + steps->stride * (n.dtype.lanes - 1);
  }
  if (last->dtype.lanes > 1) return false;
  return range(first).min >= 0 && range(last).max < elements;
}

Value KernelWriter::load(const Load& n) {
  if (n.mask && !n.index.empty() && needs_condition(n.index[0]))
    return expr(tl::select(n.mask, tl::load(f, n.buffer, n.index, n.span), zero(n.dtype)));
  auto repeats =
      n.mask || n.index.empty() || f[n.buffer].dtype.is_bool() ? std::nullopt : read_repeats(n.index[0]);
  if (repeats) {
    int count = n.dtype.lanes / int(repeats->times);
    Expr each = tl::load(f, n.buffer, {ramp(repeats->base, imm(1, repeats->base->dtype), count)}, n.span);
    if (predicate.empty() || is_inside(*each.as<Load>())) {
      std::string lanes;
      for (int l = 0; l < n.dtype.lanes; l++)
        lanes += fmt::format("{}i32 {}", l ? ", " : "", l / repeats->times);
      std::string type = type_text(each->dtype);
      return w.pure(fmt::format("shufflevector {} {}, {} poison, <{} x i32> <{}>", type,
                                load(*each.as<Load>()), type, n.dtype.lanes, lanes));
    }
  }
  Value outer = predicate;
  if (is_inside(n) && (n.index.empty() || may_run_untaken(n.index[0]))) predicate.clear();
  Place p = place_of(*this, n.buffer, n.index, n.dtype, n.mask);
  predicate = outer;
  Value v = load_place(p);
  return n.dtype.is_bool() ? w.compare("icmp ne", p.memory(), v, int_constant(0, p.memory())) : v;
}

// Interleaved vectors, as registers: two of neighbouring halves for every two before, pair by pair.
std::vector<Value> interleaved(KernelWriter& k, const Call& n) {
  DType t = n.args[0]->dtype;
  std::string type = type_text(t), orders[2];
  for (int half = 0; half < 2; half++)
    for (int l = 0; l < t.lanes; l++)
      orders[half] += fmt::format("{}i32 {}", l ? ", " : "", half * t.lanes / 2 + l / 2 + l % 2 * t.lanes);
  std::vector<std::vector<Value>> parts;
  for (auto& a : n.args) parts.push_back({k.expr(a)});
  for (size_t half = parts.size() / 2; half; half /= 2)
    for (size_t i = 0; i < half; i++) {
      std::vector<Value> both;
      for (size_t q = 0; q < parts[i].size(); q++)
        for (auto& order : orders)
          both.push_back(k.w.pure(fmt::format("shufflevector {} {}, {} {}, <{} x i32> <{}>", type,
                                              parts[i][q], type, parts[i + half][q], t.lanes, order)));
      parts[i] = std::move(both);
    }
  return parts[0];
}

bool KernelWriter::needs_condition(const Expr& e) {
  bool found = may_fail(e);
  visit(e, [&](const Load& n) { found = found || !is_inside(n); });
  return found;
}

void KernelWriter::store_where(const Store& n) {
  Stmt inner = tl::store(n.buffer, n.index, n.value, n.span);
  auto* shared = n.mask.as<Broadcast>();
  Expr mask = shared ? shared->value : n.mask;
  if (mask->dtype.lanes == 1) return stmt(if_then(mask, inner));
  predicate = expr(mask);
  predicate_lanes = mask->dtype.lanes;
  store(*inner.as<Store>());
  predicate.clear();
}

void KernelWriter::store(const Store& n) {
  bool fails = n.mask && (may_fail(n.value) || (!n.index.empty() && needs_condition(n.index[0])));
  if (fails) return store_where(n);
  DType t = n.value->dtype;
  auto* all = n.value.as<Call>();
  auto* where = n.index.empty() ? nullptr : n.index[0].as<Ramp>();
  bool many = all && all->intrinsic == &interleave && all->args[0]->dtype.lanes > 1 && !t.is_bool() &&
              !n.mask && predicate.empty() && t.lanes * t.bits > 8 * target.vector_bytes &&
              std::has_single_bit(all->args.size());
  if (many && where &&
      is_int(where->stride, 1)) {  // a vector so long is no register: LLVM takes its time over it
    DType each = all->args[0]->dtype;
    int64_t at = 0;
    for (const Value& piece : interleaved(*this, *all)) {
      Place p = place_of(*this, n.buffer, {ramp(where->base + at, where->stride, each.lanes)}, each, {});
      store_place(p, piece);
      at += each.lanes;
    }
    return;
  }
  Value v = expr(n.value);
  Place p = place_of(*this, n.buffer, n.index, t, n.mask);
  if (t.is_bool()) v = convert(w, t, v, p.memory(), false);
  store_place(p, v);
}

}  // namespace tl::llvm
