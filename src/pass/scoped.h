// A rewriter that knows, at each point of the walk, what holds of the variables in scope.
#pragma once
#include "arith/prove.h"
#include "ir/rewrite.h"

namespace tl {

struct ScopedRewriter : Rewriter {
  Facts facts;
  std::vector<const For*> loops;  // enclosing, outermost first

  using Rewriter::operator();
  Stmt operator()(const Stmt& s) override;

 protected:
  // What a pass does at a statement that is no If; the default walks on.
  virtual Stmt at(const Stmt& s) { return children(s); }
};

}  // namespace tl
