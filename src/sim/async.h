// What asynchronous instructions share.
#pragma once
#include <vector>

#include "sim/engine.h"
#include "sim/instr.h"

namespace tl::sim {

inline constexpr int64_t bulk_unit = 16;  // bytes that a bulk copy moves at once

inline BlockWatch* watch_of(const Execution& x) { return x.warp.block->watch; }
inline Engine& engine_of(const Execution& x) { return *x.warp.block->engine; }

// A logical thread of that timeline, where accesses are watched.
Logical logical(const Execution& x, Timeline timeline, int64_t thread, uint32_t epoch);
// That of a barrier's copies in a block, joined by the threads that wait for the phase.
Logical logical_of_barrier(const Execution& x, const Block& of, MBarrier& m, int lane);
inline Logical logical_of_barrier(const Execution& x, MBarrier& m, int lane) {
  return logical_of_barrier(x, *x.warp.block, m, lane);
}

// to[0, bytes), of which the first `given` come from `from`, in chunks of at most 16 bytes.  Either may be
// null: then 0 comes, or it goes nowhere.
void add_chunks(const Block& of, std::vector<Chunk>& all, std::byte* to, const std::byte* from, int64_t bytes,
                int64_t given);

// The bulk load into a block that the chunks are, which will tell its barrier in argument `barrier`; and the
// store.
void begin_load(const Execution& x, Block& of, int lane, size_t barrier, MBarrier& m,
                std::vector<Chunk> chunks);
void begin_store(const Execution& x, int lane, Groups& groups, std::vector<Chunk> chunks,
                 Combination combination = {});
int64_t bulk_bytes(const Execution& x, int lane);  // argument 2
void count_bulk(const Execution& x, const std::byte* at, size_t arg, int64_t bytes);

// tensor_copy.cpp
void begin_tensor_load(const Execution& x);
void begin_tensor_store(const Execution& x);
void begin_tensor_multicast(const Execution& x);
void begin_tensor_reduce(const Execution& x);

// cluster.cpp: of what reaches other blocks; null where it is none of that.
Semantics cluster_semantics(AsyncInstr::AsyncKind does);
// The block of that rank in the cluster; a finding that ends the run where there is none, or no more.
Block& block_of_rank(const Execution& x, int lane, int64_t rank);
// What a handle points to in a block of the cluster, the same place as here; null, and a finding, where that
// is outside.  The access is noted.
std::byte* reach_in(const Execution& x, const Block& of, size_t arg, int lane, int64_t offset, int64_t bytes,
                    int64_t alignment, Touch touch, const Logical* begun = nullptr);

}  // namespace tl::sim
