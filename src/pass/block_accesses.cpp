#include "pass/block_accesses.h"

#include <algorithm>
#include <iterator>

#include "base/round.h"
#include "ir/rewrite.h"
#include "ir/tensor_map.h"
#include "pass/varying.h"

namespace tl {
namespace {

// Are the barriers between accesses of this buffer the program's own affair?  Not of what the compiler
// exchanges.
bool is_own_affair(const Kernel& k, BufferId b) { return b.value < k.attrs.get_int("own_barriers"); }

// How far an access through an address reaches: what stores a box names its map. 0: unknown.
int64_t reach_of(const Function& f, const Effect& e) {
  if (e.bytes > 0 || !e.by || e.by->kind != Kind::Call) return e.bytes;
  auto& call = static_cast<const Call&>(*e.by);
  if (f[e.buffer].scope == Scope::global && obeys_mask(*call.intrinsic))
    return e.writes() ? call.args[1]->dtype.bytes() : call.dtype.bytes();
  const AsyncInstr* row = async_row_of(*call.intrinsic);
  using enum AsyncInstr::AsyncKind;
  if (!row || (row->does != tensor_store && row->does != tensor_reduce)) return 0;
  const TensorMap* map = find_tensor_map(f, call.args[0].as<StringImm>()->value);
  return map && f[e.buffer].scope == Scope::shared ? map->box_elements() * f[e.buffer].dtype.bytes() : 0;
}

// An atomic load or store, by which threads order what they do outside of T.Parallel.
bool thread_orders(const Effect& e) {
  if (!e.is_through_address() || e.is_atomic()) return false;
  return static_cast<const Call*>(e.by)->intrinsic->atomic != Intrinsic::Atomic::none;
}

// Of a tile operator or a T.Parallel.
bool is_nest(const For* loop) { return loop->attrs.get_int("independent") != 0; }

}  // namespace

bool overlap(const Function& f, BufferId a, BufferId b) {
  const BufferInfo &x = f[a], &y = f[b];
  auto bytes = [](const BufferInfo& i) { return i.elements * i.dtype.bytes(); };
  return x.address < y.address + bytes(y) && y.address < x.address + bytes(x);
}

bool StatementAccesses::writes() const {
  auto some = [](const Accesses& a) { return !a.writes.empty() || !a.updates.empty(); };
  return some(now) || std::ranges::any_of(begun, [&](auto& b) { return some(b.second); });
}

BlockAccesses::BlockAccesses(const Function& f, const Kernel& kernel, int warp)
    : f(f),
      kernel(kernel),
      warp(warp) {
  auto* said = kernel.attrs.find("may_alias");
  if (auto* ids = said ? std::get_if<std::vector<int64_t>>(said) : nullptr)
    for (int64_t id : *ids) overlapping.insert(f.storage(BufferId{int(id)}));
}

// Any thread's element of one may be any other's of the other.
bool BlockAccesses::may_overlap(BufferId a, BufferId b) const {
  if (f[a].scope != Scope::global || f[b].scope != Scope::global) return false;
  return overlapping.contains(f.storage(a)) || overlapping.contains(f.storage(b));
}

Conflict BlockAccesses::conflict(const Buffers& before, const Buffers& after) const {
  Conflict worst = Conflict::none;
  for (auto& [a, first] : before)
    for (auto& [b, second] : after) {
      bool shared = f[a].scope == Scope::shared && f[b].scope == Scope::shared;
      if (a != b && !(shared ? overlap(f, a, b) : may_overlap(a, b))) continue;
      if (is_own_affair(kernel, a) && is_own_affair(kernel, b)) continue;
      Conflict m = a == b ? conflict_of(first, second, warp) : Conflict::intra_block;
      if (m == Conflict::intra_warp && shared) m = Conflict::intra_group;
      worst = std::max(worst, m);
    }
  return worst;
}

Conflict BlockAccesses::conflict(const Accesses& before, const Accesses& after) const {
  Conflict worst = std::max({conflict(before.writes, after.reads), conflict(before.reads, after.writes),
                             conflict(before.writes, after.writes)});
  for (auto& [kind, updates] : before.updates) {
    worst = std::max({worst, conflict(updates, after.reads), conflict(updates, after.writes)});
    for (auto& [next, then] : after.updates)
      if (!kind.commutes_with(next)) worst = std::max(worst, conflict(updates, then));
  }
  for (auto& [kind, updates] : after.updates)
    worst = std::max({worst, conflict(before.reads, updates), conflict(before.writes, updates)});
  return worst;
}

bool BlockAccesses::meets_itself(const StatementAccesses& a) const {
  Accesses sum = a.now;
  for (auto& [token, accesses] : a.begun) sum.add(accesses, warp);
  return conflict(sum, sum) != Conflict::none;
}

void BlockAccesses::find() {
  std::map<BufferId, Span> touched;  // where first; a loop over tiles and its tail are one place
  visit(kernel.body, [&](const Load& l) { touched.emplace(l.buffer, Span()); });
  visit(kernel.body, [&](const Store& s) {
    if (f[s.buffer].scope == Scope::global && touched.emplace(s.buffer, s.span).first->second != s.span)
      exchanged.insert(s.buffer);
  });
  std::map<BufferId, Span> first;
  std::set<BufferId> by_calls, several;  // written by calls; touched at several places
  visit_effects(kernel.body, [&](const Stmt& s, const Effect& e) {
    if (f[e.buffer].scope != Scope::global || (!e.reads() && !e.writes())) return;
    if (first.emplace(e.buffer, s->span).first->second != s->span) several.insert(e.buffer);
    if (e.writes() && e.is_through_address()) by_calls.insert(e.buffer);
  });
  std::ranges::set_intersection(by_calls, several, std::inserter(exchanged, exchanged.end()));
  for (auto& [tensor, where] : touched)
    if (!overlapping.empty() && f[tensor].scope == Scope::global) exchanged.insert(tensor);
  visit(kernel.body, [&](const For& l) { footprints.enter(l); }, [&](const Let& l) { footprints.bind(l); });
  find_turns_that_meet();
}

// The pieces of a tile's store stand together, in the same loops.
void BlockAccesses::find_turns_that_meet() {
  Varying varying{.f = f, .vars = {{kernel.thread.get(), "the thread index"}}};
  varying.find(kernel.body);
  std::map<std::tuple<BufferId, Team, std::vector<const For*>>, Footprints::TurnedStores> found;
  walk(kernel.body, {.team = whole_block(kernel)}, [&](const Stmt& s, const WalkContext& at) {
    auto inner = std::ranges::find_if(at.loops, is_nest);
    std::vector<const For*> loops(at.loops.begin(), inner);
    if (thread_level && inner == at.loops.end()) return true;
    auto is_turn = [](const For* l) { return !l->attrs.get_int("as_blocks"); };
    bool turns = !at.whiles.empty() || std::ranges::any_of(loops, is_turn);
    for (auto& e : effects_of(s).list) {
      if (turns && e.is_told && f[e.buffer].scope == Scope::global) exchanged.insert(e.buffer);
      bool stores = f[e.buffer].scope == Scope::global && e.writes() && !e.is_atomic() && !thread_orders(e);
      if (!stores || e.begins != Token::none || exchanged.contains(e.buffer)) continue;
      std::vector<Expr> index = place_of(e);
      int64_t bytes = f[e.buffer].dtype.bytes(), reach = e.index.empty() ? reach_of(f, e) : bytes;
      if (index.size() != 1 || reach <= 0) continue;
      auto& all = found[{e.buffer, at.team, loops}];
      if (all.stores.empty())
        all = {.team = at.team,
               .loops = loops,
               .in_while = !at.whiles.empty(),
               .stores = {},
               .differs = [&](const Expr& value) { return varying.differs(value); }};
      all.stores.push_back({index[0], ceil_of(reach, bytes), at.conditions, {inner, at.loops.end()}});
      for (auto& mask : e.masks) all.stores.back().conditions.emplace_back(mask, true);
    }
    return true;
  });
  for (auto& [place, stores] : found)
    if ((!stores.loops.empty() || stores.in_while) && footprints.turns_meet(stores))
      exchanged.insert(std::get<BufferId>(place));
}

void BlockAccesses::take_turn(const For* loop, int64_t number, int64_t turns) {
  turn = loop ? number : -1;
  footprints.take_turn(loop ? loop->var.get() : nullptr, number, turns);
}

const StatementAccesses& BlockAccesses::of(const Stmt& s, const Team& team) {
  auto [it, is_new] = known.emplace(std::pair(s.get(), turn), StatementAccesses());
  if (is_new && s)
    walk(s, {.team = team}, [&](const Stmt& inner, const WalkContext& at) {
      include(it->second, effects_of(inner), at);
      return true;
    });
  return it->second;
}

StatementAccesses BlockAccesses::of(const Expr& e, const Team& team) const {
  StatementAccesses found;
  include(found, effects_of(e), {.team = team});
  return found;
}

void BlockAccesses::include(StatementAccesses& to, const Effects& effects, const WalkContext& at) const {
  bool in_nest = std::ranges::any_of(at.loops, is_nest), in_tile = !thread_level || in_nest;
  for (auto& e : effects.list) add(to, e, at, in_tile && (!thread_orders(e) || in_nest));
  to.completes.insert(to.completes.end(), effects.completes.begin(), effects.completes.end());
  to.meets |= effects.meets;
  to.signals |= effects.signals;
  to.fences |= effects.fences;
}

void BlockAccesses::add(StatementAccesses& found, const Effect& e, const WalkContext& at,
                        bool in_tile) const {
  Accesses& to = e.begins == Token::none ? found.now : found.begun[e.begins];
  bool shared = f[e.buffer].scope == Scope::shared;
  bool ordered = in_tile && exchanged.contains(e.buffer) && (!e.is_through_address() || reach_of(f, e) > 0);
  if (!shared && !ordered) return;
  Footprints::Conditions conditions = at.conditions;
  for (auto& mask : e.masks) conditions.emplace_back(mask, true);
  // Through an address an instruction may reach as far as it likes, on behalf of any thread of its warp.
  Footprint touched;
  if (!e.index.empty()) {
    touched = footprints.of(e.buffer, e.index, conditions, at.team, {});
  } else if (int64_t bytes = reach_of(f, e)) {
    std::vector<Expr> index = place_of(e);
    touched = footprints.of(e.buffer, index, conditions, at.team,
                            {ceil_of(bytes, f[e.buffer].dtype.bytes()), e.by_warp});
  }
  if (e.is_atomic() && !shared)
    return Accesses::add(to.updates[{e.update, e.is_told}], e.buffer, touched, warp);
  // Operations on the word of a barrier order themselves; they are ordered against its initialisation alone.
  if (e.reads() || e.is_phase) Accesses::add(to.reads, e.buffer, touched, warp);
  if (e.writes() && !e.is_phase) Accesses::add(to.writes, e.buffer, touched, warp);
}

}  // namespace tl
