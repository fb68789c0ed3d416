// flatten_buffers: accesses to tensors get one index, in elements, from their strides or their annotated
// layout.  After guard_bounds, which needs the index of each dimension; before vectorize, which asks whether
// the one index is contiguous.
//
// Other shapes of a buffer (T.reshape, T.view) end here: one index in elements says the same of both.  Only
// an alias of another type in shared memory stays, as a buffer at the same address.  Elsewhere another type
// is a matter of bits, taken from the elements of the one type that is there.
//
//   A[i, k*32 + j]   ->   A[i*1024 + k*32 + j]
//   V[i] (u8 of u32) ->   cast<u8>(W[i // 4] >> i % 4 * 8)
#include "base/error.h"
#include "ir/rewrite.h"
#include "pass/passes.h"

namespace tl {
namespace {

std::vector<Expr> flat(const BufferInfo& info, const std::vector<Expr>& index) {
  std::vector<Expr> wide;
  for (auto& i : index) wide.push_back(i->dtype == i64 ? i : cast(i64, i));
  return {tensor_offset(info, wide)};
}

BufferId storage_of(const Function& f, BufferId b) {
  BufferId root = f[b].alias_of;
  return root && f[root].dtype == f[b].dtype ? root : b;
}

// ── elements under another type ───────────────────────────────────────────────────────────────────────
Expr as_bits(const Expr& e, DType type, Span span) {
  return e->dtype == type ? e : call(*find_intrinsic("reinterpret"), {e}, type, span);
}

DType bits_of(DType t) { return t.bits == 8 ? u8 : t.bits == 16 ? u16 : t.bits == 32 ? u32 : u64; }

struct OtherType {
  const Function& f;
  BufferId root;
  DType of, to;      // of the registers, of the alias
  DType word, part;  // the same as unsigned integers

  OtherType(const Function& f, BufferId alias)
      : f(f),
        root(f[alias].alias_of),
        of(f[root].dtype),
        to(f[alias].dtype),
        word(bits_of(of)),
        part(bits_of(to)) {}

  int ratio() const { return std::max(of.bits, to.bits) / std::min(of.bits, to.bits); }
  Expr at(const Expr& index, Span span, const Expr& mask, const Claim& claim = {}) const {
    return as_bits(load(of, root, {index}, span, mask, claim), word, span);
  }
  Expr shift(const Expr& index, DType type) const {
    return cast(type, floormod(index, ratio())) * imm(to.bits, type);
  }

  Expr access(const Load& n) const {
    const Expr& i = n.index[0];
    if (of.bits == to.bits) return as_bits(load(of, root, n.index, n.span, n.mask, n.claim), to, n.span);
    if (to.bits < of.bits) {
      Expr whole = at(floordiv(i, ratio()), n.span, n.mask, n.claim);
      return as_bits(cast(part, binary(BinaryOp::shr, whole, shift(i, word), n.span)), to, n.span);
    }
    Expr whole = {};
    for (int k = 0; k < ratio(); k++) {
      Expr one = cast(part, at(i * ratio() + k, n.span, n.mask, k ? Claim{} : n.claim));
      if (k) one = binary(BinaryOp::shl, one, imm(k * of.bits, part), n.span);
      whole = whole ? binary(BinaryOp::bit_or, whole, one, n.span) : one;
    }
    return as_bits(whole, to, n.span);
  }

