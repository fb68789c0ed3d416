// legalize_dtypes: storage types become types that every language has. A buffer of 8-bit floats holds bytes
// from here on, one of tf32 holds f32, and casts become calls of to_X and from_X (ir/intrinsic_narrow.cpp).
// In tensors and shared memory elements of 4 bits are packed two to a byte: an access takes whole bytes,
// which are packed and unpacked here; in registers each has a byte of its own.  After vectorize, whose
// vectors are the whole bytes; before the index arithmetic is narrowed.
//
//   C[i] = cast<e4m3>(A[i])         ->   C[i] = to_e4m3<u8>(A[i], 0, 1)
//   B[ramp(8*i, 1, 8)]  (of i4)     ->   interleave<u8x8>(B[ramp(4*i, 1, 4)] & 15, B[…] >> 4)
#include "arith/prove.h"
#include "base/error.h"
#include "ir/packed.h"
#include "ir/text.h"
#include "pass/passes.h"
#include "pass/walk.h"

namespace tl {
namespace {

// What stands for a storage type in memory and in registers.
DType plain(DType t) {
  if (!t.is_storage()) return t;
  return (t.kind == DType::Kind::tfloat ? f32 : u8).with_lanes(t.lanes);
}

const Intrinsic& row_of(std::string_view direction, DType t) {
  const Intrinsic* row = find_intrinsic(std::string(direction) + to_string(t.scalar()));
  internal_check(row, "a conversion of " + to_string(t));
  return *row;
}

bool is_pairs(const BufferInfo& b) {
  return b.dtype.is_packed() && (b.scope == Scope::global || b.scope == Scope::shared);
}

struct Expander final : ScopedRewriter {
  const Function& f;
  const Target& target;
  const Kernel* kernel = nullptr;
  std::map<const ExprNode*, Expr> vars = {};
  Expander(const Function& f, const Target& target) : f(f), target(target) {}
  using ScopedRewriter::operator();

  // ── casts ───────────────────────────────────────────────────────────────────────────────────────────
  // `code` is what `plain` stands for; the value in the type in which it is computed with.
  static Expr decoded(DType t, const Expr& code, Span at) {
    int lanes = code->dtype.lanes;
    if (t.kind == DType::Kind::tfloat) return code;
    if (t.is_float()) return call(row_of("from_", t), {code}, f32.with_lanes(lanes), at);
    if (t.is_unsigned()) return cast(i32.with_lanes(lanes), code, at);
    Expr wide = cast(i32.with_lanes(lanes), code, at), sign = imm(8, wide->dtype);
    return binary(BinaryOp::sub, binary(BinaryOp::bit_xor, wide, sign, at), sign, at);
  }
  static Expr encoded(DType t, const Expr& value, Span at) {
    DType code = plain(t).with_lanes(value->dtype.lanes);
    if (t.is_float()) {
      DType bits = (t.kind == DType::Kind::tfloat ? u32 : u8).with_lanes(code.lanes);
      Expr rounding = imm(int64_t(default_rounding(t)), i32), saturate = imm(1, i32);
      Expr x = call(row_of("to_", t),
                    {as_single(value, at), broadcast(rounding, code.lanes), broadcast(saturate, code.lanes)},
                    bits, at);
      return bits == code ? x : call(*find_intrinsic("reinterpret"), {x}, code, at);
    }
    Expr whole = value->dtype.is_float() ? cast(i32.with_lanes(code.lanes), value, at) : value;
    return binary(BinaryOp::bit_and, cast(code, whole, at), imm(15, code), at);
  }
  Expr cast_of(const Cast& n) {
    DType from = n.a->dtype, to = n.dtype;
    Expr a = (*this)(n.a);
    if (from.is_storage()) a = decoded(from, a, n.span);
    return to.is_storage() ? encoded(to, a, n.span) : cast(to, a, n.span);
  }

