#include "pass/inference.h"

#include <algorithm>

#include "ops/mapping.h"
#include "pass/share_storage.h"

namespace tl {
namespace {

constexpr std::string_view strictness_names[] = {"strict", "common", "free"};

// ── single elements of fragments ──────────────────────────────────────────────────────────────────────

// Do all threads find the elements that they name in their own registers, and may write them there?
bool are_at_hand(const Inference& in, const LayoutItem& item, BufferId b, const Fragment& fragment) {
  bool is_everywhere = equal(fragment, replicated(tile_shape(in.f[b]), item.team.count));
  return std::ranges::all_of(item.places, [&](const LayoutItem::Element& e) {
    if (e.buffer != b || (is_everywhere && !(e.is_store && in.own.differ(e.index)))) return true;
    return in.own.are_own(fragment, e.index, e.is_store, item.team);
  });
}

// Does every thread store a number of its own under one index?  Then each needs its own element.
bool keeps_own_numbers(const Inference& in, const LayoutItem& item, BufferId b) {
  return !in.own.own_numbers(b).empty() &&
         std::ranges::any_of(item.places, [&](const LayoutItem::Element& e) {
           return e.buffer == b && e.is_store && !in.own.differ(e.index);
         });
}

LayoutDecisions ask_elements(const Inference& in, const LayoutItem& item, Strictness level) {
  LayoutDecisions out;
  for (BufferId b : item.elements) {
    auto it = in.known.fragments.find(b);
    if (it == in.known.fragments.end()) {
      if (level == Strictness::free || keeps_own_numbers(in, item, b))
        out.fragments.emplace(b, replicated(tile_shape(in.f[b]), item.team.count));
    } else if (in.target.has_threads() && !are_at_hand(in, item, b, it->second)) {
      out.relayout.insert(b);
    }
  }
  return out;
}

void note_by(Inference& in, BufferId buffer, const LayoutItem& item, Strictness level,
             const std::string& layout) {
  note_layout(in, buffer, subject_of(item.stmt), item.stmt->span, strictness_names[size_t(level)], layout);
}

void note_unfit(Inference& in, BufferId b, const LayoutItem& item, const Layout& wanted) {
  in.notes.push_back(
      {.pass = "infer_layouts",
       .subject = in.f[b].name,
       .text = fmt::format(
           "{} wants {}, which would separate the elements of a view of a wider type: it stays row-major",
           subject_of(item.stmt), to_string(wanted)),
       .span = item.stmt->span,
       .refusal = true,
       .buffer = b});
}

bool learn_shared(Inference& in, const LayoutItem& item, const std::map<BufferId, Layout>& wanted,
                  Strictness level) {
  bool news = false;
  for (auto& [buffer, layout] : wanted) {
    if (in.known.shared.contains(buffer)) continue;  // what stands is right, if not best
    bool fits = fits_others(layout, in.f, buffer);
    fits ? note_by(in, buffer, item, level, to_string(layout)) : note_unfit(in, buffer, item, layout);
    in.known.shared.emplace(buffer, fits ? layout : row_major(tile_shape(in.f[buffer])));
    share(in, buffer);
    news = true;
  }
  return news;
}

bool ask_all(Inference& in, Strictness level) {
  bool news = false;
  for (LayoutItem& item : in.items)
    if (!item.settled && learn(in, item, ask(in, item, level), level)) news = true;
  return news;
}

}  // namespace

LayoutDecisions ask(Inference& in, const LayoutItem& item, Strictness level) {
  if (!item.elements.empty()) return ask_elements(in, item, level);
  in.known.loop = item.loop;
  if (item.nest) return infer_parallel(*item.nest, in.context(item.team), level);
  auto* t = item.stmt.as<Tile>();
  return row_of(*t).infer_layout(*t, in.context(item.team), level);
}

bool learn(Inference& in, LayoutItem& item, LayoutDecisions wanted, Strictness level) {
  bool news = false;
  for (auto& [buffer, fragment] : wanted.fragments) {
    auto [at, fresh] = in.known.fragments.emplace(buffer, fragment);
    if (fresh) {
      note_by(in, buffer, item, level, to_string(fragment));
      share(in, buffer);
    } else if (!equal(at->second, fragment))
      item.relayout.insert(buffer);
    news |= fresh;
  }
  news |= learn_shared(in, item, wanted.shared, level);
  if (wanted.loop && !item.loop) {
    item.loop = std::move(wanted.loop);
    item.lanes = wanted.lanes;
    news = true;
  }
  item.relayout.insert(wanted.relayout.begin(), wanted.relayout.end());
  auto decided = [&](BufferId b) { return in.known.fragments.contains(b) || item.relayout.contains(b); };
  bool all_decided = std::ranges::all_of(item.touched, decided);
  bool answered = !(wanted.fragments.empty() && wanted.shared.empty() && wanted.required.empty());
  item.settled |= (item.loop.has_value() || (item.stmt.as<Tile>() && answered)) && all_decided;
  return news;
}

void share(Inference& in, BufferId learnt) {
  const Function& f = in.f;
  for (size_t i = 0; i < f.buffers.size(); i++) {
    BufferId b{int(i)};
    if (b == learnt || f.storage(b) != f.storage(learnt) || f[b].scope == Scope::global) continue;
    if (f[b].scope == Scope::shared) {
      if (in.known.shared.contains(b)) continue;
      in.known.shared.emplace(b, reshaped(in.known.shared.at(learnt), f, learnt, b));
    } else if (!in.known.fragments.contains(b)) {
      in.known.fragments.emplace(b, reshaped_fragment(in.known.fragments.at(learnt), f, learnt, b));
    }
  }
}

void settle(Inference& in) {
  while (ask_all(in, Strictness::strict)) {
  }
  while (ask_all(in, Strictness::common)) {
  }
}

std::string subject_of(const Stmt& s) {
  if (auto* t = s.as<Tile>()) return std::string(t->op->name);
  if (auto* l = s.as<For>(); l && l->loop == Loop::parallel) return "parallel loop " + l->var.as<Var>()->hint;
  return "a single element";
}

void note_layout(Inference& in, BufferId buffer, const std::string& by, Span span, std::string_view strength,
                 const std::string& layout) {
  in.notes.push_back({.pass = "infer_layouts",
                      .subject = in.f[buffer].name,
                      .text = fmt::format("{} (by {}, {})", layout, by, strength),
                      .span = span,
                      .buffer = buffer,
                      .by = by,
                      .strictness = std::string(strength)});
}

}  // namespace tl