  Stmt access(const Store& n) const {
    const Expr& i = n.index[0];
    if (of.bits == to.bits)
      return store(root, n.index, as_bits(n.value, of, n.span), n.span, n.mask, n.claim);
    if (to.bits < of.bits) {
      if (f[root].scope == Scope::global)
        fail(n.span,
             "this stores a part of an element of {}, and other threads may write to the same {}; copy "
             "through a shared buffer, and view that as {}",
             f[root].name, to_string(of), to_string(to));
      Expr place = floordiv(i, ratio()), by = shift(i, word);
      Expr ones = binary(BinaryOp::shl, imm((int64_t(1) << to.bits) - 1, word), by, n.span);
      Expr kept =
          binary(BinaryOp::bit_and, at(place, n.span, n.mask), unary(UnaryOp::bit_not, ones, n.span), n.span);
      Expr given = binary(BinaryOp::shl, cast(word, as_bits(n.value, part, n.span)), by, n.span);
      Expr whole = as_bits(binary(BinaryOp::bit_or, kept, given, n.span), of, n.span);
      return store(root, {place}, std::move(whole), n.span, n.mask, n.claim);
    }
    Expr given = var("bits", part);
    std::vector<Stmt> all{let(given, as_bits(n.value, part, n.span), n.span)};
    for (int k = 0; k < ratio(); k++) {
      Expr one = k ? binary(BinaryOp::shr, given, imm(k * of.bits, part), n.span) : given;
      all.push_back(store(root, {i * ratio() + k}, as_bits(cast(word, one), of, n.span), n.span, n.mask,
                          k ? Claim{} : n.claim));
    }
    return block(std::move(all), n.span);
  }
};

Expr at_index(const Load& n, BufferId to, std::vector<Expr> index) {
  return load(n.dtype, to, std::move(index), n.span, n.mask, n.claim);
}
Stmt at_index(const Store& n, BufferId to, std::vector<Expr> index) {
  return store(to, std::move(index), n.value, n.span, n.mask, n.claim);
}

bool is_other_type(const Function& f, BufferId b) {
  BufferId root = f[b].alias_of;
  return root && f[root].dtype != f[b].dtype && f[b].scope != Scope::shared;
}

}  // namespace

Function flatten_buffers(Function f, const Target&) {
  // A load or a store whose children are flat: of the buffer that is there, at one index.
  auto flattened = [&](const auto& n, auto inner) {
    bool is_flat = f[n.buffer].scope != Scope::global, other = is_other_type(f, n.buffer);
    BufferId to = other ? n.buffer : storage_of(f, n.buffer);
    auto one =
        is_flat && to == n.buffer ? inner : at_index(n, to, is_flat ? n.index : flat(f[n.buffer], n.index));
    using N = std::remove_cvref_t<decltype(n)>;
    return other ? OtherType(f, n.buffer).access(*one.template as<N>()) : one;
  };
  for (Kernel& k : f.kernels)
    k.body = rewrite(
        k.body,
        [&](const Load& n, Rewriter& self) -> Expr {
          Expr inner = self.children(n);
          return flattened(*inner.as<Load>(), inner);
        },
        [&](const Store& n, Rewriter& self) -> Stmt {
          Stmt inner = self.children(n);
          return flattened(*inner.as<Store>(), inner);
        },
        [&](const Call& n, Rewriter& self) -> Expr {
          const Load* place = place_of(Expr(&n));
          if (place && is_other_type(f, place->buffer))
            fail(n.span,
                 "the address of {} is taken, but it is a view of the elements of {} as {}: they are {}, and "
                 "only elements of that type have addresses; copy them to a buffer of {}",
                 f[place->buffer].name, f[f[place->buffer].alias_of].name, to_string(f[place->buffer].dtype),
                 to_string(f[f[place->buffer].alias_of].dtype), to_string(f[place->buffer].dtype));
          return self.children(n);
        },
        [&](const Alloc& n, Rewriter& self) -> Stmt {
          bool is_there = storage_of(f, n.buffer) == n.buffer && !is_other_type(f, n.buffer);
          return is_there ? self.children(n) : block({}, n.span);
        });
  for (size_t i = 0; i < f.buffers.size(); i++)  // nothing names them any more
    if (BufferId b{int(i)}; storage_of(f, b) != b || is_other_type(f, b)) f[b].alias_of = {};
  return f;
}

}  // namespace tl