  // ── pairs ───────────────────────────────────────────────────────────────────────────────────────────
  bool is_even(const Expr& e) const {
    Modular m = modular_of(e, facts);
    return m.modulus % 2 == 0 && floor_mod(m.remainder, 2) == 0;
  }
  // The first byte of a run of whole bytes; null where the access is none.
  Expr first_byte(const Expr& index) const {
    auto* r = index.as<Ramp>();
    bool whole = r && is_int(r->stride, 1) && r->dtype.lanes % 2 == 0 && is_even(r->base);
    return whole ? simplify(floordiv(r->base, 2), facts) : Expr();
  }
  static Expr run(const Expr& base, int lanes) {
    return lanes == 1 ? base : ramp(base, imm(1, base->dtype), lanes);
  }
  static Expr half(const Expr& byte, bool high, Span at) {
    DType t = byte->dtype;
    return high ? binary(BinaryOp::shr, byte, imm(4, t), at)
                : binary(BinaryOp::bit_and, byte, imm(15, t), at);
  }
  // One condition for both elements of each byte; null where they may differ.
  Expr mask_of_bytes(const Expr& mask, int lanes) const {
    if (!mask || mask->dtype.lanes == 1) return mask;
    if (auto* b = mask.as<Broadcast>()) return broadcast(b->value, lanes);
    auto* n = mask.as<Binary>();
    if (n && n->op == BinaryOp::logical_and) {
      Expr x = mask_of_bytes(n->a, lanes), y = mask_of_bytes(n->b, lanes);
      return x && y ? binary(BinaryOp::logical_and, x, y, n->span) : Expr();
    }
    if (!n || n->op != BinaryOp::lt) return {};
    auto* r = n->a.as<Ramp>();
    auto* limit = n->b.as<Broadcast>();
    bool even = r && limit && is_int(r->stride, 1) && is_even(r->base) && is_even(limit->value);
    if (!even) return {};
    Expr base = simplify(floordiv(r->base, 2), facts), end = simplify(floordiv(limit->value, 2), facts);
    return lt(run(base, lanes), broadcast(end, lanes));
  }

  // Is each byte that is written here that of one block and of one thread?  Block by block, then thread by
  // thread: what a step of the variable skips is an even number of elements, and all others of the index stay
  // within such a piece.
  bool has_owners(Expr index, Scope scope) const {
    std::vector<Expr> vars = scope == Scope::global ? kernel->grid_vars : std::vector<Expr>();
    if (target.has_threads()) vars.push_back(kernel->thread);
    Facts inside = facts;
    for (auto& v : vars) {
      Interval values = interval_of(v, facts);
      if (values.bounded() && values.min == values.max) continue;
      auto linear = linear_in(index, v, facts);
      if (!linear || linear->stride <= 0 || linear->stride % 2) return false;
      inside.bind(v, Interval::point(0));
      Interval rest = interval_of(simplify(linear->base, inside), inside);
      if (!rest.bounded() || rest.min < 0 || rest.min / linear->stride != rest.max / linear->stride)
        return false;
      index = linear->base;
    }
    return true;
  }

  Expr load_pairs(const Load& n, const Expr& index, const Expr& mask, const Claim& claim) {
    int lanes = n.dtype.lanes;
    Expr at = first_byte(index), bytes_mask = at ? mask_of_bytes(mask, lanes / 2) : Expr();
    if (at && (bytes_mask || !mask)) {
      Expr bytes = load(u8, n.buffer, {run(at, lanes / 2)}, n.span, bytes_mask, claim);
      return call(interleave, {half(bytes, false, n.span), half(bytes, true, n.span)}, u8.with_lanes(lanes),
                  n.span);
    }
    DType t = index->dtype, code = u8.with_lanes(lanes);
    Expr two = imm(2, t), byte = load(u8, n.buffer, {simplify(binary(BinaryOp::floordiv, index, two), facts)},
                                      n.span, mask, claim);
    Expr odd = cast(code, simplify(binary(BinaryOp::floormod, index, two), facts), n.span);
    Expr shift = binary(BinaryOp::mul, odd, imm(4, code), n.span);
    return binary(BinaryOp::bit_and, binary(BinaryOp::shr, byte, shift, n.span), imm(15, code), n.span);
  }

