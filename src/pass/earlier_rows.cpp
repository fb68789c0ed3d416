#include "pass/earlier_rows.h"

#include <algorithm>

#include "ir/rewrite.h"
#include "target/effects.h"

namespace tl {
namespace {

using AsyncKind = AsyncInstr::AsyncKind;

bool is_missing_fence(const Expr& e, const Target& target) {
  auto* c = e.as<Call>();
  const AsyncInstr* row = c ? async_row_of(*c->intrinsic) : nullptr;
  if (!row || (!row->fences() && row->does != AsyncKind::fence_init)) return false;
  return std::ranges::none_of(target.async, [](auto& mine) { return mine.proxy == Proxy::async; });
}

}  // namespace

Stmt with_earlier_rows(const Stmt& body, const Target& target) {
  return rewrite(
      body,
      [&](const Eval& n, Rewriter& self) -> Stmt {
        return is_missing_fence(n.value, target) ? block({}, n.span) : self.children(n);
      },
      [&](const Call& n, Rewriter& self) -> Expr {
        const AsyncInstr* row = async_row_of(*n.intrinsic);
        if (!row || !target.lacks(*n.intrinsic)) return self.children(n);
        auto same = [&](const AsyncInstr& mine) {
          return mine.does == row->does && mine.operands == row->operands && mine.bytes == row->bytes &&
                 mine.gives_state() == row->gives_state();
        };
        auto mine = std::ranges::find_if(target.async, same);
        if (mine == target.async.end()) return self.children(n);
        std::vector<Expr> args;
        for (auto& a : n.args) args.push_back(self(a));
        return call(mine->intrinsic, std::move(args), n.dtype, n.span);
      });
}

}  // namespace tl
