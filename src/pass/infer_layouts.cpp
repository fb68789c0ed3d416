// infer_layouts: gives every shared and fragment buffer a layout, every parallel loop a mapping (paper 4.2).
// The last pass at tile level: the order of tile operators is final, and lowering needs to know where
// elements live.
//
// A fix point over three strengths: at each, every statement is asked what it wants given what is known,
// until nothing new is learnt; then the next weaker strength.  As soon as a weaker strength decides
// something, the stronger ones are asked again.  A free choice is tried out for each statement that could
// make it, and the cheapest outcome kept.  Statements that need a fragment's elements on other threads get
// copies through shared memory (stage_tiles), and the fix point starts over.  The pass knows no operator by
// name.
//
//   Cl = fragment f32[64, 64]   ->   Cl = fragment f32[64, 64] layout((i, j, rep) -> (thread, register))
#include <algorithm>

#include "base/error.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "ops/mapping.h"
#include "pass/layout_items.h"
#include "pass/own_elements.h"
#include "pass/passes.h"
#include "pass/share_storage.h"
#include "pass/spread_banks.h"
#include "pass/stage_tiles.h"
#include "pass/weigh_layouts.h"

namespace tl {
namespace {

constexpr std::string_view strictness_names[] = {"strict", "common", "free"};

struct Inference {
  const Function& f;
  const Kernel& kernel;
  const Target& target;
  const OwnElements& own;
  std::vector<LayoutItem> items = {};
  LayoutMap known = {};
  std::vector<Note> notes = {};

  LayoutContext context() const {
    return {
        .function = f, .kernel = kernel, .target = target, .threads = thread_count(kernel), .known = known};
  }

  // ── asking and learning ───────────────────────────────────────────────────────────────────────────────
  // Do all threads find the elements that they name in their own registers, and may write them there?
  bool are_at_hand(const LayoutItem& item, BufferId b, const Fragment& fragment, bool is_everywhere) const {
    return std::all_of(item.places.begin(), item.places.end(), [&](const LayoutItem::Element& e) {
      if (e.buffer != b || (is_everywhere && !(e.is_store && own.differ(e.index)))) return true;
      return own.are_own(fragment, e.index, e.is_store);
    });
  }

  // Does every thread store a number of its own under one index?  Then each needs its own element.
  bool keeps_own_numbers(const LayoutItem& item, BufferId b) const {
    return !own.own_numbers(b).empty() &&
           std::any_of(item.places.begin(), item.places.end(), [&](const LayoutItem::Element& e) {
             return e.buffer == b && e.is_store && !own.differ(e.index);
           });
  }

  LayoutMap ask_elements(const LayoutItem& item, Strictness level) const {
    LayoutMap out;
    int64_t threads = thread_count(kernel);
    for (BufferId b : item.elements) {
      auto it = known.fragments.find(b);
      Fragment whole = everywhere(tile_shape(f[b]), threads);
      if (it != known.fragments.end() && target.has_threads() &&
          !are_at_hand(item, b, it->second, equal(it->second, whole)))
        out.stage.insert(b);
      if (it == known.fragments.end() && (level == Strictness::free || keeps_own_numbers(item, b)))
        out.fragments.emplace(b, std::move(whole));
    }
    return out;
  }

  LayoutMap ask(const LayoutItem& item, Strictness level) {
    if (!item.elements.empty()) return ask_elements(item, level);
    known.loop = item.loop;
    if (item.nest) return infer_parallel(*item.nest, context(), level);
    auto* t = item.stmt.as<Tile>();
    return row_of(*t).infer_layout(*t, context(), level);
  }

  std::string subject(const Stmt& s) const {
    if (auto* t = s.as<Tile>()) return std::string(t->op->name);
    if (auto* l = s.as<For>(); l && l->loop == Loop::parallel)
      return "parallel loop " + l->var.as<Var>()->hint;
    return "a single element";
  }

  void note(BufferId buffer, const std::string& by, Span span, Strictness level, const std::string& layout) {
    std::string strictness(strictness_names[size_t(level)]);
    notes.push_back({.pass = "infer_layouts",
                     .subject = f[buffer].name,
                     .text = fmt::format("{} (by {}, {})", layout, by, strictness),
                     .span = span,
                     .buffer = buffer,
                     .by = by,
                     .strictness = strictness});
  }
  void note(BufferId buffer, const LayoutItem& item, Strictness level, const std::string& layout) {
    note(buffer, subject(item.stmt), item.stmt->span, level, layout);
  }

