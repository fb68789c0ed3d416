// keep_results: behind each wait for products of a warpgroup, the registers that it has completed are named,
// so that the device compiler, to which they are ordinary variables, moves no use of them in front of the
// wait.  Likewise in front of the fence that products begin with, so that it moves nothing that threads write
// to them behind the fence. At level machine, where the order of statements is fixed.
//
// Where several products begin before a wait, what threads have made ready for the later ones is named in
// front of the first fence: none of it is written while products are in flight.
//
// Sums to which threads write before a loop of products that may run not once are named in front of it: else
// the device compiler writes them again at its end, for the way around the loop, and ptxas lets each product
// end before the next begins (C7515).  So does it where sums are constants on one path and loaded on another:
// these are one word each only behind an instruction.
//
// What a wait completes is found by walking forward with the groups in flight, as sets of registers: loops
// until nothing changes, and both arms of a condition. Registers that are in flight behind the wait, or at
// the fence, on some way stay as they are.
//
// Results that are rounded one by one are named behind a fence: else ptxas, which puts neighbours into one
// word, does so in front of the wait, and lets each product end before the next begins.
//
// The device compiler leaves the registers alone that a product in flight multiplies, but not beyond the end
// of an iteration: there it takes them for others (seen in the machine code of CUDA 13.0, without a warning,
// and naming them changes nothing).  Such a product is refused where the loop writes what it multiplies.
//
//                                   wgmma_results(&C[0], 512)
//   wgmma_fence()                   wgmma_fence()
//   wgmma_…(&C[0], …)               wgmma_…(&C[0], …)
//   wgmma_commit_group()      ->    wgmma_commit_group()
//   wgmma_wait_group(0)             wgmma_wait_group(0)
//   X[…] = C[…]                     wgmma_results(&C[0], 512)
//                                   X[…] = C[…]
#include <algorithm>

#include "base/error.h"
#include "ir/rewrite.h"
#include "pass/compute_choices.h"
#include "pass/passes.h"
#include "pass/splice.h"
#include "target/effects.h"
#include "target/hopper.h"

namespace tl {
namespace {

using AsyncKind = AsyncInstr::AsyncKind;
using Registers = std::set<BufferId>;

// Of one group of products: what they sum up, and what registers each of them multiplies; of these, those
// that are in use beyond the end of an iteration that computes them.
struct Products {
  Registers sums = {};
  std::map<const StmtNode*, BufferId> factors = {};
  Registers kept = {};
  bool operator==(const Products&) const = default;
  void join(const Products& o) {
    sums.insert(o.sums.begin(), o.sums.end());
    factors.insert(o.factors.begin(), o.factors.end());
    kept.insert(o.kept.begin(), o.kept.end());
  }
};

struct InFlight {
  std::vector<Products> groups = {};  // closed, the latest last
  Products open = {};
  bool operator==(const InFlight&) const = default;
  Registers all() const {
    Registers found = open.sums;
    for (auto& g : groups) found.insert(g.sums.begin(), g.sums.end());
    return found;
  }

  void join(const InFlight& o) {
    open.join(o.open);
    if (groups.size() < o.groups.size())
      groups.insert(groups.begin(), o.groups.size() - groups.size(), Products());
    for (size_t i = 0; i < o.groups.size(); i++)  // the latest are the same for a wait
      groups[groups.size() - 1 - i].join(o.groups[o.groups.size() - 1 - i]);
  }
};

// Of each team: its first thread and how many it has.  A team's products stay in flight from one of its
// sections to the next; another team's are its own.
using TeamName = std::pair<int64_t, int64_t>;
struct Ways {
  std::map<TeamName, InFlight> of = {};
  bool operator==(const Ways&) const = default;
  void join(const Ways& o) {
    for (auto& [team, in_flight] : o.of) of[team].join(in_flight);
  }
};

struct Finder {
  const Function& f;
  // By a wait, or used by the products behind a fence or in a loop; in flight behind the wait, or at the
  // fence, or in front of the loop.
  std::map<const StmtNode*, Registers> named = {}, left = {};
  // What the registers are named in front of, and not behind; of these, loops and conditions.
  std::set<const StmtNode*> is_in_front = {}, entered = {};
  // The team that sums registers up within what is entered by more threads than these.
  std::map<std::pair<const StmtNode*, BufferId>, const Group*> teams = {};
  const StmtNode* fence = nullptr;  // the latest
  Registers defined = {};           // by threads, and not summed up since
  // By fence, since the last wait for all products: what threads had defined there, and left alone since.
  std::map<const StmtNode*, Registers> ready = {};
  TeamName team = {};  // that runs the statement; of the whole block: none
  Ways ways = {};
  InFlight& now() { return ways.of[team]; }

