#include "pass/layout_items.h"

#include <algorithm>

#include "base/error.h"
#include "ir/rewrite.h"
#include "ops/mapping.h"

namespace tl {
namespace {

struct Collector {
  const Function& f;
  const Kernel& kernel;
  const Target& target;
  std::vector<LayoutItem> items = {};

  bool is_fragment(BufferId b) const { return f[b].scope == Scope::fragment; }

  void add_element(LayoutItem& item, BufferId b, const std::vector<Expr>& index, bool is_store) const {
    item.elements.insert(b);
    item.places.push_back({b, index, is_store});
  }

  template <class R>
  void add_elements(LayoutItem& item, const R& r) const {
    if (!r) return;
    visit(r, [&](const Load& n) {
      if (is_fragment(n.buffer)) add_element(item, n.buffer, n.index, false);
    });
  }

  std::optional<Fragment> annotated_loop(const ParallelNest& nest) const {
    auto* value = nest.attrs.find("loop_layout");
    auto* map = value ? std::get_if<IndexMap>(value) : nullptr;
    if (!map || !target.has_threads()) return std::nullopt;
    return checked_fragment(*map, "the loop_layout", nest.span, kernel);
  }

  void collect_scalar(const Stmt& s) {
    LayoutItem item{.stmt = s};
    if (auto* l = s.as<Let>())
      add_elements(item, l->value);
    else if (auto* e = s.as<Eval>())
      add_elements(item, e->value);
    else if (auto* i = s.as<If>())
      add_elements(item, i->cond);
    else if (auto* w = s.as<While>())
      add_elements(item, w->cond);
    else if (auto* l = s.as<For>()) {
      add_elements(item, l->min);
      add_elements(item, l->extent);
    } else if (auto* st = s.as<Store>()) {
      add_elements(item, s);
      if (is_fragment(st->buffer)) add_element(item, st->buffer, st->index, true);
    }
    item.touched = item.elements;
    if (!item.elements.empty()) items.push_back(std::move(item));
  }

  void collect(const Stmt& s) {
    if (!s) return;
    if (auto* t = s.as<Tile>()) {
      if (t->body) return collect(t->body);
      LayoutItem item{.stmt = s};
      if (row_of(*t).nest) {
        item.nest = row_of(*t).nest(*t, f);
        item.loop = annotated_loop(*item.nest);
      }
      for (auto& o : t->operands)
        if (auto* r = std::get_if<Region>(&o); r && is_fragment(r->buffer)) item.touched.insert(r->buffer);
      items.push_back(std::move(item));
      return;
    }
    auto* loop = s.as<For>();
    if (loop && loop->loop == Loop::parallel) {
      LayoutItem item{.stmt = s, .nest = read_nest(*loop)};
      item.loop = annotated_loop(*item.nest);
      for (auto& a : accesses_of(*item.nest))
        if (is_fragment(a.buffer)) item.touched.insert(a.buffer);
      items.push_back(std::move(item));
      return;
    }
    collect_scalar(s);
    if (loop) collect(loop->body);
    if (auto* w = s.as<While>()) collect(w->body);
    if (auto* g = s.as<Group>()) collect(g->body);
    if (auto* i = s.as<If>()) {
      collect(i->then_body);
      collect(i->else_body);
    }
    if (auto* b = s.as<Block>())
      for (auto& inner : b->stmts) collect(inner);
  }
};

}  // namespace

Fragment checked_fragment(const IndexMap& map, std::string_view what, Span span, const Kernel& kernel) {
  Fragment fragment = fragment_from_map(map);
  if (std::string why = why_not_inverse(fragment); !why.empty())
    fail(span, "{} {} cannot be used: what one thread holds cannot be read off it, because {}", what,
         to_string(fragment), why);
  if (fragment.threads > thread_count(kernel))
    fail(span, "{} {} names {} threads, but a block of this kernel has {}", what, to_string(fragment),
         fragment.threads, thread_count(kernel));
  return fragment;
}

std::vector<LayoutItem> layout_items(const Function& f, const Kernel& kernel, const Target& target) {
  Collector collector{.f = f, .kernel = kernel, .target = target};
  collector.collect(kernel.body);
  return std::move(collector.items);
}

}  // namespace tl
