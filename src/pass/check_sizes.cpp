#include "pass/check_sizes.h"

#include "base/error.h"
#include "base/machine.h"
#include "ir/buffer_size.h"
#include "ir/rewrite.h"
#include "layout/table.h"
#include "pass/too_large.h"
#include "pass/unused_tiles.h"
#include "target/said.h"

namespace tl {
namespace {

double megabytes(int64_t bytes) { return double(bytes) / (1 << 20); }

template <class Check>
void for_tiles(const Function& f, const Stmt& body, Check check) {
  visit(body, [&](const Alloc& n) {
    if (!f[n.buffer].alias_of) check(n.buffer, f[n.buffer]);
  });
}

void check_block_memory(const Function& f, const Kernel& k, BufferId id, const Target& target) {
  const BufferInfo& info = f[id];
  int64_t bytes = bytes_of_extents(info);
  bool is_left = bytes * 8 / info.dtype.bits <= most_points;  // to plan_memory, which knows the other tiles
  if (bytes <= target.shared_bytes || is_left) return;
  Shortage s{.kernel = size_t(&k - f.kernels.data()),
             .needed = bytes,
             .given = target.shared_bytes,
             .chip = said(target)};
  s.tiles.push_back({id, info.name, bytes, bytes, info.span, {}});
  throw too_large(s, &f);
}

void check_fragment(const Kernel& k, const BufferInfo& info, const Target& target) {
  int64_t threads = thread_count(k), bytes = bytes_of_extents(info);
  if (bytes / threads <= target.local_bytes) return;
  fail(
      info.span,
      "{} takes {:.1f} KB in the registers of {} threads, but {} gives a thread {} KB for what its registers "
      "do not hold: make it smaller, and go over the data in several steps",
      info.name, double(bytes) / 1024, threads, said(target), target.local_bytes / 1024);
}

}  // namespace

void check_sizes(const Function& f, const Kernel& k, const Target& target) {
  for_tiles(f, k.body, [&](BufferId id, const BufferInfo& info) {
    if (info.scope == Scope::shared || !target.has_threads())
      check_block_memory(f, k, id, target);
    else if (info.scope == Scope::fragment)
      check_fragment(k, info, target);
  });
}

void check_sizes_on_host(const Function& f) {
  int64_t memory = machine_memory();
  for (const Kernel& k : f.kernels)
    for_tiles(f, without_unused_tiles(f, k.body), [&](BufferId, const BufferInfo& info) {
      if (int64_t bytes = bytes_of_extents(info); bytes > memory)
        fail(info.span,
             "{} takes {:.1f} MB, but this machine has {:.1f} MB of memory, where the reference keeps its "
             "tiles; make it smaller",
             info.name, megabytes(bytes), megabytes(memory));
    });
}

}  // namespace tl
