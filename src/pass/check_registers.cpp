#include "pass/check_registers.h"

#include <algorithm>

#include "arith/simplify.h"
#include "base/error.h"
#include "ir/rewrite.h"
#include "pass/walk.h"

namespace tl {
namespace {

// Of a warp's threads, as far as constants and conditions on the thread index say.
struct WarpRegisters {
  int64_t least;         // that each of them has
  bool is_known = true;  // they have just as many, and not more
};

struct RegisterCheck {
  const Kernel& k;
  const Target& target;
  const Intrinsic *more = find_instr("setmaxnreg_inc"), *fewer = find_instr("setmaxnreg_dec");
  std::vector<WarpRegisters> warps = {};
  Span last = {};  // where registers were taken

  // Does this warp execute what stands there?  Nothing where that is not known.
  std::optional<bool> executes(int64_t warp, const WalkContext& at) const {
    int64_t first = warp * target.warp, end = first + target.warp;
    if (at.team.first >= end || at.team.first + at.team.count <= first) return false;
    bool certain = at.whiles.empty() && std::ranges::all_of(at.loops, [](const For* loop) {
                     auto turns = as_int(loop->extent);
                     return turns && *turns > 0;
                   });
    for (auto& [condition, holds] : at.conditions) {
      auto of_thread = [&](int64_t thread) {
        return as_int(simplify(substitute(condition, {{k.thread.get(), imm(thread, k.thread->dtype)}})));
      };
      auto low = of_thread(first), high = of_thread(end - 1);
      if (!low || low != high)
        certain = false;
      else if ((*low != 0) != holds)
        return false;
    }
    return certain ? std::optional(true) : std::nullopt;
  }

  void set(const Call& call, const WalkContext& at) {
    auto count = as_int(call.args[0]);
    if (!count) return;
    int64_t wanted = *count;
    bool takes = call.intrinsic == more;
    if (takes) last = call.span;
    for (size_t i = 0; i < warps.size(); i++) {
      auto executed = executes(int64_t(i), at);
      if (executed == false) continue;
      WarpRegisters& warp = warps[i];
      if (executed && warp.is_known && !takes && wanted > warp.least)
        fail(
            call.span,
            "T.set_max_nreg: each thread has at most {} registers here, and is to give all but {} back: take "
            "registers (is_inc 1), or keep fewer",
            warp.least, wanted);
      warp = executed ? WarpRegisters{wanted} : WarpRegisters{std::min(warp.least, wanted), false};
    }
  }

  void run() {
    int64_t given = target.multiprocessors.launch_registers(thread_count(k), blocks());
    int64_t at_launch = std::min<int64_t>(target.registers, given);
    warps.assign(size_t((thread_count(k) + target.warp - 1) / target.warp), {at_launch});
    walk(k.body, {.team = whole_block(k), .thread = k.thread}, [&](const Stmt& s, const WalkContext& at) {
      auto* e = s.as<Eval>();
      auto* call = e ? e->value.as<Call>() : nullptr;
      if (call && (call->intrinsic == more || call->intrinsic == fewer)) set(*call, at);
      return true;
    });
    int64_t sum = 0, pool = thread_count(k) * given;
    for (auto& warp : warps) sum += warp.least * target.warp;
    if (!last || sum <= pool) return;
    fail(last,
         "the warps of the block take {} registers in all (T.set_max_nreg), but {} has {} for {} threads{}: "
         "the last warps would wait for ever; give more back in other warps (T.set_max_nreg(24, 0)), or take "
         "fewer here",
         sum, target.name, pool, thread_count(k),
         blocks() > 1
             ? fmt::format(", of which {} blocks share a multiprocessor (T.annotate_min_blocks_per_sm)",
                           blocks())
             : "");
  }
  int64_t blocks() const { return std::max<int64_t>(1, k.attrs.get_int("min_blocks_per_sm")); }
};

}  // namespace

void check_registers(const Kernel& k, const Target& target) {
  if (!target.has_threads() || target.lacks(*find_instr("setmaxnreg_inc"))) return;
  bool leaves = contains(k.body, [](const Call& n) { return n.intrinsic == &thread_return; });
  if (!leaves) RegisterCheck{.k = k, .target = target}.run();  // else a warp may not come to its own
}

}  // namespace tl
