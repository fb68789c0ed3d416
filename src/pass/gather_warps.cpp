// gather_warps: before a branch or a loop that contains a barrier or a shuffle, the threads of a warp that
// may have diverged reconverge.
//
//   for … : atomic_max(H[i], x)          // a loop of its own, which each thread leaves when it has been
//   lucky sync_warp() if n >= 256:
//     sync_threads()
//
// The device compiler reconverges a warp at a barrier. Where the barrier is in a branch, ptxas 13.0 does so
// too late: threads that reach the branch diverged also leave it diverged, and the next barrier counts a part
// as a whole warp. Where the threads cannot have diverged, it drops the sync_warp.
#include "pass/passes.h"
#include "pass/varying.h"
#include "pass/warp_width.h"
#include "target/effects.h"

namespace tl {
namespace {

// Do all threads of a warp come to something in it that they do together?
bool joins_warps(const Stmt& s) {
  return contains(s, [](const Call& n) {
    const Intrinsic& c = *n.intrinsic;
    bool shuffles = c.effect == Intrinsic::Effect::warp && c.result == Intrinsic::Result::same &&
                    !c.name.ends_with("_sync");
    const AsyncInstr* row = async_row_of(c);
    bool of_cluster = row && (row->does == AsyncInstr::AsyncKind::cluster_arrive ||
                              row->does == AsyncInstr::AsyncKind::cluster_wait);
    return shuffles || of_cluster || c.effect == Intrinsic::Effect::barrier;
  });
}

struct Gatherer final : Rewriter {
  const Varying& varying;
  bool parted = false;  // some thread may be behind others of its warp
  int warp;             // threads of one
  Gatherer(const Varying& v, int warp) : varying(v), warp(warp) {}
  using Rewriter::operator();

  // May threads leave a loop in it one after the other: one of the program, or the one of an atomic update?
  bool parts_warps(const Stmt& s) const {
    return contains(
        s,
        [](const Call& n) {
          using Atomic = Intrinsic::Atomic;
          Atomic atomic = n.intrinsic->atomic;
          bool updates = atomic != Atomic::none && atomic != Atomic::load && atomic != Atomic::store;
          return updates || is_foreign(*n.intrinsic);
        },
        [&](const While& n) { return varying.differs(n.cond) || !varying.parts(n.body).empty(); },
        [&](const For& n) {
          return varying.differs(n.min) || varying.differs(n.extent) || !varying.parts(n.body).empty();
        });
  }

  Stmt operator()(const Stmt& s) override {
    if (!s) return s;
    bool loops = s.as<For>() || s.as<While>();
    if (!loops && !s.as<If>()) {
      Stmt r = children(s);
      parted |= (s.as<Eval>() || s.as<Store>() || s.as<Let>()) && parts_warps(s);
      return r;
    }
    bool gathers = parted && joins_warps(s), parts = parts_warps(s);
    if (gathers) parted = false;
    if (loops) parted |= parts;  // its next turn comes behind this one
    Stmt r = children(s);
    parted |= parts;
    if (!gathers) return r;
    return block({eval(call(*find_intrinsic("sync_warp"), {whole_warp(warp)}), s->span), r}, s->span);
  }
};

}  // namespace

Function gather_warps(Function f, const Target& target) {
  if (!target.has_threads()) return f;
  for (Kernel& k : f.kernels) {
    if (thread_count(k) <= 1) continue;
    Varying varying{.f = f};
    varying.vars.emplace(k.thread.get(), "the thread index");
    varying.find(k.body);
    k.body = Gatherer(varying, target.warp)(k.body);
  }
  return f;
}

}  // namespace tl