  void wait(const Stmt& s, size_t still) {
    Registers &done = named[s.get()], &rest = left[s.get()];
    auto& [groups, open] = now();
    size_t count = groups.size() > still ? groups.size() - still : 0;
    for (size_t i = 0; i < groups.size(); i++)
      (i < count ? done : rest).insert(groups[i].sums.begin(), groups[i].sums.end());
    rest.insert(open.sums.begin(), open.sums.end());
    for (size_t i = 0; i < count; i++) check_kept(groups[i]);
    groups.erase(groups.begin(), groups.begin() + std::ptrdiff_t(count));
    if (still == 0) ready.clear();
  }

  // Sums that were ready at the fence of an earlier product are named there: else the device compiler may
  // write them behind it, and ptxas waits for that product in front of this one (C7517).
  void sum(BufferId b) {
    if (fence) named[fence].insert(b);
    for (auto& [earlier, registers] : ready)
      if (registers.erase(b)) named[earlier].insert(b);
    now().open.sums.insert(b);
    defined.erase(b);
  }
  void leaf(const Stmt& s, const Call& c) {
    if (warpgroup_row_of(*c.intrinsic)) {
      if (auto* d = place_of(c.args[0])) sum(d->buffer);
      auto* a = place_of(c.args[1]);
      if (a && f[a->buffer].scope != Scope::shared) now().open.factors.emplace(s.get(), a->buffer);
      return;
    }
    written(s);
    const AsyncInstr* row = async_row_of(*c.intrinsic);
    if (row && row->does == AsyncKind::gemm_fence) {
      fence = s.get();
      is_in_front.insert(fence);
      left[fence].merge(now().all());
      ready[fence] = defined;
    }
    if (row && row->does == AsyncKind::gemm_commit) now().groups.push_back(std::exchange(now().open, {}));
    if (row && row->does == AsyncKind::gemm_wait) wait(s, size_t(as_int(c.args[0]).value_or(0)));
  }

  static void drop(Products& g, BufferId b) {
    std::erase_if(g.factors, [&](auto& x) { return x.second == b; });
  }
  // A program that writes them before the product has ended has a race, which the simulator finds.
  void written(const Stmt& s) {
    for (auto& e : effects_of(s).list) {
      if (!e.writes()) continue;
      if (f[e.buffer].scope != Scope::shared && f[e.buffer].scope != Scope::global) defined.insert(e.buffer);
      for (auto& [earlier, registers] : ready) registers.erase(e.buffer);
      for (auto& g : now().groups) g.kept.erase(e.buffer), drop(g, e.buffer);
    }
  }
  // In front of what holds products and may be left out, as a whole.
  void enter(const Stmt& s) {
    Registers summed;
    visit(s, [&](const Call& c) {
      if (auto* d = warpgroup_row_of(*c.intrinsic) ? place_of(c.args[0]) : nullptr) summed.insert(d->buffer);
    });
    for (BufferId b : summed)
      if (defined.contains(b)) named[s.get()].insert(b);
    visit(s, [&](const Group& group) {
      visit(group.body, [&](const Call& c) {
        if (auto* d = warpgroup_row_of(*c.intrinsic) ? place_of(c.args[0]) : nullptr)
          teams.emplace(std::pair(s.get(), d->buffer), &group);
      });
    });
    if (summed.empty()) return;
    left[s.get()].merge(now().all());
    is_in_front.insert(s.get());
    entered.insert(s.get());
  }
  void end_iteration(const Stmt& body, const std::set<const StmtNode*>& outside) {
    std::set<BufferId> computed = written_buffers(body);
    for (auto& [team, in_flight] : ways.of)
      for (auto& g : in_flight.groups)
        for (auto& [product, b] : g.factors)
          if (!outside.contains(product) && computed.contains(b)) g.kept.insert(b);
  }
  void check_kept(const Products& ended) const {
    for (BufferId b : ended.kept)
      fail(f[b].span,
           "{} is in registers, and a product in flight still multiplies it at the end of an iteration that "
           "computes it anew: the device compiler does not keep registers for a product that long; wait for "
           "the product in the same iteration, or hand {} over in shared memory",
           f[b].name, f[b].name);
  }

