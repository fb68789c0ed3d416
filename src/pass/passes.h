// Every pass, in order, one sentence each.  A pass is a pure function Function -> Function; what it decides
// that a user may ask about it adds to Function::notes.
#pragma once
#include "base/error.h"
#include "ops/op.h"

namespace tl {

// ── tile level ────────────────────────────────────────────────────────────────────────────────────────
// Loops count from 0, thread indices become expressions of Kernel::thread, thread counts are known.
Function canonicalize(Function f, const Target& target);
// T.use_swizzle: in which order blocks visit the grid.
Function rasterize(Function f, const Target& target);
// Sums that are cleared in front of a product of warpgroups are cleared by it.
Function clear_in_products(Function f, const Target& target);
// Pipelined loops around products of warpgroups: warps of their own load the tiles, the others compute.
Function assign_roles(Function f, const Target& target);
// Kernels with roles are launched before the kernel in front of them has ended, and wait for it themselves.
Function launch_early(Function f, const Target& target);
// T.Pipelined: which copies run ahead, by which engine, and how many slots their tiles get.
Function plan_schedule(Function f, const Target& target);
// Carries that plan out; no pipelined loop is left.
Function pipeline_loops(Function f, const Target& target);
// Copies of tiles that the tensor memory accelerator can do, and that nothing runs ahead of, are begun by it
// and waited for.
Function move_boxes(Function f, const Target& target);
// Gives every shared and fragment buffer a layout, every parallel loop a mapping to threads.
Function infer_layouts(Function f, const Target& target);

// ── thread level ──────────────────────────────────────────────────────────────────────────────────────
// Each tile operator and parallel loop becomes one thread's statements; tile buffers are addressed
// physically.
Function lower_tile_ops(Function f, const Target& target);
// Loop nests that may leave their tensors only at the edges get two versions: wholly inside, and the rest.
Function peel_blocks(Function f, const Target& target);
// Loops that may leave the tensors only in their last iterations are split: the iterations before, and those.
Function peel_loops(Function f, const Target& target);
// Masks the accesses to tensors that may fall outside them.
Function guard_bounds(Function f, const Target& target);
// Accesses to tensors get one index, in elements.
Function flatten_buffers(Function f, const Target& target);
// Vectorized loops become vector accesses, as wide as alignment allows.
Function vectorize(Function f, const Target& target);
// Storage types become bytes, and casts of them calls; pairs of 4 bits are unpacked and packed.
Function legalize_dtypes(Function f, const Target& target);
// Copies that plan_schedule gave to cp.async become its calls.
Function begin_copies(Function f, const Target& target);
// Index arithmetic that provably fits 32 bits is done in 32 bits.
Function narrow_index(Function f, const Target& target);
// A loop that fills a tile and the next one that reads it become one.
Function fuse_loops(Function f, const Target& target);
// Loop-invariant reads and computations are moved before the loop.
Function hoist_invariants(Function f, const Target& target);

// ── machine level ─────────────────────────────────────────────────────────────────────────────────────
// Places shared buffers (on a CPU: all tiles) in the block's memory.  Throws TilesTooLarge (too_large.h)
// where they do not fit.
Function plan_memory(Function f, const Target& target);
// Puts a barrier wherever threads exchange data through shared memory.
Function insert_sync(Function f, const Target& target);
// Registers that a wait for products of a warpgroup completes are named behind it.
Function keep_results(Function f, const Target& target);
// Warps whose threads may have diverged reconverge before branches and loops with barriers in them.
Function gather_warps(Function f, const Target& target);
// Expands unrolled loops where the device compiler would not.
Function unroll(Function f, const Target& target);

}  // namespace tl
