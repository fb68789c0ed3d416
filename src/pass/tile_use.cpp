#include "pass/tile_use.h"

#include <algorithm>

#include "arith/simplify.h"
#include "ir/rewrite.h"
#include "ops/neighbours.h"
#include "target/effects.h"

namespace tl {
namespace {

// Does the nest store to every element of the tile?  Also by several stores, each to one of some neighbours.
bool fills(const ParallelNest& nest, const Function& f, BufferId tile) {
  const std::vector<Expr>& shape = f[tile].shape;
  std::map<std::vector<std::pair<size_t, int64_t>>, std::set<std::vector<int64_t>>> places;
  for (const Stmt& s : statements_of(nest.body)) {
    auto* store = s.as<Store>();
    if (!store || store->buffer != tile || store->mask || store->index.size() != shape.size()) continue;
    std::vector<bool> used(nest.vars.size());
    std::vector<std::pair<size_t, int64_t>> loops;
    std::vector<int64_t> place;
    int64_t groups = 1;
    bool all = true;
    for (size_t d = 0; d < shape.size() && all; d++) {
      Expr at = simplify(store->index[d]);
      if (is_int(shape[d], 1) && is_int(at, 0)) continue;
      auto extent = as_int(shape[d]);
      auto index = extent ? group_index(nest, at, *extent) : std::nullopt;
      all = index && !used[index->loop];
      if (!all) break;
      used[index->loop] = true;
      loops.emplace_back(index->loop, index->group);
      place.push_back(index->place);
      groups *= index->group;
    }
    if (!all) continue;
    places[loops].insert(place);
    if (int64_t(places[loops].size()) == groups) return true;
  }
  return false;
}

// To the end of a loop, or of its turn.
bool may_jump(const Stmt& s) {
  return contains(s,
                  [](const Call& c) { return c.intrinsic == &break_loop || c.intrinsic == &continue_loop; });
}

struct Use {
  const Function& f;
  BufferId tile;
  const StmtNode* part = nullptr;  // only what comes after it counts
  bool found = false;              // it, in the statement at hand

  TileUse leaf(const Stmt& s) const {
    TileUse use;
    visit_effects(s, [&](const Stmt&, const Effect& e) {
      if (f.storage(e.buffer) != f.storage(tile)) return;
      use.touched = true;
      use.reads_earlier |= e.access != Access::write;
    });
    if (auto nest = nest_of(s, f); nest && use.touched) use.overwrites = fills(*nest, f, tile);
    return use;
  }
  TileUse head(const Stmt& s) const {
    TileUse use;
    for (auto& e : effects_of(s).list) use.touched |= f.storage(e.buffer) == f.storage(tile);
    use.reads_earlier = use.touched;
    return use;
  }

  TileUse of(const Stmt& s) {
    if (!s) return {};
    if (s.get() == part) {
      found = true;
      return {};
    }
    return dispatch(s, [&](const auto& n) { return at(s, n); });
  }
  TileUse at(const Stmt&, const Block& n) {
    TileUse use;
    bool left = false;  // by a jump on some way
    for (auto& inner : n.stmts) {
      bool before = part && !found;
      TileUse next = of(inner);
      next.overwrites &= !left;
      if (before && found)
        use = next;
      else if (!before)
        use.then(next);
      left |= may_jump(inner);
    }
    return use;
  }
  // What follows a part of a loop's body is the rest of this turn, and then the next one, or what is behind
  // the loop.
  TileUse turns(const Stmt& s, const Stmt& body, bool runs) {
    bool before = part && !found;
    TileUse use = of(body);
    if (before && found) {
      TileUse next = head(s);
      next.then(Use{f, tile}.of(body));
      next.overwrites = false;
      use.then(next);
      return use;
    }
    TileUse first = head(s);
    first.then(use);
    first.overwrites &= runs;
    return first;
  }
  TileUse at(const Stmt& s, const For& n) {
    if (n.loop == Loop::parallel) return leaf(s);
    auto extent = as_int(n.extent);
    return turns(s, n.body, extent && *extent > 0);
  }
  TileUse at(const Stmt& s, const While& n) { return turns(s, n.body, false); }
  TileUse at(const Stmt& s, const If& n) {
    bool before = part && !found;
    TileUse yes = of(n.then_body);
    if (before && found) return yes;
    TileUse no = of(n.else_body);
    if (before && found) return no;
    TileUse use = head(s);
    use.reads_earlier |= yes.reads_earlier || no.reads_earlier;
    use.touched |= yes.touched || no.touched;
    use.overwrites = yes.overwrites && no.overwrites;
    return use;
  }
  TileUse at(const Stmt&, const Group& n) {
    TileUse use = of(n.body);
    use.overwrites = false;  // some threads alone
    return use;
  }
  TileUse at(const Stmt&, const Alloc& n) {  // what was there is undefined
    return {.overwrites = f.storage(n.buffer) == f.storage(tile)};
  }
  TileUse at(const Stmt& s, const Tile&) { return leaf(s); }
  TileUse at(const Stmt& s, const Store&) { return leaf(s); }
  TileUse at(const Stmt& s, const Let&) { return leaf(s); }
  TileUse at(const Stmt& s, const Eval&) { return leaf(s); }
};

}  // namespace

std::optional<ParallelNest> nest_of(const Stmt& s, const Function& f) {
  if (auto* loop = s.as<For>(); loop && loop->loop == Loop::parallel) return read_nest(*loop);
  auto* t = s.as<Tile>();
  if (!t || t->body || !row_of(*t).nest) return std::nullopt;
  return row_of(*t).nest(*t, f);
}

TileUse use_of(const Function& f, const Stmt& s, BufferId tile) { return Use{f, tile}.of(s); }

TileUse use_after(const Function& f, const Stmt& body, const StmtNode* part, BufferId tile) {
  return Use{f, tile, part}.of(body);
}

}  // namespace tl
