#include "pass/layout_items.h"

#include "base/error.h"
#include "ir/rewrite.h"
#include "ops/mapping.h"
#include "pass/walk.h"
#include "target/effects.h"

namespace tl {
namespace {

struct Collector {
  const Function& f;
  const Kernel& kernel;
  const Target& target;
  std::vector<LayoutItem> items = {};

  bool is_fragment(BufferId b) const { return f[b].scope == Scope::fragment; }

  std::optional<Fragment> annotated_loop(const ParallelNest& nest, const Team& team) const {
    auto* value = nest.attrs.find("loop_layout");
    auto* map = value ? std::get_if<IndexMap>(value) : nullptr;
    if (!map || !target.has_threads()) return std::nullopt;
    check_iterations_apart(fragment_from_map(*map), nest.span);
    return checked_fragment(*map, "the loop_layout", nest.span, team);
  }

  // Whether to look below it.
  bool collect(const Stmt& s, const Team& team) {
    LayoutItem item{.stmt = s, .team = team};
    auto* tile = s.as<Tile>();
    auto* loop = s.as<For>();
    if (tile && tile->body) return true;
    if (tile && row_of(*tile).nest) item.nest = row_of(*tile).nest(*tile, f);
    if (loop && loop->loop == Loop::parallel) item.nest = read_nest(*loop);
    if (item.nest) item.loop = annotated_loop(*item.nest, team);
    if (loop && item.nest) {
      for (auto& a : accesses_of(*item.nest))
        if (is_fragment(a.buffer)) item.touched.insert(a.buffer);
    } else {
      for (auto& e : effects_of(s).list)
        if (!tile || e.region) add_effect(item, e);
    }
    bool whole = tile || item.nest;
    if (whole || !item.elements.empty()) items.push_back(std::move(item));
    return !whole;
  }

  void add_effect(LayoutItem& item, const Effect& e) const {
    if (!is_fragment(e.buffer)) return;
    item.touched.insert(e.buffer);
    if (e.region) return;
    item.elements.insert(e.buffer);
    item.places.push_back({e.buffer, place_of(e), e.by == nullptr});
  }
};

}  // namespace

Fragment checked_fragment(const IndexMap& map, std::string_view what, Span span, const Team& team) {
  Fragment fragment = fragment_from_map(map);
  if (std::string why = why_not_inverse(fragment); !why.empty())
    fail(span, "{} {} cannot be used: which elements a thread holds cannot be derived from it, because {}",
         what, to_string(fragment), why);
  if (fragment.threads > team.count)
    fail(span, "{} {} names {} threads, but {} of this kernel has {}", what, to_string(fragment),
         fragment.threads, team.first || team.barrier ? "the team" : "a block", team.count);
  return fragment;
}

std::map<BufferId, Team> owners_of(const Function& f, const std::vector<LayoutItem>& items) {
  std::map<BufferId, Team> of_storage, teams;
  for (auto& item : items)
    for (BufferId b : item.touched) of_storage.try_emplace(f.storage(b), item.team);
  for (size_t i = 0; i < f.buffers.size(); i++)
    if (auto it = of_storage.find(f.storage(BufferId{int(i)})); it != of_storage.end())
      teams.emplace(BufferId{int(i)}, it->second);
  return teams;
}

std::vector<LayoutItem> layout_items(const Function& f, const Kernel& kernel, const Target& target) {
  Collector collector{.f = f, .kernel = kernel, .target = target};
  walk(kernel.body, {.team = whole_block(kernel)},
       [&](const Stmt& s, const WalkContext& at) { return collector.collect(s, at.team); });
  return std::move(collector.items);
}

}  // namespace tl