  // Is it written out, one iteration behind the other, so that there is no way back?
  static bool is_written_out(const For& n) {
    auto extent = as_int(n.extent);
    return n.loop == Loop::unrolled && extent && !jumps(n.body) &&
           n.attrs.get_int("unroll_factor", *extent) >= *extent;
  }
  void written_out(const For& n) {
    constexpr int64_t most = 8;  // groups in flight are the same from then on
    for (int64_t i = 0; i < std::min(most, *as_int(n.extent)); i++) walk(n.body);
  }
  void loop(const Stmt& body) {
    std::set<const StmtNode*> outside;
    for (auto& [team, in_flight] : ways.of)
      for (auto& g : in_flight.groups)
        for (auto& [product, b] : g.factors) outside.insert(product);
    constexpr int most = 8;  // groups in flight do not grow for ever in a program that ends its waits
    for (int round = 0; round < most; round++) {
      Ways before = ways;
      walk(body);
      end_iteration(body, outside);
      ways.join(before);
      if (ways == before) break;
    }
    for (auto& [team, in_flight] : ways.of)
      for (auto& g : in_flight.groups)  // behind the loop comes no other iteration
        std::erase_if(g.kept, [&](BufferId b) {
          return std::ranges::none_of(g.factors,
                                      [&](auto& x) { return x.second == b && outside.contains(x.first); });
        });
  }

  void walk(const Stmt& s) {
    if (!s) return;
    if (auto* n = s.as<Block>()) {
      for (auto& x : n->stmts) walk(x);
    } else if (auto* n = s.as<For>()) {
      if (is_written_out(*n)) return written_out(*n);
      enter(s);
      loop(n->body);
    } else if (auto* n = s.as<While>()) {
      enter(s);
      loop(n->body);
    } else if (auto* n = s.as<If>()) {
      enter(s);
      Ways before = ways;
      walk(n->then_body);
      Ways after = std::exchange(ways, before);
      walk(n->else_body);
      ways.join(after);
    } else if (auto* n = s.as<Group>()) {
      auto outside = std::exchange(team, {n->first, n->count});
      auto others = std::exchange(ready, {});
      walk(n->body);
      team = outside;
      ready = std::move(others);
    } else if (auto* n = s.as<Alloc>()) {
      defined.erase(n->buffer);  // another one than that of the iteration before
      for (auto& [earlier, registers] : ready) registers.erase(n->buffer);
    } else if (auto* n = s.as<Eval>()) {
      if (auto* c = n->value.as<Call>()) leaf(s, *c);
    } else if (s.as<Store>()) {
      written(s);
    }
  }
};

// The fragments of which single elements are rounded to 16 bits or fewer: as they are, by a name, or from a
// variable of the thread's.
Registers rounded_one_by_one(const Stmt& body) {
  std::map<const ExprNode*, BufferId> named;
  std::map<BufferId, Registers> held;  // by a variable
  auto note = [&](const Expr& value, auto keep) {
    if (auto* from = value.as<Load>(); from && from->dtype.lanes == 1) keep(from->buffer);
  };
  visit(
      body, [&](const Let& n) { note(n.value, [&](BufferId from) { named.emplace(n.var.get(), from); }); },
      [&](const Store& n) { note(n.value, [&](BufferId from) { held[n.buffer].insert(from); }); });
  Registers found;
  visit(body, [&](const Cast& n) {
    bool rounds = n.dtype.is_float() && n.dtype.bits <= 16 && n.dtype.lanes == 1;
    if (!rounds || n.a->dtype.bits <= n.dtype.bits) return;
    auto it = named.find(n.a.get());
    auto* from = n.a.as<Load>();
    if (it == named.end() && !from) return;
    BufferId read = from ? from->buffer : it->second;
    found.insert(read);
    found.insert(held[read].begin(), held[read].end());
  });
  return found;
}

// The registers whose value is one thing or another as a condition says that is the same for all of a tile.
struct Paths {
  Registers found = {};
  std::set<const ExprNode*> varying = {}, chosen = {};  // names: what loops change, what a condition chose

