// begin_copies: the stores that plan_schedule gave to cp.async become its calls, each of 4, 8 or 16 bytes;
// what lies outside of the tensor is 0 by the instruction.  A store that cannot be one, as where rows are not
// aligned in the generic variant, stays a store, and says so.  After vectorize and legalize_dtypes, by which
// it is known how many bytes each store has.
//
//   As[o : ramp 8] = A[p : ramp 8] mask(p < n)   ->   cp_async_16_zfill(address_of(As[o]), address_of(A[p]),
//                                                                       select(p < n, 16, 0))
#include "ir/rewrite.h"
#include "pass/passes.h"
#include "target/effects.h"

namespace tl {
namespace {

// The first of consecutive elements; null where they are not.
Expr first_of(const Expr& index) {
  if (index->dtype.lanes == 1) return index;
  auto* r = index.as<Ramp>();
  return r && is_int(r->stride, 1) ? r->base : Expr();
}

struct CopyBeginner {
  Function& f;
  const Target& target;

  const AsyncInstr* row_for(int64_t bytes, bool fills) const {
    for (auto& row : target.async)
      if (row.does == AsyncInstr::AsyncKind::copy && row.token == Token::copies && row.bytes == bytes &&
          (row.intrinsic.arity == 3) == fills)
        return &row;
    return nullptr;
  }

  Expr place(DType type, BufferId buffer, const Expr& index, Span span, const Claim& claim) const {
    return address(load(type.scalar(), buffer, {index}, span, {}, claim), "", span);
  }

  // A tile wholly outside of its tensor, of which peel_blocks has made a branch: there is nothing to copy.
  static bool lies_outside(const Store& s) {
    return !contains(s.value, [](const Load&) { return true; });
  }

  // The call; or why there is none.
  std::variant<Stmt, std::string> begun(const Store& s) const {
    auto* value = s.value.as<Load>();
    if (!value || f[value->buffer].scope != Scope::global || f[s.buffer].scope != Scope::shared)
      return "it does not move elements of a tensor";
    if (f[value->buffer].safe_value) return fmt::format("{} has a safe value", f[value->buffer].name);
    Expr to = first_of(s.index[0]), from = first_of(value->index[0]);
    int64_t bits = int64_t(value->dtype.bits) * value->dtype.lanes;
    bool fills = bool(value->mask);
    const AsyncInstr* row = bits % 8 ? nullptr : row_for(bits / 8, fills);
    if (!to || !from)
      return fmt::format("the {} bits that a thread moves at once are not contiguous and aligned in {}", bits,
                         f[to ? value->buffer : s.buffer].name);
    if (!row)
      return fmt::format("{} bits at a time are contiguous and aligned, and 32, 64 or 128 are needed", bits);
    if ((s.mask && s.mask->dtype.lanes > 1) || (fills && value->mask->dtype.lanes > 1))
      return "a part of a vector may lie outside";
    std::vector<Expr> args{
        place(s.value->dtype, s.buffer, to, s.span, s.claim),
        place(value->dtype, value->buffer, from, value->span, fills ? Claim() : value->claim)};
    if (fills) args.push_back(select(value->mask, imm(row->bytes, i32), imm(0, i32)));
    return if_then(s.mask, eval(call(row->intrinsic, std::move(args)), s.span), {}, s.span);
  }

  Stmt run(const Stmt& body) {
    return rewrite(body, [&](const For& n, Rewriter& self) -> Stmt {
      if (!n.attrs.find("engine")) return self.children(n);
      std::string why;
      Stmt inner = substitute(n.body, {{n.var.get(), n.min}});
      Stmt s = rewrite(inner, [&](const Store& store, Rewriter&) -> Stmt {
        if (lies_outside(store)) return Stmt(&store);
        auto result = begun(store);
        if (auto* reason = std::get_if<std::string>(&result)) {
          why = *reason;
          return Stmt(&store);
        }
        return std::get<Stmt>(result);
      });
      if (!why.empty())
        f.notes.push_back({.pass = "begin_copies",
                           .subject = "copy",
                           .text = fmt::format("is not asynchronous here: {}", why),
                           .span = n.span,
                           .refusal = true,
                           .asked = true});
      return s;
    });
  }
};

}  // namespace

Function begin_copies(Function f, const Target& target) {
  for (Kernel& k : f.kernels) k.body = CopyBeginner{f, target}.run(k.body);
  return f;
}

}  // namespace tl
