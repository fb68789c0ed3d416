// Barriers in memory that a kernel makes where it begins.
#pragma once
#include "ir/build.h"

namespace tl {

// The words of barriers, whose phases end after so many arrivals each.
struct BarrierWords {
  BufferId buffer;
  std::vector<int64_t> counts;
};
// u64 words in shared memory, one behind the other.
BufferId add_barrier_words(Function& f, const std::string& name, size_t count, Span span);
// What stands where the kernel begins: one thread initialises all of them, and no thread goes on before that.
// `first`: whether it is that thread, behind canonicalize; before, canonicalize finds it.
std::vector<Stmt> initialised(const Function& f, const std::vector<BarrierWords>& all, Span span,
                              Expr first = {});

}  // namespace tl
