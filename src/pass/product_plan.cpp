#include "pass/product_plan.h"

#include <algorithm>

#include "base/product.h"
#include "ir/rewrite.h"
#include "ops/gemm.h"
#include "ops/mapping.h"
#include "pass/tile_use.h"
#include "target/effects.h"

namespace tl {
namespace {

struct ProductPlanner {
  const Function& f;
  const Kernel& k;
  const Target& target;
  RoleLoop& loop;

  bool is_product(const Stmt& s) const {
    auto* t = s.as<Tile>();
    return t && t->op->name == "gemm" && why_no_wgmma(f, k, target, s, true).empty();
  }
  // That this plan may begin and wait for.
  bool may_begin(const Stmt& s) const {
    if (!is_product(s)) return false;
    Gemm g = read_gemm(*s.as<Tile>(), f);
    return !g.in_flight && !may_lie_otherwise(f, k, target, *s.as<Tile>(), g.c.buffer);
  }
  bool is_in_ring(BufferId b) const {
    return std::ranges::any_of(loop.rings, [&](auto& r) { return std::ranges::count(r.tiles, b) > 0; });
  }
  bool writes(const Stmt& s, BufferId b) const {
    bool found = false;
    visit_effects(
        s, [&](const Stmt&, const Effect& e) { found |= f.storage(e.buffer) == f.storage(b) && e.writes(); });
    return found;
  }
  bool touches(const Stmt& s, BufferId b) const { return use_of(f, s, b).touched; }
  // Is it one more product that adds to the sums, and nothing else to them? Products of warpgroups add in the
  // order in which they were begun.
  bool adds_to(const Stmt& s, BufferId sums) const {
    if (!may_begin(s)) return false;
    Gemm g = read_gemm(*s.as<Tile>(), f);
    auto is_sums = [&](BufferId b) { return f.storage(b) == f.storage(sums); };
    return g.c.buffer == sums && !is_sums(g.a.buffer) && !is_sums(g.b.buffer);
  }

  // ── all stay in flight ──────────────────────────────────────────────────────────────────────────────
  std::string why_it_ends(const Stmt& s) const {
    Gemm g = read_gemm(*s.as<Tile>(), f);
    auto line = [](const Stmt& other) { return other->span.line; };
    if (std::string no = why_no_wgmma(f, k, target, s, true); !no.empty()) return "it is not by wgmma: " + no;
    if (!may_begin(s)) return "the program itself says how long it runs, or how its sums lie";
    for (auto& other : loop.body)
      if (!other.same(s) && touches(other, g.c.buffer) && !adds_to(other, g.c.buffer))
        return fmt::format("the statement on line {} uses its sums {} in the same turn", line(other),
                           f[g.c.buffer].name);
    if (f[g.a.buffer].scope != Scope::shared)
      return fmt::format("it multiplies {}, which threads hold in registers", f[g.a.buffer].name);
    for (BufferId b : {g.a.buffer, g.b.buffer})
      for (auto& other : loop.body)
        if (!is_in_ring(b) && writes(other, b))
          return fmt::format("the statement on line {} writes to {}, which it multiplies", line(other),
                             f[b].name);
    return "";
  }
  // Of all products that end in their turn, what the first one has to; "" where all stay in flight.
  std::string why_one_ends() const {
    std::string why;
    for (auto& s : loop.body)
      visit_nodes(s, [&](const Node& n) {
        if (n.kind != Kind::Tile || static_cast<const Tile&>(n).op->name != "gemm" || !why.empty()) return;
        std::string no =
            &n == s.get() ? why_it_ends(s) : "it stands in a loop or under a condition of the turn";
        if (!no.empty()) why = fmt::format("that on line {}, as {}", n.span.line, no);
      });
    return why;
  }

