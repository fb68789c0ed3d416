// keep_results: behind each wait for products of a warpgroup, the registers that it has completed are named,
// so that the device compiler, to which they are ordinary variables, moves no use of them in front of the
// wait.  Likewise in front of the fence that products begin with, so that it moves nothing that threads write
// to them behind the fence. At level machine, where the order of statements is fixed.
//
// What a wait completes is found by walking forward with the groups in flight, as sets of registers: loops
// until nothing changes, and both arms of a condition. Registers that are in flight behind the wait, or at
// the fence, on some way stay as they are.
//
//                                   wgmma_results(&C[0], 512)
//   wgmma_fence()                   wgmma_fence()
//   wgmma_…(&C[0], …)               wgmma_…(&C[0], …)
//   wgmma_commit_group()      ->    wgmma_commit_group()
//   wgmma_wait_group(0)             wgmma_wait_group(0)
//   X[…] = C[…]                     wgmma_results(&C[0], 512)
//                                   X[…] = C[…]
#include <algorithm>

#include "ir/rewrite.h"
#include "pass/passes.h"
#include "pass/splice.h"
#include "target/effects.h"
#include "target/hopper.h"

namespace tl {
namespace {

using AsyncKind = AsyncInstr::AsyncKind;
using Registers = std::set<BufferId>;

struct InFlight {
  std::vector<Registers> groups = {};  // closed, the latest last
  Registers open = {};
  bool operator==(const InFlight&) const = default;
  Registers all() const {
    Registers found = open;
    for (auto& g : groups) found.insert(g.begin(), g.end());
    return found;
  }

  void join(const InFlight& o) {
    open.insert(o.open.begin(), o.open.end());
    if (groups.size() < o.groups.size())
      groups.insert(groups.begin(), o.groups.size() - groups.size(), Registers());
    for (size_t i = 0; i < o.groups.size(); i++) {  // the latest are the same for a wait
      auto& mine = groups[groups.size() - 1 - i];
      auto& its = o.groups[o.groups.size() - 1 - i];
      mine.insert(its.begin(), its.end());
    }
  }
};

struct Finder {
  // By a wait, or used by the products behind a fence; in flight behind the wait, or at the fence.
  std::map<const StmtNode*, Registers> named = {}, left = {};
  std::map<const StmtNode*, bool> is_fence = {};
  const StmtNode* fence = nullptr;  // the latest
  InFlight now = {};

  void wait(const Stmt& s, size_t still) {
    Registers &done = named[s.get()], &rest = left[s.get()];
    size_t count = now.groups.size() > still ? now.groups.size() - still : 0;
    for (size_t i = 0; i < now.groups.size(); i++)
      (i < count ? done : rest).insert(now.groups[i].begin(), now.groups[i].end());
    rest.insert(now.open.begin(), now.open.end());
    now.groups.erase(now.groups.begin(), now.groups.begin() + std::ptrdiff_t(count));
  }

  void leaf(const Stmt& s, const Call& c) {
    if (warpgroup_row_of(*c.intrinsic)) {
      auto* d = place_of(c.args[0]);
      if (d && fence) named[fence].insert(d->buffer);
      if (d) now.open.insert(d->buffer);
      return;
    }
    const AsyncInstr* row = async_row_of(*c.intrinsic);
    if (row && row->does == AsyncKind::gemm_fence) {
      fence = s.get();
      is_fence[fence] = true;
      left[fence].merge(now.all());
    }
    if (row && row->does == AsyncKind::gemm_commit) now.groups.push_back(std::exchange(now.open, {}));
    if (row && row->does == AsyncKind::gemm_wait) wait(s, size_t(as_int(c.args[0]).value_or(0)));
  }

  void loop(const Stmt& body) {
    constexpr int most = 8;  // groups in flight do not grow for ever in a program that ends its waits
    for (int round = 0; round < most; round++) {
      InFlight before = now;
      walk(body);
      now.join(before);
      if (now == before) return;
    }
  }

  void walk(const Stmt& s) {
    if (!s) return;
    if (auto* n = s.as<Block>()) {
      for (auto& x : n->stmts) walk(x);
    } else if (auto* n = s.as<For>()) {
      loop(n->body);
    } else if (auto* n = s.as<While>()) {
      loop(n->body);
    } else if (auto* n = s.as<If>()) {
      InFlight before = now;
      walk(n->then_body);
      InFlight after = std::exchange(now, before);
      walk(n->else_body);
      now.join(after);
    } else if (auto* n = s.as<Group>()) {  // another team's products are its own
      InFlight outside = std::exchange(now, {});
      walk(n->body);
      now = std::move(outside);
    } else if (auto* n = s.as<Eval>()) {
      if (auto* c = n->value.as<Call>()) leaf(s, *c);
    }
  }
};

}  // namespace

Function keep_results(Function f, const Target& target) {
  if (target.warpgroup.empty()) return f;
  const Intrinsic& results = *find_instr("wgmma_results");
  for (Kernel& k : f.kernels) {
    Finder finder;
    finder.walk(k.body);
    if (finder.named.empty()) continue;
    k.body = splice(k.body, [&](const Stmt& original, const Stmt& walked) {
      std::vector<Stmt> out;
      for (BufferId b : finder.named[original.get()]) {
        if (finder.left[original.get()].contains(b)) continue;
        int64_t bytes = f[b].elements * f[b].dtype.bytes();
        Expr first = address(load(f[b].dtype, b, {imm(0)}), "", original->span);
        out.push_back(eval(call(results, {first, imm(bytes, i32)}), original->span));
      }
      out.insert(finder.is_fence[original.get()] ? out.end() : out.begin(), walked);
      return out;
    });
  }
  return f;
}

}  // namespace tl
