// The one walk over statements with their context: the loops and conditions around a statement, which names
// are visible, what is known of them, and which team of threads runs it.
//
// It is total: a kind of statement that it forgets does not compile. An analysis gives it two functions and
// looks at the statements that concern it; `effects_of` (target/effects.h) says what a statement does to
// memory.
#pragma once

#include "arith/prove.h"
#include "ir/rewrite.h"

namespace tl {

struct WalkContext {
  Team team = {};
  Expr thread = {};                       // the block's thread index, for a team's range; null: not needed
  std::vector<const For*> loops = {};     // around, outermost first
  std::vector<const While*> whiles = {};  // likewise
  std::vector<std::pair<Expr, bool>> conditions = {};  // of the Ifs around, and whether they hold
  std::vector<const Let*> lets = {};                   // visible here
  Facts facts = {};                                    // where they are asked for
  bool learns = false;                                 // are they?

  // Do statements in `inner` run only where those here do, in the same iteration of each loop?
  bool encloses(const WalkContext& inner) const;
};

// Inside a loop, an arm, a group or a block, as long as this lives.
class Inside {
 public:
  explicit Inside(WalkContext& at);  // a block
  Inside(WalkContext& at, const For& loop);
  Inside(WalkContext& at, const While& loop);
  Inside(WalkContext& at, const Expr& condition, bool holds);
  Inside(WalkContext& at, const Group& group);
  ~Inside();
  Inside(const Inside&) = delete;

 private:
  WalkContext& at;
  size_t loops, whiles, conditions, lets;
  Team team;
  std::optional<Facts> facts;
};

// Adds a Let or an assumption to what is known, until the block ends.
void note_statement(WalkContext& at, const Stmt& s);

// `enter` is called at every statement, parents first, and says whether the walk goes on below it; if so,
// `leave` is called when all below it is done.
using Enter = std::function<bool(const Stmt&, const WalkContext&)>;
using Leave = std::function<void(const Stmt&, const WalkContext&)>;
void walk(const Stmt& body, WalkContext at, const Enter& enter, const Leave& leave = {});

// A rewriter with the same context, facts included.
struct ScopedRewriter : Rewriter {
  WalkContext context = {.learns = true};
  Facts& facts = context.facts;
  // What holds in all of a kernel.
  void enter(const Function& f, const Kernel& k) {
    facts = facts_of(f, k);
    context.team = whole_block(k);
    context.thread = k.thread;
  }

  using Rewriter::operator();
  Stmt operator()(const Stmt& s) override;

 protected:
  // What a pass does at a statement that is no If; the default walks on.
  virtual Stmt at(const Stmt& s) { return children(s); }
};

}  // namespace tl