  // ── other shapes of one storage ───────────────────────────────────────────────────────────────────────

  void note_unfit(BufferId b, const LayoutItem& item, const Layout& wanted) {
    notes.push_back({.pass = "infer_layouts",
                     .subject = f[b].name,
                     .text = fmt::format(
                         "{} wants {}, in which the elements of a wider type that is a view of it would not "
                         "lie together: it is row-major",
                         subject(item.stmt), to_string(wanted)),
                     .span = item.stmt->span,
                     .refusal = true,
                     .buffer = b});
  }

  // What was learnt of a buffer holds for all that share its storage.
  void share(BufferId learnt) {
    for (size_t i = 0; i < f.buffers.size(); i++) {
      BufferId b{int(i)};
      if (b == learnt || f.storage(b) != f.storage(learnt) || f[b].scope == Scope::global) continue;
      if (f[b].scope == Scope::shared) {
        if (known.shared.contains(b)) continue;
        known.shared.emplace(b, reshaped(known.shared.at(learnt), f, learnt, b));
      } else if (!known.fragments.contains(b)) {
        known.fragments.emplace(b, reshaped_fragment(known.fragments.at(learnt), f, learnt, b));
      }
    }
  }

  // Adds what an item wants; true if that was new.
  bool learn(LayoutItem& item, LayoutMap wanted, Strictness level) {
    bool news = false;
    for (auto& [buffer, fragment] : wanted.fragments) {
      auto [at, fresh] = known.fragments.emplace(buffer, fragment);
      if (fresh) {
        note(buffer, item, level, to_string(fragment));
        share(buffer);
      } else if (!equal(at->second, fragment))
        item.stage.insert(buffer);
      news |= fresh;
    }
    for (auto& [buffer, layout] : wanted.shared) {
      if (known.shared.contains(buffer)) continue;  // what stands is right, if not best
      bool fits = fits_others(layout, f, buffer);
      if (!fits)
        note_unfit(buffer, item, layout);
      else
        note(buffer, item, level, to_string(layout));
      known.shared.emplace(buffer, fits ? layout : row_major(tile_shape(f[buffer])));
      share(buffer);
      news = true;
    }
    if (wanted.loop && !item.loop) {
      item.loop = std::move(wanted.loop);
      item.lanes = wanted.lanes;
      news = true;
    }
    item.stage.insert(wanted.stage.begin(), wanted.stage.end());
    auto decided = [&](BufferId b) { return known.fragments.contains(b) || item.stage.contains(b); };
    bool all_decided = std::all_of(item.touched.begin(), item.touched.end(), decided);
    bool answered = item.stmt.as<Tile>() && !(wanted.fragments.empty() && wanted.shared.empty());
    item.settled |= (item.loop.has_value() || answered) && all_decided;
    return news;
  }

  bool round(Strictness level) {
    bool news = false;
    for (LayoutItem& item : items)
      if (!item.settled && learn(item, ask(item, level), level)) news = true;
    return news;
  }

  // ── shared tiles ──────────────────────────────────────────────────────────────────────────────────────
  // Before anything else: every operator that strictly wants a layout of one is asked, and what they all want
  // is weighed.
  void lay_out_shared() {
    std::map<BufferId, std::vector<SharedDemand>> demands;
    for (LayoutItem& item : items) {
      if (item.nest || !item.stmt.as<Tile>()) continue;
      LayoutMap wanted = ask(item, Strictness::strict);
      for (auto& [b, layout] : wanted.shared) {
        if (!demands.contains(b) && known.shared.contains(b)) continue;  // the user's, or another shape's
        if (!fits_others(layout, f, b)) continue;                        // `learn` says so
        if (known.shared.emplace(b, layout).second) share(b);
        demands[b].push_back({item.stmt, layout, std::move(wanted.reads[b])});
      }
    }
    for (auto& [b, all] : demands) agree(b, all);
  }

  void agree(BufferId b, const std::vector<SharedDemand>& demands) {
    const BufferInfo& tile = f[b];
    auto is_wanted = [&](const SharedDemand& d) { return equal(d.layout, known.shared.at(b)); };
    if (!std::all_of(demands.begin(), demands.end(), is_wanted)) {
      Layout best = weigh_layouts(f, b, demands, target, room_for(b, f, target, known));
      for (size_t i = 0; i < f.buffers.size(); i++)  // its other shapes lie as it does
        if (f.storage(BufferId{int(i)}) == f.storage(b)) known.shared.erase(BufferId{int(i)});
      known.shared.emplace(b, std::move(best));
      share(b);
    }
    const Layout& chosen = known.shared.at(b);
    auto winner = std::find_if(demands.begin(), demands.end(), is_wanted);
    bool nobodys = winner == demands.end();
    note(b, nobodys ? "the banks" : subject(winner->stmt), nobodys ? tile.span : winner->stmt->span,
         Strictness::strict, to_string(chosen));
    for (auto& d : demands)
      if (!is_wanted(d)) note_lost(b, d, demands);
  }

