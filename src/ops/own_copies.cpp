// What cp.async does, element by element, for executors and chips that do not have it.
#include "ops/own_copies.h"

#include "ir/rewrite.h"
#include "target/effects.h"

namespace tl {
namespace {

// The element so many behind this one in row-major order.
std::vector<Expr> behind(const BufferInfo& info, const std::vector<Expr>& index, const Expr& step,
                         int64_t count) {
  std::vector<Expr> at = index;
  size_t last = at.size() - 1;
  at[last] = at[last] + step;
  for (size_t d = last; d > 0; d--) {
    auto extent = as_int(info.shape[d]);
    if (extent && *extent % count == 0) break;  // addresses are aligned, so that no row ends within
    at[d - 1] = at[d - 1] + floordiv(at[d], cast(at[d]->dtype, info.shape[d]));
    at[d] = floormod(at[d], cast(at[d]->dtype, info.shape[d]));
  }
  return at;
}

Stmt copied_in_order(const Function& f, const Call& c, const AsyncInstr& row, Span span) {
  const Load *to = place_of(c.args[0]), *from = place_of(c.args[1]);
  const BufferInfo& info = f[to->buffer];
  int64_t count = row.bytes * 8 / info.dtype.bits;
  Expr i = var("i");
  Expr value = load(f, from->buffer, behind(f[from->buffer], from->index, i, count), span);
  if (c.args.size() > 2) {
    const Expr& given = c.args[2];
    auto* select_ = given.as<Select>();
    bool all_or_none = select_ && is_int(select_->a, row.bytes) && is_int(select_->b, 0);
    Expr exists = all_or_none ? select_->cond : lt(i * info.dtype.bits, cast(i64, given) * 8);
    value = select(exists, value, zero(info.dtype));
  }
  Stmt s = store(to->buffer, behind(info, to->index, i, count), value, span);
  return for_loop(i, imm(0), imm(count), Loop::vectorized, s, span);
}

}  // namespace

bool is_async_copy(const Stmt& s) {
  auto* t = s.as<Tile>();
  return t && t->op->name == "async_copy";
}

Stmt with_copies_in_order(const Function& f, const Stmt& body) {
  using enum AsyncInstr::AsyncKind;
  // A loop with groups of its own runs in order, and its lists count statements that are gone.
  auto without_lists = [](const For& n, Rewriter& self) -> Stmt {
    Stmt walked = self.children(n);
    bool groups = n.loop == Loop::pipelined && contains(n.body, [](const Call& c) {
                    const AsyncInstr* row = async_row_of(*c.intrinsic);
                    return row && row->token == Token::copies;
                  });
    if (!groups) return walked;
    auto* loop = walked.as<For>();
    Attrs attrs = loop->attrs;
    for (auto* name : {"order", "stage", "group", "sync"}) attrs.entries.erase(name);
    return for_loop(loop->var, loop->min, loop->extent, loop->loop, loop->body, loop->span, attrs);
  };
  return rewrite(body, without_lists, [&](const Eval& n, Rewriter& self) -> Stmt {
    auto* c = n.value.as<Call>();
    const AsyncInstr* row = c ? async_row_of(*c->intrinsic) : nullptr;
    if (!row || row->token != Token::copies) return self.children(n);
    if (row->does != copy) return block({}, n.span);
    const Load *to = place_of(c->args[0]), *from = place_of(c->args[1]);
    bool plain = to && from && f[to->buffer].dtype == f[from->buffer].dtype;
    return plain ? copied_in_order(f, *c, *row, n.span) : self.children(n);
  });
}

}  // namespace tl
