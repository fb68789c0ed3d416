// launch_early: a kernel with roles is launched before the kernel in front of it has ended (programmatic
// dependent launch), and waits for that itself: its blocks then come to the chip, and make their barriers,
// beside the end of the other. Behind the wait everything is as after an ordinary launch.
//
//   kernel:                         kernel:
//     barriers are made               barriers are made
//     group(256 : +128): …      ->    pdl_sync()
//     group(0 : +256):                group(256 : +128): …
//       for k …                       group(0 : +256):
//       copy(Cl, C_part)                for k …
//       tma_store(C_part, C)            pdl_trigger()
//                                       copy(Cl, C_part); tma_store(C_part, C)
//
// By the trigger the blocks of the next kernel may come as soon as all of this one are behind their last
// product, and not only when they have ended.
#include <algorithm>

#include "arith/analysis.h"
#include "arith/prove.h"
#include "ir/build.h"
#include "ir/intrinsic.h"
#include "ir/rewrite.h"
#include "ops/regions.h"
#include "pass/passes.h"
#include "pass/role_plan.h"
#include "target/effects.h"

namespace tl {
namespace {

bool is_role(const Stmt& s) { return s.as<Group>() && s.as<Group>()->attrs.find("role"); }
bool computes(const Stmt& s) { return is_role(s) && s.as<Group>()->attrs.get_string("role") == "compute"; }

bool loads_first(const Stmt& s) { return s.as<Group>()->attrs.get_string("role") == "first loads"; }

bool writes_tensor(const Function& f, const Stmt& s) {
  bool writes = false;
  visit_effects(s, [&](const Stmt&, const Effect& e) {
    writes |= e.access != Access::read && f[e.buffer].scope == Scope::global;
  });
  return writes;
}

// Do the rows of all that is loaded begin where lines of the L2 cache do?
bool loads_whole_lines(const Function& f, const Kernel& k) {
  constexpr int64_t line = 128;  // bytes
  bool whole = true;
  visit(k.body, [&](const Tile& t) {
    if (t.op->name != "tma_load") return;
    const BufferInfo& info = f[region_of(t, 0).buffer];
    size_t rank = info.shape.size();
    if (rank < 2) return;
    auto row = as_int(info.strides.empty() ? info.shape.back() : info.strides[rank - 2]);
    whole &= row && *row * info.dtype.bits / 8 % line == 0;
  });
  return whole;
}

// Measured: a trigger gains 1 to 7 % where a block has nearly every multiprocessor. It loses 1 to 10 % where
// the next kernel's blocks find many of them free, or not all blocks run at once, or rows begin within lines,
// so that loads take longer (bench/results/2026-11-28-launch.md).
bool fills_chip_once(const Function& f, const Kernel& k, const Target& target) {
  std::optional<int64_t> blocks = blocks_of_grid(k);
  int64_t chip = target.multiprocessors.count;
  return blocks && *blocks <= chip && 6 * *blocks >= 5 * chip && loads_whole_lines(f, k);
}

constexpr auto triggers_itself = [](const Call& n) { return n.intrinsic == &pdl_trigger; };
bool has_product(const Stmt& s) {
  return contains(s, [](const Tile& t) { return t.op->name == "gemm"; });
}

// Of a walk through the grid: where each block takes few tiles, all as many, its last one is as good as the
// only one (a walk of two gains 2 %, one of 16 nothing; one of tiles that differ in length loses up to 0.4 %;
// bench/results/2026-11-28-uniform.md).
bool is_short_walk(const Facts& facts, const For& n) {
  constexpr int64_t most_tiles = 4;
  Interval tiles = Analysis(facts).range(n.extent);  // of all blocks
  return n.loop == Loop::serial && tiles.min >= 1 && tiles.max <= most_tiles && tiles.max - tiles.min <= 1;
}

// Behind the last product, if that stands where every block comes once, or in a walk's last turn; null: it
// does not.
Stmt with_trigger(const Function& f, const Facts& facts, const Stmt& s, const Expr& when = {}) {
  if (auto* n = s.as<For>(); n && !when && is_short_walk(facts, *n)) {
    Stmt with = with_trigger(f, facts, n->body, eq(n->var + 1, n->min + n->extent));
    return with ? for_loop(n->var, n->min, n->extent, n->loop, with, n->span, n->attrs) : Stmt();
  }
  auto* b = s.as<Block>();
  if (!b) return {};
  std::vector<Stmt> out = b->stmts;
  auto last = std::find_if(out.rbegin(), out.rend(), has_product);
  if (last == out.rend() || last->as<If>()) return {};
  if (!writes_tensor(f, *last)) {
    Stmt trigger = eval(call(pdl_trigger, {}, s->span), s->span);
    out.insert(last.base(), when ? if_then(when, trigger, {}, s->span) : trigger);
    return block(std::move(out), s->span);
  }
  *last = with_trigger(f, facts, *last, when);
  return *last ? block(std::move(out), s->span) : Stmt();
}

void launch_early(Function& f, Kernel& k, const Target& target) {
  auto* body = k.body.as<Block>();
  if (!body || std::ranges::none_of(body->stmts, computes)) return;
  if (contains(k.body, [](const Call& n) { return n.intrinsic == &pdl_sync; }))
    return;  // the program says when
  std::vector<Stmt> out = body->stmts;
  bool triggers = false;
  if (fills_chip_once(f, k, target) && !contains(k.body, triggers_itself))
    for (Stmt& s : out)
      if (computes(s)) {
        auto& g = *s.as<Group>();
        Stmt with = with_trigger(f, facts_of(f, k), g.body);
        triggers |= bool(with);
        if (with) s = group(g.first, g.count, with, g.span, g.max_regs, g.attrs);
      }
  Stmt wait = eval(call(pdl_sync, {}, k.span), k.span);
  auto first = std::ranges::find_if(out, is_role);
  if (loads_first(*first)) {  // its warp waits behind the barriers that it makes
    auto& g = *first->as<Group>();
    std::vector<Stmt> loads = g.body.as<Block>()->stmts;
    loads.insert(loads.begin() + 1, wait);
    *first = group(g.first, g.count, block(std::move(loads), g.span), g.span, g.max_regs, g.attrs);
    first++;
  }
  out.insert(first, wait);
  k.body = block(std::move(out), k.body->span);
  f.notes.push_back(
      {"launch_early", k.name,
       std::string(
           "is launched before the kernel in front of it has ended, and waits for that before it loads") +
           (triggers ? "; the next one may be as soon as all blocks are behind their last product" : ""),
       k.span});
}

}  // namespace

Function launch_early(Function f, const Target& target) {
  for (Kernel& k : f.kernels) launch_early(f, k, target);
  return f;
}

}  // namespace tl
