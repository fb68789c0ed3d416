#include "target/limits.h"

#include <algorithm>

#include "base/error.h"
#include "ir/build.h"

namespace tl {
namespace {

constexpr std::string_view axes[] = {"x", "y", "z"};

void check_blocks(const Kernel& k, size_t axis, int64_t blocks, std::string_view chip,
                  const std::array<int64_t, 3>& most) {
  if (blocks <= most[axis]) return;
  std::string mend = "let each block loop over several tiles";
  if (axis > 0 && blocks <= most[0])
    mend = fmt::format("give the long dimension to x, which takes {}, or {}", most[0], mend);
  fail(k.span, "a grid of {} blocks along {}, but {} allows {}; {}", blocks, axes[axis], chip, most[axis],
       mend);
}

void check_cluster(const Kernel& k, const Target& target) {
  int64_t together = cluster_size(k);
  if (together > 1 && target.has_threads() && together > target.max_cluster)
    fail(k.span, "a cluster of {} blocks, but {}", together,
         target.max_cluster == 1 ? fmt::format("{} has no clusters; sm_90 and later chips do", target.name)
                                 : fmt::format("{} allows {}", target.name, target.max_cluster));
  for (size_t d = 0; d < k.cluster.size(); d++)
    if (auto blocks = as_int(k.grid.at(d)); blocks && *blocks % k.cluster[d])
      fail(k.span, "a grid of {} blocks along {} is not made of whole clusters of {} along it", *blocks,
           axes[d], k.cluster[d]);
}

}  // namespace

int64_t Multiprocessors::residents(int64_t block_threads, int64_t block_bytes, int warp) const {
  int64_t held = (block_threads + warp - 1) / warp * warp;
  int64_t taken = std::max<int64_t>(block_bytes + reserved_bytes, 1);
  int64_t each = std::min({blocks, threads / std::max<int64_t>(held, warp), shared_bytes / taken});
  return count * std::max<int64_t>(each, 1);  // a block that fits at all has been checked elsewhere
}

int64_t Multiprocessors::launch_registers(int64_t block_threads, int64_t shared_by) const {
  constexpr int64_t most = 256, unit = 8;  // of a thread; they are given out in such pieces
  return std::min(most, registers / shared_by / block_threads / unit * unit);
}

void check_limits(const Kernel& k, const Target& target) {
  if (thread_count(k) > target.max_threads)
    fail(k.span, "{} threads per block, but {} allows {}", thread_count(k), target.name, target.max_threads);
  for (size_t d = 0; d < k.threads.size(); d++)
    if (k.threads[d] > target.max_block[d])
      fail(k.span, "{} threads along {}, but {} allows {}; give the long dimension to x", k.threads[d],
           axes[d], target.name, target.max_block[d]);
  check_cluster(k, target);
  for (size_t d = 0; d < k.grid.size(); d++)
    if (auto blocks = as_int(k.grid[d])) check_blocks(k, d, *blocks, target.name, target.max_grid);
}

void check_grid(const Kernel& k, const std::array<int64_t, 3>& grid, std::string_view chip,
                const std::array<int64_t, 3>& most) {
  for (size_t d = 0; d < k.grid.size(); d++) check_blocks(k, d, grid[d], chip, most);
}

}  // namespace tl
