// Statements that name an element of a fragment by the thread's number: which of them stay within the thread.
#pragma once

#include "layout/fragment.h"
#include "pass/varying.h"

namespace tl {

struct ThreadLocalAccesses {
  ThreadLocalAccesses(const Function& f, const Kernel& kernel);

  // Does every thread of the team hold the element that this index names? For a store also: do all holders of
  // an element name it, so that no copy keeps its old value?
  bool are_own(const Fragment& fragment, const std::vector<Expr>& index, bool is_store,
               const Team& team) const;
  // Does every element have a thread of the team that names it?
  bool cover(const std::vector<int64_t>& shape, const std::vector<Expr>& index, const Team& team) const;
  // May threads name different elements?
  bool differ(const std::vector<Expr>& index) const;
  // May the numbers that threads keep in this fragment differ?  Why.
  std::string own_numbers(BufferId b) const;

 private:
  const Kernel& kernel;
  Varying varying;
  VarMap values;  // of the variables that depend only on the thread

  // The element that each thread names; nothing where it depends on more than the thread.
  std::vector<std::vector<int64_t>> named(const std::vector<int64_t>& shape, const std::vector<Expr>& index,
                                          const Team& team) const;
};

}  // namespace tl
