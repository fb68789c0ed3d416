#include "pass/splice.h"

#include "ir/build.h"

namespace tl {
namespace {

struct Splicer final : Rewriter {
  const Splice& f;
  explicit Splicer(const Splice& f) : f(f) {}
  using Rewriter::operator();
  Stmt operator()(const Stmt& s) override { return block(replaced(s), s->span); }
  std::vector<Stmt> replaced(const Stmt& s) {
    return f(s, s.as<Block>() ? inside(*s.as<Block>()) : children(s));
  }
  Stmt inside(const Block& b) {
    std::vector<Stmt> out;
    for (auto& inner : b.stmts)
      for (auto& x : replaced(inner)) out.push_back(x);
    return block(std::move(out), b.span);
  }
};

}  // namespace

Stmt splice(const Stmt& body, const Splice& f) { return Splicer(f)(body); }

}  // namespace tl