  Stmt store_pairs(const Store& n, const Expr& index, const Expr& value, const Expr& mask,
                   const Claim& claim) {
    int lanes = value->dtype.lanes;
    const BufferInfo& info = f[n.buffer];
    Expr at = first_byte(index), bytes_mask = at ? mask_of_bytes(mask, lanes / 2) : Expr();
    if (at && (bytes_mask || !mask)) {
      DType t = u8.with_lanes(lanes / 2);
      Expr low = call(even_lanes, {value}, t, n.span), high = call(odd_lanes, {value}, t, n.span);
      Expr bytes = binary(BinaryOp::bit_or, low, binary(BinaryOp::shl, high, imm(4, t), n.span), n.span);
      return store(n.buffer, {run(at, lanes / 2)}, bytes, n.span, bytes_mask, claim);
    }
    if (lanes > 1 || !has_owners(index, info.scope))
      fail(
          n.span,
          "{} has packed type {} (two elements per byte), but here {} stored: two threads could write one "
          "byte at once. Let the innermost parallel loop or a tile operator write an even number of "
          "neighbours of the last dimension, beginning at an even index; let one thread write whole rows, or "
          "all; or write to an i8 tile, and copy that",
          info.name, to_string(info.dtype),
          mask && at ? "the two elements of a byte have different conditions when" : "single elements are");
    Expr where = simplify(floordiv(index, 2), facts), odd = simplify(floormod(index, 2), facts);
    Expr shift = binary(BinaryOp::mul, cast(u8, odd), imm(4, u8)),
         old = load(u8, n.buffer, {where}, n.span, mask, claim);
    Expr keep = unary(UnaryOp::bit_not, binary(BinaryOp::shl, imm(15, u8), shift));
    Expr byte =
        binary(BinaryOp::bit_or, binary(BinaryOp::bit_and, old, keep), binary(BinaryOp::shl, value, shift));
    return store(n.buffer, {where}, byte, n.span, mask, claim);
  }

  // ── the walk ────────────────────────────────────────────────────────────────────────────────────────
  std::vector<Expr> all(const std::vector<Expr>& list) {
    std::vector<Expr> out;
    for (auto& e : list) out.push_back((*this)(e));
    return out;
  }
  Claim claim_of(Claim claim) {
    claim.index = all(claim.index);
    if (claim && is_pairs(f[claim.buffer])) {  // whose last extent will be in bytes
      Expr& last = claim.index.back();
      last = simplify(binary(BinaryOp::floordiv, last, imm(2, last->dtype)), facts);
    }
    if (claim.where) claim.where = (*this)(claim.where);
    return claim;
  }
  Expr load_of(const Load& n) {
    std::vector<Expr> index = all(n.index);
    Expr mask = n.mask ? (*this)(n.mask) : n.mask;
    if (is_pairs(f[n.buffer])) return load_pairs(n, index.at(0), mask, claim_of(n.claim));
    return load(plain(n.dtype.scalar()), n.buffer, index, n.span, mask, claim_of(n.claim));
  }
  Expr call_of(const Call& n) {
    if (n.intrinsic == &address_of) {
      auto& at = *n.args[0].as<Load>();
      std::vector<Expr> index = all(at.index);
      std::vector<Expr> args = n.args;
      if (args.size() > 2) args[2] = (*this)(args[2]);
      if (is_pairs(f[at.buffer])) {
        Expr first = index.at(0);
        index = {simplify(floordiv(first, 2), facts)};
        if (args.size() > 2)
          args[2] = simplify(floordiv(floormod(first, 2) + cast(i64, args[2]) + 1, 2), facts);
      }
      args[0] = load(plain(at.dtype.scalar()), at.buffer, index, at.span,
                     at.mask ? (*this)(at.mask) : at.mask, claim_of(at.claim));
      return call(*n.intrinsic, std::move(args), n.dtype, n.span);
    }
    std::vector<Expr> args = all(n.args);
    DType type = plain(n.dtype);
    bool same_bits = n.intrinsic->name == "reinterpret" && args[0]->dtype == type;
    return same_bits ? args[0] : call(*n.intrinsic, std::move(args), type, n.span);
  }