  // ── some are late ───────────────────────────────────────────────────────────────────────────────────
  // Have threads of the same turn computed something from another product's sums, in front of it?
  bool follows_threads(size_t place) const {
    for (size_t first = 0; first < place; first++) {
      if (!may_begin(loop.body[first])) continue;
      BufferId sums = region_of(*loop.body[first].as<Tile>(), 2).buffer;
      for (size_t i = first + 1; i < place; i++)
        if (!is_product(loop.body[i]) && touches(loop.body[i], sums)) return true;
    }
    return false;
  }
  // Behind the products that a turn begins before threads look at any of them.
  size_t place_of_late() const {
    size_t behind = 0;
    std::set<BufferId> sums;
    for (size_t i = 0; i < loop.body.size(); i++) {
      const Stmt& s = loop.body[i];
      if (is_product(s)) {
        behind = i + 1;
        sums.insert(region_of(*s.as<Tile>(), 2).buffer);
      } else if (std::ranges::any_of(sums, [&](BufferId b) { return touches(s, b); })) {
        break;
      }
    }
    return behind;
  }
  bool uses_names_of_turn(const Stmt& product) const {
    std::set<const ExprNode*> names;
    for (auto& s : loop.body)
      if (auto* n = s.as<Let>()) names.insert(n->var.get());
    return contains(product, [&](const Var& v) { return names.contains(&v); });
  }
  // May the product at `place` stand in front of the statement at `to` of the next turn?
  std::string why_not_late(size_t place, size_t to) const {
    const Stmt& product = loop.body[place];
    Gemm g = read_gemm(*product.as<Tile>(), f);
    auto name = [&](BufferId b) { return f[b].name; };
    if (uses_names_of_turn(product)) return "its operands depend on names of the turn";
    if (contains(product, [](const Load&) { return true; })) return "its operands depend on memory";
    for (size_t i = 0; i < loop.body.size(); i++) {
      const Stmt& s = loop.body[i];
      bool crossed = i > place || i < to;
      if (i == place || !crossed) continue;
      if (touches(s, g.c.buffer))
        return fmt::format(
            "the statement on line {} uses {} between this turn's product and the next turn's "
            "first ones",
            s->span.line, name(g.c.buffer));
      for (BufferId b : {g.a.buffer, g.b.buffer})
        if (!is_in_ring(b) && writes(s, b))
          return fmt::format("the statement on line {} writes to {}, which it multiplies", s->span.line,
                             name(b));
    }
    return "";
  }
  // `why`: what is said where none can be late.
  std::string plan_late(std::string why) {
    size_t to = place_of_late();
    for (size_t i = 0; i < loop.body.size(); i++) {
      if (!may_begin(loop.body[i]) || !follows_threads(i)) continue;
      if (std::string no = why_not_late(i, to); no.empty())
        loop.late.push_back(i);
      else
        why = fmt::format("the one on line {} cannot be begun a turn later: {}", loop.body[i]->span.line, no);
    }
    if (loop.late.empty()) return why;
    loop.late_place = to;
    // What a turn reads itself it waits for, before the late product of the next one.
    for (auto& ring : loop.rings)
      for (size_t i = ring.readers.size(); i-- > 0;)
        if (std::ranges::count(loop.late, ring.readers[i]) == 0) ring.first = ring.readers[i];
    for (auto& s : loop.body)
      if (may_begin(s)) loop.in_flight.insert(s.get());
    find_anchor();
    return "";
  }
  // The last small thing that threads compute before they need what late products sum up or multiply.
  void find_anchor() {
    constexpr int64_t most_elements = 512;
    for (size_t i = loop.late_place; i < loop.body.size(); i++) {
      const Stmt& s = loop.body[i];
      if (is_product(s)) continue;
      for (size_t late : loop.late) {
        Gemm g = read_gemm(*loop.body[late].as<Tile>(), f);
        if (touches(s, g.c.buffer) || writes(s, g.a.buffer) || writes(s, g.b.buffer)) return;
      }
      visit_effects(s, [&](const Stmt&, const Effect& e) {
        const BufferInfo& info = f[e.buffer];
        if (!e.writes() || info.scope != Scope::fragment || info.dtype.bits < 8) return;
        if (product(tile_shape(info)) > most_elements || s.as<Alloc>()) return;
        loop.anchored = s;
        loop.anchor = e.buffer;
      });
    }
  }

  std::string run() {
    if (std::string why = why_one_ends(); !why.empty()) return plan_late(why);
    for (auto& s : loop.body)
      if (is_product(s)) loop.in_flight.insert(s.get());
    return "";
  }
};

}  // namespace

bool may_lie_otherwise(const Function& f, const Kernel& k, const Target& target, const Tile& gemm,
                       BufferId fragment) {
  if (f[fragment].layout) return true;
  LayoutDecisions none;
  bool is_sums = fragment == region_of(gemm, 2).buffer;
  if (is_sums && !choose_strategy(read_gemm(gemm, f), {f, k, target, whole_block(k), none}).lies) return true;
  bool otherwise = false;
  std::string policy = gemm.attrs.get_string("policy", "square");
  auto touches = [&](const Stmt& s) {
    bool found = false;
    visit_effects(s,
                  [&](const Stmt&, const Effect& e) { found |= f.storage(e.buffer) == f.storage(fragment); });
    return found;
  };
  visit(
      k.body,
      [&](const Tile& t) {
        Stmt s(&t);
        bool is_other = !is_sums && &t != &gemm && t.op->name == "gemm";
        if (!(is_other || t.attrs.find("loop_layout")) || !touches(s)) return;
        otherwise |= !is_other || t.attrs.get_string("policy", "square") != policy ||
                     !why_no_wgmma(f, k, target, s).empty();
      },
      [&](const For& n) { otherwise |= n.attrs.find("loop_layout") && touches(Stmt(&n)); });
  return otherwise;
}

namespace {

bool is_added_to_elsewhere(const Function& f, const Kernel& k, const Tile& gemm) {
  BufferId sums = f.storage(region_of(gemm, 2).buffer);
  return contains(k.body, [&](const Tile& t) {
    return &t != &gemm && t.op->name == "gemm" && f.storage(region_of(t, 2).buffer) == sums;
  });
}

}  // namespace

// C is computed transposed only where the product runs beside others: of one that is waited for at once,
// mma.sync takes as little as 0.6 of the time (bench/results/2026-11-28-thin.md).
std::string why_no_wgmma(const Function& f, const Kernel& k, const Target& target, const Stmt& gemm,
                         bool divided) {
  LayoutDecisions none;
  const Tile& t = *gemm.as<Tile>();
  Gemm g = read_gemm(t, f);
  bool otherwise =
      divided && (may_lie_otherwise(f, k, target, t, g.c.buffer) || is_added_to_elsewhere(f, k, t));
  if (divided && !g.in_flight)
    g.keeps_rows = otherwise ? "another product, or the program, says how its sums lie" : "";
  return why_not_by_warpgroups(g, {f, k, target, whole_block(k), none});
}

std::string plan_products(const Function& f, const Kernel& k, const Target& target, RoleLoop& loop) {
  return ProductPlanner{f, k, target, loop}.run();
}

}  // namespace tl