  // A demand that gave way; a refusal where its operator's own reads have become dearer.
  void note_lost(BufferId b, const SharedDemand& lost, const std::vector<SharedDemand>& demands) {
    const Layout& chosen = known.shared.at(b);
    auto count = [&](const Layout& l, const std::vector<SharedDemand>& all) {
      return wavefronts(l, f[b], all, target);
    };
    std::string line = lost.stmt->span ? fmt::format(" on line {}", lost.stmt->span.line) : "";
    std::string why = lost.reads.empty()
                          ? "another operator was asked first"
                          : fmt::format("for all that read it that takes {} wavefronts, this {}",
                                        count(lost.layout, demands), count(chosen, demands));
    notes.push_back(
        {.pass = "infer_layouts",
         .subject = f[b].name,
         .text = fmt::format("{}{} wants {}: {}", subject(lost.stmt), line, to_string(lost.layout), why),
         .span = lost.stmt->span,
         .refusal = lost.reads.empty() || count(chosen, {lost}) > count(lost.layout, {lost}),
         .buffer = b});
  }

  void settle() {
    while (round(Strictness::strict)) {
    }
    while (round(Strictness::common)) {
    }
  }

  // ── free choices ──────────────────────────────────────────────────────────────────────────────────────
  // What a decided inference costs one thread: accesses to memory, a shared round trip for what is staged,
  // and registers.
  int64_t cost() const {
    int64_t total = 0;
    for (auto& item : items) {
      total += int64_t(item.stage.size()) * 1000;
      if (!item.loop || !item.nest) continue;
      int64_t trips = item.loop->registers;
      for (auto& a : accesses_of(*item.nest)) {
        Scope scope = f[a.buffer].scope;
        if (scope == Scope::global || scope == Scope::shared)
          total +=
              (scope == Scope::global ? 16 : 4) * trips / access_width(*item.nest, context(), *item.loop, a);
      }
    }
    for (auto& [b, fragment] : known.fragments) total += fragment.registers * f[b].dtype.bits / 32;
    return total;
  }

  // Undecided items that share undecided fragments with the first, itself included.
  std::vector<size_t> component(size_t first) const {
    std::set<BufferId> buffers;
    std::set<size_t> members{first};
    for (size_t before = 0; before != members.size() + buffers.size();) {
      before = members.size() + buffers.size();
      for (size_t i : members)
        for (BufferId b : items[i].touched)
          if (!known.fragments.contains(b)) buffers.insert(b);
      for (size_t i = 0; i < items.size(); i++)
        if (!items[i].settled && items[i].elements.empty() &&
            std::any_of(items[i].touched.begin(), items[i].touched.end(),
                        [&](BufferId b) { return buffers.contains(b); }))
          members.insert(i);
    }
    return {members.begin(), members.end()};
  }

  // Elements of the largest undecided fragment that an item touches: the rest follows it by reductions and
  // broadcasts, without a way through shared memory.
  int64_t weight(size_t i) const {
    int64_t most = 0;
    for (BufferId b : items[i].touched) {
      if (known.fragments.contains(b)) continue;
      int64_t size = 1;
      for (int64_t e : tile_shape(f[b])) size *= e;
      most = std::max(most, size);
    }
    return most;
  }

  bool choose(size_t i) { return learn(items[i], ask(items[i], Strictness::free), Strictness::free); }

  // Lets the undecided item decide whose choice makes everything cheapest; the first of equals.
  bool choose_best(size_t first) {
    constexpr size_t most_trials = 8;
    std::vector<size_t> members = component(first);
    if (members.size() == 1 || !target.has_threads()) return choose(first);
    int64_t most = 0;
    for (size_t i : members) most = std::max(most, weight(i));
    std::erase_if(members, [&](size_t i) { return weight(i) < most; });
    size_t best = members[0];
    int64_t least = INT64_MAX;
    for (size_t n = 0; n < members.size() && n < most_trials; n++) {
      Inference trial = *this;
      if (!trial.choose(members[n])) continue;
      trial.settle();
      if (int64_t c = trial.cost(); c < least) {
        least = c;
        best = members[n];
      }
    }
    return choose(best) || choose(first);
  }

