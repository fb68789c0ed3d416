// plan_memory: gives every shared buffer its place in the block's memory; on a target of one thread per block, all
// tiles live there.  First at machine level: from here on addresses are numbers.
//
//   As = shared f16[128, 32]   ->   As = shared f16[128, 32] address(8192)
#include <algorithm>

#include "base/error.h"
#include "ir/rewrite.h"
#include "pass/passes.h"

namespace tl {
namespace {

constexpr int64_t alignment = 128;         // of a buffer: a row of all shared-memory banks

int64_t bytes_of(const BufferInfo& b) { return b.elements * b.versions * b.dtype.bytes(); }

[[noreturn]] void too_large(const Function& f, const std::vector<BufferId>& placed, int64_t needed, const Target& target) {
  BufferId largest = *std::max_element(placed.begin(), placed.end(),
                                       [&](BufferId a, BufferId b) { return bytes_of(f[a]) < bytes_of(f[b]); });
  std::string each;
  for (BufferId b : placed) each += fmt::format("{}{} {:.1f} KB", each.empty() ? "" : ", ", f[b].name, double(bytes_of(f[b])) / 1024);
  fail(f[largest].span,
       "the tiles need {:.1f} KB of shared memory ({}), but {} gives a block {} KB; {} would have to shrink to {:.1f} KB",
       double(needed) / 1024, each, target.name, target.shared_bytes / 1024, f[largest].name,
       double(std::max<int64_t>(0, bytes_of(f[largest]) - (needed - target.shared_bytes))) / 1024);
}

}  // namespace

Function plan_memory(Function f, const Target& target) {
  for (Kernel& k : f.kernels) {
    int64_t next = 0;
    std::vector<BufferId> placed;
    visit(k.body, [&](const Alloc& n) {
      BufferInfo& b = f[n.buffer];
      bool here = b.scope == Scope::shared || (b.scope == Scope::fragment && !target.has_threads());
      if (!here) return;
      b.address = next;
      next = (next + bytes_of(b) + alignment - 1) / alignment * alignment;
      placed.push_back(n.buffer);
    });
    if (next > target.shared_bytes) too_large(f, placed, next, target);
  }
  return f;
}

}  // namespace tl
