// infer_layouts: gives every shared and fragment buffer a layout, every parallel loop a mapping (paper 4.2).
// The last pass at tile level: the order of tile operators is final, and lowering needs to know where
// elements live.
//
// A fixed point over three levels of strictness: at each, every statement is asked which layouts it wants
// given what is known, until nothing new is learnt; then the next weaker level. As soon as a weaker level
// decides something, the stronger ones are asked again. A free choice is tried out for each statement that
// could make it, and the cheapest outcome is kept. Statements that need a fragment's elements on other
// threads get copies through shared memory (relayout_through_shared), and the fixed point starts over. When
// all is laid out, every operator says how it will be executed; that is recorded on its statement. The pass
// does not name any operator.
//
//   Cl = fragment f32[64, 64]   ->   Cl = fragment f32[64, 64] layout((i, j, rep) -> (thread, register))
#include <algorithm>

#include "base/error.h"
#include "ir/rewrite.h"
#include "ops/mapping.h"
#include "pass/inference.h"
#include "pass/passes.h"
#include "pass/relayout_through_shared.h"
#include "pass/splice.h"
#include "pass/spread_banks.h"

namespace tl {
namespace {

// The fix point over the strengths.
void infer(Inference& in) {
  lay_out_shared(in);
  do settle(in);
  while (take_free_choice(in));
  for (LayoutItem& item : in.items)  // what was learnt after an item was last asked
    if (!item.elements.empty()) learn(in, item, ask(in, item, Strictness::common), Strictness::common);
  for (LayoutItem& item : in.items)
    if (item.elements.empty() && !item.nest) item.record = ask(in, item, Strictness::free).record;
}

// No operator asked for these, but a warp's accesses would conflict in few banks.
void spread(Inference& in) {
  std::vector<MappedNest> nests;
  for (auto& item : in.items)
    if (item.nest && item.loop) nests.push_back({item.stmt, &*item.nest, &*item.loop, item.lanes});
  for (auto& [b, layout] : spread_over_banks(in.f, in.kernel, in.target, nests, in.known)) {
    note_layout(in, b, "the banks", in.f[b].span, "free", to_string(layout));
    in.known.shared.emplace(b, layout);
  }
}

template <class M>
std::vector<BufferId> known_ids(const M& known) {
  std::vector<BufferId> ids;
  for (auto& entry : known) ids.push_back(entry.first);
  return ids;
}

// What the user has annotated; with one thread per block every fragment is an ordinary array.
void preset_layouts(Inference& inference) {
  visit(inference.kernel.body, [&](const Alloc& n) {
    const BufferInfo& info = inference.f[n.buffer];
    LayoutDecisions& known = inference.known;
    if (info.scope == Scope::fragment && !inference.target.has_threads())
      known.fragments.emplace(n.buffer, replicated(tile_shape(info), 1));
    else if (info.scope == Scope::fragment && info.layout)
      known.fragments.emplace(n.buffer, checked_fragment(*info.layout, "the layout of " + info.name,
                                                         info.span, inference.owner(n.buffer)));
    else if (info.scope == Scope::shared && info.layout)
      known.shared.emplace(n.buffer, from_map(*info.layout));
  });
  auto shared = known_ids(inference.known.shared), fragments = known_ids(inference.known.fragments);
  for (auto* ids : {&shared, &fragments})
    for (BufferId b : *ids) share(inference, b);
}

// The body with the staged items' copies put around them.
Stmt staged(Function& f, const Kernel& kernel, const Inference& inference) {
  std::map<const StmtNode*, const LayoutItem*> of;
  for (auto& item : inference.items)
    if (!item.relayout.empty()) of.emplace(item.stmt.get(), &item);
  auto with_copies = [&](const Stmt& original, const Stmt& walked) -> std::vector<Stmt> {
    auto it = of.find(original.get());
    if (it == of.end()) return {walked};
    return relayout_through_shared(f, kernel.thread, it->second->team, inference.own, walked,
                                   it->second->relayout, subject_of(original));
  };
  return splice(kernel.body, with_copies);
}

Stmt annotated(const Stmt& body, const std::vector<LayoutItem>& items) {
  std::map<const StmtNode*, const LayoutItem*> of;
  for (auto& item : items) of.emplace(item.stmt.get(), &item);
  auto attrs_with = [](Attrs attrs, const LayoutItem& item) {
    if (item.loop) attrs.entries["loop_layout"] = item.loop->layout.map();
    if (item.lanes) attrs.entries["loop_lanes"] = item.lanes;
    for (auto& [name, value] : item.record.entries) attrs.entries.insert_or_assign(name, value);
    return attrs;
  };
  return rewrite(
      body,
      [&](const Tile& n, Rewriter& self) -> Stmt {
        if (n.body) return self.children(n);
        return tile(*n.op, n.operands, attrs_with(n.attrs, *of.at(&n)), n.span);
      },
      [&](const For& n, Rewriter& self) -> Stmt {
        if (n.loop != Loop::parallel) return self.children(n);
        return for_loop(n.var, n.min, n.extent, n.loop, n.body, n.span, attrs_with(n.attrs, *of.at(&n)));
      });
}

void write_back(Function& f, const LayoutDecisions& known, const Inference& in) {
  visit(in.kernel.body, [&](const Alloc& n) {
    BufferInfo& info = f[n.buffer];
    if (info.scope == Scope::fragment) {
      auto it = known.fragments.find(n.buffer);
      Fragment fragment =
          it == known.fragments.end() ? replicated(tile_shape(info), in.owner(n.buffer).count) : it->second;
      info.layout = fragment.layout.map();
      info.elements = fragment.registers;
    } else if (info.scope == Scope::shared || info.scope == Scope::local) {
      auto it = known.shared.find(n.buffer);
      Layout layout = it == known.shared.end() ? row_major(tile_shape(info)) : it->second;
      info.layout = layout.map();
      info.elements = layout.ranges[0];
    }
  });
}

}  // namespace

Function infer_layouts(Function f, const Target& target) {
  for (Kernel& k : f.kernels) {
    for (int round = 0;; round++) {
      internal_check(round < 32, "copies through shared memory bring new conflicts");
      ThreadLocalAccesses own(f, k);
      Inference inference{.f = f, .kernel = k, .target = target, .own = own};
      inference.items = layout_items(f, k, target);
      inference.owners = owners_of(f, inference.items);
      preset_layouts(inference);
      infer(inference);
      bool stage = std::ranges::any_of(inference.items, [](auto& i) { return !i.relayout.empty(); });
      if (stage) {
        k.body = staged(f, k, inference);
        continue;
      }
      if (target.has_threads()) spread(inference);
      LayoutDecisions known = std::move(inference.known);
      std::vector<LayoutItem> items = std::move(inference.items);
      f.notes.insert(f.notes.end(), inference.notes.begin(), inference.notes.end());
      write_back(f, known, inference);
      k.body = annotated(k.body, items);
      k.attrs.entries.erase("sums_stay");  // gemm has chosen
      break;
    }
  }
  return f;
}

}  // namespace tl
