// The role that loads: what of the kernel says when and which tiles are loaded, and the loads, each as soon
// as its slot is free.
#include "base/error.h"
#include "ops/tma_boxes.h"
#include "pass/role_parts.h"

namespace tl {
namespace {

struct Loader {
  DividedKernel& all;
  Turns turns = Turns::all;
  WalkContext at = {};

  std::vector<Stmt> loads(const RoleLoop& loop) {
    std::vector<Stmt> out;
    for (auto& s : loop.body)
      if (s.as<Let>()) out.push_back(s);
    auto& n = *loop.loop.as<For>();
    Expr turn = turns == Turns::first ? cast(i64, n.var - n.min) : all.named_turn(loop, at, out);
    all.stamp(loop, RoleStamps::Edge::begin, out);
    for (auto& ring : loop.rings) {
      const RingWords& words = all.words.at(&ring);
      if (turns != Turns::first) out.push_back(all.wait_empty(loop, ring, turn));
      Expr slot = all.slot(loop, turn);
      for (auto& copy : ring.copies) {
        auto& t = *copy.as<Tile>();
        Region to = region_of(t, 1), word{words.full, {{.min = slot, .extent = imm(1), .point = true}}};
        to.ranges.insert(to.ranges.begin(), Range{.min = slot, .extent = imm(1), .point = true});
        std::string why_not;
        Stmt made = tma_copy_of(all.f, all.k, all.target, {region_of(t, 0), to, word}, t.span, why_not);
        internal_check(why_not.empty(), "a load that was possible without slots");
        out.push_back(made);
      }
      out.push_back(all.arrive(words.full, slot, false, loop.loop->span));
    }
    all.stamp(loop, RoleStamps::Edge::end, out);
    if (all.is_counted(&loop) && turns != Turns::first) out.push_back(all.count(&loop, imm(1), n.span));
    return out;
  }
  // Of a tile beside the loops.
  std::vector<Stmt> load(const RoleLoad& load) {
    auto& t = *load.copy.as<Tile>();
    const RingWords& words = all.words.at(&load);
    Expr turn = all.turn(&load, load.copy, at);
    Range slot{.min = all.slot(load, turn), .extent = imm(1), .point = true};
    Region to = region_of(t, 1), word{words.full, {slot}};
    if (all.slots(load) > 1) to.ranges.insert(to.ranges.begin(), slot);
    std::string why_not;
    Stmt made = tma_copy_of(all.f, all.k, all.target, {region_of(t, 0), to, word}, t.span, why_not);
    internal_check(why_not.empty(), "a load that was possible before");
    std::vector<Stmt> out{all.wait_empty(load, turn), made, all.arrive(words.full, slot.min, false, t.span)};
    if (all.is_counted(&load)) out.push_back(all.count(&load, imm(1), t.span));
    return out;
  }
  // What of the statement says when loads happen, and the loads.
  std::vector<Stmt> part(const Stmt& s) {
    if (!s) return {};
    if (const RoleLoad* load = all.plan.find_load(s)) return this->load(*load);
    if (auto* n = s.as<Block>()) {
      Inside inside(at);
      std::vector<Stmt> out;
      for (auto& inner : n->stmts) {
        for (auto& made : part(inner)) out.push_back(made);
        note_statement(at, inner);
      }
      return out;
    }
    if (s.as<Let>()) return {s};
    if (auto* n = s.as<For>()) {
      Inside inside(at, *n);
      const RoleLoop* loop = all.plan.find(s);
      return around(loop ? loads(*loop) : part(n->body), [&](const Stmt& body) {
        if (loop) return turns_of(*loop, body);
        if (turns == Turns::first) return first_iteration(*n, body);
        return for_loop(n->var, n->min, n->extent, n->loop, body, n->span);
      });
    }
    if (auto* n = s.as<If>()) {
      std::vector<Stmt> yes = arm(*n, true), no = arm(*n, false);
      if (without_names(yes).empty() && without_names(no).empty()) return {};
      return {if_then(n->cond, block(yes, n->span), no.empty() ? Stmt() : block(no, n->span), n->span)};
    }
    return {};
  }
  // Turns of which the loads begin early: none but in the first iteration of a loop around.
  Expr first_turns(const RoleLoop& loop) const {
    auto& n = *loop.loop.as<For>();
    int64_t most = all.early_turns(loop);
    Expr count = imm(most, n.extent->dtype);
    if (auto turns = as_int(n.extent); !turns || *turns < most) count = min(count, n.extent);
    if (turns == Turns::first || at.loops.front() == &n) return count;
    return select(eq(at.loops.front()->var, at.loops.front()->min), count, imm(0, n.extent->dtype));
  }
  Stmt turns_of(const RoleLoop& loop, const Stmt& body) const {
    auto& n = *loop.loop.as<For>();
    if (turns == Turns::all) return for_loop(n.var, n.min, n.extent, Loop::serial, body, n.span);
    Expr first = first_turns(loop);
    if (turns == Turns::first) return for_loop(n.var, n.min, first, Loop::serial, body, n.span);
    std::vector<Stmt> out;
    if (!as_int(first)) {
      Expr begun = var("begun", first->dtype);
      out.push_back(let(begun, first, n.span));
      first = begun;
      if (all.is_counted(&loop)) out.push_back(all.count(&loop, begun, n.span));
    }
    Expr later = var(n.var.as<Var>()->hint, n.var->dtype);
    Stmt behind = substitute(body, {{n.var.get(), later + first}});
    out.push_back(for_loop(later, n.min, n.extent - first, Loop::serial, behind, n.span));
    return block(std::move(out), n.span);
  }
  static Stmt first_iteration(const For& n, const Stmt& body) {
    Stmt first = substitute(body, {{n.var.get(), n.min}});
    return if_then(lt(imm(0, n.extent->dtype), n.extent), first, {}, n.span);
  }
  std::vector<Stmt> arm(const If& n, bool holds) {
    Inside inside(at, n.cond, holds);
    return part(holds ? n.then_body : n.else_body);
  }
  static std::vector<Stmt> without_names(std::vector<Stmt> stmts) {
    std::erase_if(stmts, [](auto& s) { return s.template as<Let>() != nullptr; });
    return stmts;
  }
  static std::vector<Stmt> around(const std::vector<Stmt>& stmts,
                                  const std::function<Stmt(const Stmt&)>& make) {
    if (without_names(stmts).empty()) return {};
    return {make(block(stmts, stmts.back()->span))};
  }
  // Names that nothing uses may stand for what only the other role can know.
  static Stmt without_unused(Stmt body) {
    for (;;) {
      std::map<const ExprNode*, int> uses;  // beside those that give them their value
      visit(body, [&](const Var& v) { uses[&v]++; }, [&](const Let& n) { uses[n.var.get()]--; });
      bool dropped = false;
      body = rewrite(body, [&](const Let& n, Rewriter& self) -> Stmt {
        if (uses[n.var.get()] > 0) return self.children(n);
        dropped = true;
        return block({}, n.span);
      });
      if (!dropped) return body;
    }
  }
};

}  // namespace

Stmt loading_part(DividedKernel& all, Turns turns) {
  Loader loader{.all = all, .turns = turns, .at = {.team = whole_block(all.k)}};
  return Loader::without_unused(block(loader.part(all.k.body), all.k.body->span));
}

}  // namespace tl
