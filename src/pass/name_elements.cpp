// An element of a fragment in such an index is read before the operator.
//
//   copy(X[s[1] : +16], Y)    ->    at = s[1]
//                                   copy(X[at : +16], Y)
#include "pass/name_elements.h"

#include "ir/build.h"
#include "ir/rewrite.h"

namespace tl {

Stmt name_elements(const Function& f, const Stmt& body) {
  return rewrite(body, [&](const Tile& t, Rewriter& self) -> Stmt {
    if (t.body) return self.children(t);
    std::vector<Stmt> stmts;
    auto named = [&](const Expr& e) {
      return rewrite(e, [&](const Load& n, Rewriter& inner) -> Expr {
        if (f[n.buffer].scope != Scope::fragment) return inner.children(n);
        Expr name = var("at", n.dtype, t.span);
        stmts.push_back(let(name, inner.children(n), t.span));
        return name;
      });
    };
    std::vector<Operand> operands = t.operands;
    for (auto& o : operands)
      if (auto* r = std::get_if<Region>(&o))
        for (auto& range : r->ranges) range.min = named(range.min);
    if (stmts.empty()) return Stmt(&t);
    stmts.push_back(tile(*t.op, std::move(operands), t.attrs, t.span));
    return block(std::move(stmts), t.span);
  });
}

}  // namespace tl
