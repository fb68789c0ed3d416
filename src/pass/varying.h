// What differs among the threads of a block: which variables and registers, which conditions, where threads
// diverge. At level tile a fragment is one tile for all threads; below it is registers of each thread, and
// the indices of a loop over its elements contain the thread.
#pragma once

#include "pass/walk.h"

namespace tl {

constexpr std::string_view thread_number_reason = "the thread's number in its block";

struct Varying {
  const Function& f;
  // Do the states that threads get from one arrival count as one, as they do for who waits by them?
  bool states_agree = false;
  // Each with what makes it differ: "threadIdx.x".
  std::map<const ExprNode*, std::string> vars = {};
  std::map<BufferId, std::string> buffers = {};  // of registers
  bool changed = false;                          // whether `find` has learnt something in its present turn

  // Reads a kernel's body; `vars` holds the thread index already, where it is a variable.
  void find(const Stmt& body);
  // What makes the expression differ; empty where all threads agree.
  std::string reason(const Expr& e) const;
  bool differs(const Expr& e) const { return !reason(e).empty(); }
  // Do some threads break or continue the loop of this body where others do not?  The reason.
  std::string parts(const Stmt& loop_body) const;
  // … return where others do not.
  std::string returns(const Stmt& s) const;
  // May the threads of the block diverge inside the statement, so that no barrier of all of them may stand
  // there?
  bool may_diverge(const Stmt& s) const;

 private:
  using Visitor = std::function<bool(const Stmt&, const std::string& control, const WalkContext&)>;
  void walk(const Stmt& body, const Visitor& f) const;
  std::string source_of(const Call& c) const;
  std::string divides(const Stmt& s) const;
  void mark(const Stmt& s, const std::string& control, bool parallel);
  void add(BufferId b, const std::string& why);
};

}  // namespace tl