  bool uses(const Expr& e, const std::set<const ExprNode*>& names) const {
    return contains(e, [&](const Var& v) { return names.contains(&v); });
  }
  bool is_chosen(const Expr& e) const {
    return uses(e, chosen) || contains(e, [&](const Select& s) { return !uses(s.cond, varying); });
  }
  void walk(const Stmt& s, bool under) {
    if (!s) return;
    if (auto* n = s.as<Block>()) {
      for (auto& x : n->stmts) walk(x, under);
    } else if (auto* n = s.as<For>()) {
      varying.insert(n->var.get());
      walk(n->body, under);
    } else if (auto* n = s.as<While>()) {
      walk(n->body, under);
    } else if (auto* n = s.as<Group>()) {
      walk(n->body, under);
    } else if (auto* n = s.as<If>()) {
      bool splits = under || (!uses(n->cond, varying) && !contains_products(s));
      walk(n->then_body, splits);
      walk(n->else_body, splits);
    } else if (auto* n = s.as<Let>()) {
      if (uses(n->value, varying)) varying.insert(n->var.get());
      if (is_chosen(n->value)) chosen.insert(n->var.get());
    } else if (auto* n = s.as<Store>()) {
      if (under || is_chosen(n->value)) found.insert(n->buffer);
    }
  }
  static bool contains_products(const Stmt& s) {
    bool found = false;
    visit(s, [&](const Call& c) { found |= warpgroup_row_of(*c.intrinsic) != nullptr; });
    return found;
  }
};

}  // namespace

Function keep_results(Function f, const Target& target) {
  if (target.warpgroup.empty()) return f;
  const Intrinsic &results = *find_instr("wgmma_results"),
                  &behind_fence = *find_instr("wgmma_results_behind_fence"),
                  &of_paths = *find_instr("wgmma_results_of_paths");
  for (Kernel& k : f.kernels) {
    Finder finder{f};
    finder.walk(k.body);
    if (finder.named.empty()) continue;
    Registers one_by_one = rounded_one_by_one(k.body), summed;
    for (auto& [at, registers] : finder.named) summed.insert(registers.begin(), registers.end());
    Paths paths;
    paths.walk(k.body, false);
    k.body = splice(k.body, [&](const Stmt& original, const Stmt& walked) {
      std::vector<Stmt> out;
      for (BufferId b : finder.named[original.get()]) {
        if (finder.left[original.get()].contains(b)) continue;
        int64_t bytes = f[b].elements * f[b].dtype.bytes();
        Expr first = address(load(f[b].dtype, b, {imm(0)}), "", original->span);
        bool is_wait = !finder.is_in_front.contains(original.get());
        const Intrinsic& row = is_wait && one_by_one.contains(b) ? behind_fence
                               : finder.entered.contains(original.get()) && paths.found.contains(b) ? of_paths
                                                                                                    : results;
        Stmt naming = eval(call(row, {first, imm(bytes, i32)}), original->span);
        auto team = finder.teams.find({original.get(), b});
        out.push_back(team == finder.teams.end() ? naming
                                                 : group(team->second->first, team->second->count, naming,
                                                         naming->span, 0, team->second->attrs));
      }
      out.insert(finder.is_in_front.contains(original.get()) ? out.end() : out.begin(), walked);
      return out;
    });
    k.body = compute_choices(f, k, summed);
  }
  return f;
}

}  // namespace tl