  Expr operator()(const Expr& e) override {
    if (auto* n = e.as<Cast>(); n && (n->dtype.is_storage() || n->a->dtype.is_storage())) return cast_of(*n);
    if (auto* n = e.as<Load>(); n && f[n->buffer].dtype.is_storage()) return load_of(*n);
    if (auto* n = e.as<Call>()) return call_of(*n);
    if (auto* n = e.as<Select>()) return select((*this)(n->cond), (*this)(n->a), (*this)(n->b), n->span);
    if (auto* n = e.as<Broadcast>()) return broadcast((*this)(n->value), n->dtype.lanes, n->span);
    if (!e->dtype.is_storage()) return children(e);
    if (auto* n = e.as<FloatImm>())
      return n->dtype == tf32 ? fimm(n->value, f32, n->span)
                              : imm(int64_t(float_bits(n->value, n->dtype)), u8, n->span);
    if (auto* n = e.as<IntImm>()) return imm(n->value & 15, u8, n->span);
    auto* n = e.as<Var>();
    internal_check(n, "a storage type where nothing computes with it");
    Expr& v = vars[n];
    if (!v) v = var(n->hint, plain(n->dtype), n->span);
    return v;
  }

  Stmt at(const Stmt& s) override {
    if (auto* n = s.as<Let>(); n && n->var->dtype.is_storage())
      return let((*this)(n->var), (*this)(n->value), n->span);
    auto* n = s.as<Store>();
    if (!n || !f[n->buffer].dtype.is_storage()) return children(s);
    std::vector<Expr> index = all(n->index);
    Expr value = (*this)(n->value), mask = n->mask ? (*this)(n->mask) : n->mask;
    if (is_pairs(f[n->buffer])) return store_pairs(*n, index.at(0), value, mask, claim_of(n->claim));
    return store(n->buffer, index, value, n->span, mask, claim_of(n->claim));
  }
};

Expr halved(const Expr& e) {
  auto v = as_int(e);
  internal_check(v.has_value(), "a packed extent that is no constant");
  return imm((*v + 1) / 2);
}

void expand_buffer(BufferInfo& b) {
  if (!b.dtype.is_storage()) return;
  if (b.scope == Scope::global || is_pairs(b)) b.holds = b.dtype;
  if (is_pairs(b)) {
    if (b.scope == Scope::global) check_packed(b);
    if (!b.shape.empty()) b.shape.back() = halved(b.shape.back());
    for (size_t d = 0; d + 1 < b.strides.size(); d++) b.strides[d] = halved(b.strides[d]);
    if (b.elements >= 0) b.elements = (b.elements + 1) / 2;
    if (b.layout) b.layout.reset();  // it says where elements lie, and has done its work
  }
  b.dtype = plain(b.dtype);
}

}  // namespace

Function legalize_dtypes(Function f, const Target& target) {
  bool none = true;
  for (auto& b : f.buffers) none &= !b.dtype.is_storage();
  for (auto& k : f.kernels) {
    visit(k.body, [&](const Cast& n) { none &= !n.dtype.is_storage() && !n.a->dtype.is_storage(); });
    visit(k.body, [&](const Let& n) { none &= !n.var->dtype.is_storage(); });
  }
  if (none) return f;
  for (Kernel& k : f.kernels) {
    Expander expander(f, target);
    expander.enter(f, k);
    expander.kernel = &k;
    k.body = expander(k.body);
  }
  for (BufferInfo& b : f.buffers) expand_buffer(b);
  return f;
}

}  // namespace tl
