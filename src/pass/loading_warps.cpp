#include "pass/loading_warps.h"

#include "ops/tma_boxes.h"
#include "pass/box_uses.h"
#include "pass/slots.h"
#include "target/effects.h"

namespace tl {

LoadingWarps loading_warps(Function& f, const Kernel& k, const Target& target) {
  LoadingWarps out{.f = f, .k = k, .target = target, .for_threads = tiles_for_threads(f, k)};
  visit_effects(k.body, [&](const Stmt&, const Effect& e) {
    if (e.access == Access::read) return;
    out.written.insert(f.storage(e.buffer));
    out.writes_tensors |= f[e.buffer].scope == Scope::global;
  });
  return out;
}

std::string LoadingWarps::why_unknown(const Expr& e) const {
  std::string why;
  visit(
      e,
      [&](const Load& n) {
        if (f[n.buffer].scope != Scope::global || written.contains(f.storage(n.buffer)))
          why = fmt::format("it depends on {}, which the kernel computes", f[n.buffer].name);
      },
      [&](const Call& n) {
        if (n.intrinsic->effect != Intrinsic::Effect::pure)
          why = fmt::format("it depends on {}", n.intrinsic->name);
      });
  return why;
}
std::string LoadingWarps::why_unknown_around(const Stmt& copy) const {
  std::string why;
  auto ask = [&](const Expr& e) {
    if (why.empty()) why = why_unknown(e);
  };
  walk(k.body, {.team = whole_block(k)}, [&](const Stmt& s, const WalkContext& at) {
    if (!s.same(copy)) return true;
    for (auto* n : at.loops) ask(n->min), ask(n->extent);
    for (auto& [condition, holds] : at.conditions) ask(condition);
    if (!at.whiles.empty())
      why = fmt::format(
          "it stands in the while loop on line {}, and only a `for` loop is counted ahead "
          "(T.Persistent, or T.PersistentTileScheduler's coord(number), walks through tiles in one)",
          at.whiles[0]->span.line);
    std::set<const ExprNode*> asked;
    auto used = [&](const Expr& e) { return contains(e, [&](const Var& v) { return asked.contains(&v); }); };
    visit_nodes(s, [&](const Node& n) {
      if (n.kind == Kind::Var) asked.insert(static_cast<const ExprNode*>(&n));
      if (n.kind == Kind::Load) ask(Expr(static_cast<const ExprNode*>(&n)));
    });
    auto take = [&](const Expr& e) { visit(e, [&](const Var& v) { asked.insert(&v); }); };
    for (auto* n : at.loops) take(n->min), take(n->extent);
    for (auto& [condition, holds] : at.conditions) take(condition);
    for (size_t i = at.lets.size(); i-- > 0;)
      if (used(at.lets[i]->var)) {
        ask(at.lets[i]->value);
        take(at.lets[i]->value);
      }
    return true;
  });
  return why;
}

std::string LoadingWarps::why_not(const Stmt& copy, BufferId tensor, BufferId tile, bool slotted) const {
  if (written.contains(f.storage(tensor))) return fmt::format("the kernel writes to {}", f[tensor].name);
  if (writes_tensors && may_alias(k, tensor))
    return fmt::format("the kernel writes to a tensor that may overlap {}", f[tensor].name);
  auto* t = copy.as<Tile>();
  if (!t || t->op->name != "copy") return "its elements are computed, not moved";
  if (t->attrs.find("disable_tma")) return "disable_tma says so";
  if (t->attrs.find("loop_layout") || t->attrs.find("coalesced_width")) return "it says which threads do it";
  if (auto it = for_threads.find(f.storage(tile)); it != for_threads.end()) return it->second;
  if (std::string why = why_unknown_around(copy); !why.empty()) return why;
  return why_no_boxes(*t, tile, slotted);
}
std::string LoadingWarps::why_no_boxes(const Tile& t, BufferId tile, bool slotted) const {
  BufferInfo word{.name = "word", .dtype = u64, .shape = {imm(1)}, .scope = Scope::shared, .span = t.span};
  size_t buffers = f.buffers.size();
  BufferId words = f.add(word);
  Region to = region_of(t, 1);
  if (slotted) {
    BufferInfo info = f[tile];
    info.slots = 2;
    give_slots(info);
    to.buffer = f.add(info);
    to.ranges.insert(to.ranges.begin(), Range{.min = var("slot"), .extent = imm(1), .point = true});
  }
  std::string why;
  tma_copy_of(f, k, target,
              {t.operands[0], to, Region{words, {{.min = imm(0), .extent = imm(1), .point = true}}}}, t.span,
              why);
  f.buffers.resize(buffers);
  return why;
}

}  // namespace tl
