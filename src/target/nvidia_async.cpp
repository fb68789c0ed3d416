// What goes on beside the threads.
//
// cp.async (sm_80): each thread copies 4, 8 or 16 bytes from global to shared memory, puts what it has begun into groups
// and waits until at most n of them are under way; other threads see the data behind a barrier after that wait.  Its
// writes are those of a thread (the generic proxy).
//
// mbarrier: a word of shared memory that counts arrivals, and from sm_90 on bytes.  A phase ends when all have come; a
// wait names the phase by its parity, and phase 0 is the first.
#include "target/nvidia.h"

namespace tl {
namespace {

using Does = AsyncInstr::Does;
using Result = Callee::Result;

// `access`: per argument, as in Callee.
AsyncInstr async_row(std::string_view name, Does does, int bytes, std::string_view access, std::string_view operands,
                     std::string_view ptx) {
  return {.callee = {.name = name, .arity = int(access.size()),
                     .result = does == Does::test ? Result::boolean : Result::none,
                     .effect = Callee::Effect::memory, .access = access},
          .does = does, .bytes = bytes, .operands = operands, .ptx = ptx};
}

}  // namespace

std::span<const AsyncInstr> nvidia_async(bool with_sm_90) {
  // clang-format off
  static const AsyncInstr rows[] = {
      async_row("cp_async_4",             Does::copy, 4,  "wr",  "sg",  "cp.async.ca.shared.global [{0}], [{1}], 4;"),
      async_row("cp_async_8",             Does::copy, 8,  "wr",  "sg",  "cp.async.ca.shared.global [{0}], [{1}], 8;"),
      async_row("cp_async_16",            Does::copy, 16, "wr",  "sg",  "cp.async.cg.shared.global [{0}], [{1}], 16;"),
      async_row("cp_async_4_zfill",       Does::copy, 4,  "wr-", "sgr", "cp.async.ca.shared.global [{0}], [{1}], 4, {2};"),
      async_row("cp_async_8_zfill",       Does::copy, 8,  "wr-", "sgr", "cp.async.ca.shared.global [{0}], [{1}], 8, {2};"),
      async_row("cp_async_16_zfill",      Does::copy, 16, "wr-", "sgr", "cp.async.cg.shared.global [{0}], [{1}], 16, {2};"),
      async_row("cp_async_commit_group",  Does::commit, 0, "", "", "cp.async.commit_group;"),
      async_row("cp_async_wait_group",    Does::wait_groups, 0, "n", "n", "cp.async.wait_group {0};"),
      async_row("cp_async_wait_all",      Does::wait_all, 0, "", "", "cp.async.wait_all;"),
  };
  // clang-format on
  (void)with_sm_90;
  return rows;
}

}  // namespace tl
