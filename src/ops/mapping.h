// How the iterations of a parallel nest may be mapped to threads: by following a fragment, or freely.
#pragma once
#include "ops/parallel.h"

namespace tl {

struct NestAccess {
  BufferId buffer;
  std::vector<Expr> index;
  bool is_store;
  Span span;
};
std::vector<NestAccess> accesses_of(const ParallelNest& nest);
Facts nest_facts(const ParallelNest& nest, const Function& f, const Kernel& k);
std::optional<size_t> loop_of(const ParallelNest& nest,
                              const Expr& index);  // the loop whose variable this is
// Every thread holds, or runs, all elements.
Fragment replicated(const std::vector<int64_t>& shape, int64_t threads);
std::vector<int64_t> tile_shape(const BufferInfo& info);  // of a shared, fragment or local buffer
// How many elements this shared buffer may take and leave room for the others in the block's memory.
int64_t room_for(BufferId buffer, const Function& f, const Kernel& k, const Target& target,
                 const LayoutDecisions& known);
// May its tiles have rows with room for more than their elements?  Not once they have not fitted for that.
bool may_pad(const Kernel& k);

// Both elements of a byte lie on one thread, which stores it, now or later out of a fragment.  Does the nest
// have such bytes, and would a mapping separate those along the last loop?
bool has_pairs(const ParallelNest& nest, const Function& f);
bool parts_pairs(const ParallelNest& nest, const Fragment& mapping, const Function& f);
constexpr int least_async_bits = 32;  // of an asynchronous copy
// The widest vector along the last loop that the accesses to memory allow, with work for all threads; 1 if
// none. An asynchronous copy rather leaves threads idle than being too narrow for one.
int64_t vector_width(const ParallelNest& nest, const LayoutContext& ctx);
// How many elements of such a vector are contiguous and aligned in all that is accessed, so that one
// instruction can move them.
int64_t moved_together(const ParallelNest& nest, const LayoutContext& ctx);
// Consecutive elements of the last loop that one thread holds next to each other under a mapping.
int64_t run_length(const ParallelNest& nest, const Fragment& mapping);
// The most elements of one access that a mapping lets a thread move at once.
int64_t access_width(const ParallelNest& nest, const LayoutContext& ctx, const Fragment& mapping,
                     const NestAccess& a);

// Neighbouring threads along the last loops, `lanes` consecutive iterations a thread, the rest in registers.
Fragment plan_free(const ParallelNest& nest, const LayoutContext& ctx, int64_t lanes);
// Each iteration on the thread that holds its element of a fragment: possible if the access names every loop
// once, by its variable.
std::optional<Fragment> derive_mapping(const ParallelNest& nest, const NestAccess& a,
                                       const Fragment& fragment);
// The same where the access leaves out some loops: those run over the fragment's replicas, then over
// registers.
std::optional<Fragment> derive_partial_mapping(const ParallelNest& nest, const NestAccess& a,
                                               const Fragment& fragment, int64_t lanes);
// The layout a fragment takes from a nest's mapping: digits of loops it is indexed by stay; the thread digits
// of the other loops become replicas; dimensions that no loop runs over lie in registers.
std::optional<Fragment> project(const ParallelNest& nest, const Fragment& loop, const NestAccess& a,
                                const std::vector<int64_t>& shape);
// Does every iteration find its element of the fragment on its own thread?
bool agrees(const ParallelNest& nest, const Fragment& loop, const NestAccess& a, const Fragment& fragment);

}  // namespace tl