  bool free_step() {
    for (bool elements : {false, true})  // single elements take what is left
      for (size_t i = 0; i < items.size(); i++)
        if (!items[i].settled && items[i].elements.empty() != elements && choose_best(i)) return true;
    return false;
  }

  void run() {
    lay_out_shared();
    do settle();
    while (free_step());
    for (LayoutItem& item : items)  // what was learnt after an item was last asked
      if (!item.elements.empty()) learn(item, ask(item, Strictness::common), Strictness::common);
    for (LayoutItem& item : items)
      if (item.elements.empty() && !item.nest) item.record = ask(item, Strictness::free).record;
  }

  // Nobody asks for these, but a warp's accesses would meet in few banks.
  void spread() {
    std::vector<MappedNest> nests;
    for (auto& item : items)
      if (item.nest && item.loop) nests.push_back({item.stmt, &*item.nest, &*item.loop, item.lanes});
    for (auto& [b, layout] : spread_over_banks(f, kernel, target, nests, known)) {
      note(b, "the banks", f[b].span, Strictness::free, to_string(layout));
      known.shared.emplace(b, layout);
    }
  }
};

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
    LayoutMap& known = inference.known;
    if (info.scope == Scope::fragment && !inference.target.has_threads())
      known.fragments.emplace(n.buffer, everywhere(tile_shape(info), 1));
    else if (info.scope == Scope::fragment && info.layout)
      known.fragments.emplace(n.buffer, checked_fragment(*info.layout, "the layout of " + info.name,
                                                         info.span, inference.kernel));
    else if (info.scope == Scope::shared && info.layout)
      known.shared.emplace(n.buffer, from_map(*info.layout));
  });
  auto shared = known_ids(inference.known.shared), fragments = known_ids(inference.known.fragments);
  for (auto* ids : {&shared, &fragments})
    for (BufferId b : *ids) inference.share(b);
}

// The body with the staged items' copies put around them.
Stmt staged(Function& f, const Kernel& kernel, const Inference& inference) {
  std::map<const StmtNode*, const LayoutItem*> of;
  for (auto& item : inference.items)
    if (!item.stage.empty()) of.emplace(item.stmt.get(), &item);
  auto with_copies = [&](const Stmt& original, const Stmt& walked) -> std::vector<Stmt> {
    auto it = of.find(original.get());
    if (it == of.end()) return {walked};
    return stage_tiles(f, kernel.thread, inference.own, walked, it->second->stage,
                       inference.subject(original));
  };
  struct Walk final : Rewriter {
    decltype(with_copies)& expand;
    explicit Walk(decltype(with_copies)& e) : expand(e) {}
    using Rewriter::operator();
    Stmt operator()(const Stmt& s) override {
      auto* b = s.as<Block>();
      if (!b) return block(expand(s, children(s)), s->span);
      std::vector<Stmt> out;  // spliced, so that a Let stays visible to what follows
      for (auto& inner : b->stmts)
        for (auto& x : inner.as<Block>() ? std::vector{(*this)(inner)} : expand(inner, children(inner)))
          out.push_back(x);
      return block(std::move(out), b->span);
    }
  };
  return Walk(with_copies)(kernel.body);
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

void write_back(Function& f, const LayoutMap& known, const Kernel& kernel) {
  visit(kernel.body, [&](const Alloc& n) {
    BufferInfo& info = f[n.buffer];
    if (info.scope == Scope::fragment) {
      auto it = known.fragments.find(n.buffer);
      Fragment fragment =
          it == known.fragments.end() ? everywhere(tile_shape(info), thread_count(kernel)) : it->second;
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
      OwnElements own(f, k);
      Inference inference{.f = f, .kernel = k, .target = target, .own = own};
      preset_layouts(inference);
      inference.items = layout_items(f, k, target);
      inference.run();
      bool stage = std::any_of(inference.items.begin(), inference.items.end(),
                               [](auto& i) { return !i.stage.empty(); });
      if (stage) {
        k.body = staged(f, k, inference);
        continue;
      }
      if (target.has_threads()) inference.spread();
      LayoutMap known = std::move(inference.known);
      std::vector<LayoutItem> items = std::move(inference.items);
      f.notes.insert(f.notes.end(), inference.notes.begin(), inference.notes.end());
      write_back(f, known, k);
      k.body = annotated(k.body, items);
      break;
    }
  }
  return f;
}

}  // namespace tl
