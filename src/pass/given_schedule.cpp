// The schedule that a user gives a pipelined loop: order, stage, group and sync of T.Pipelined.
//
// The statements of the body, or groups of them, are units.  In turn t of the loop the unit of stage s works
// on iteration t - s, and the units of a turn run as `order` numbers them.  Two units of which one writes
// what the other uses must run as the text has them, in an iteration and from one to the next; else it is an
// error. A tile of the iteration's own gets as many slots as that takes.  A unit of stage -1 is left to
// plan_schedule: copies that can run ahead do, other statements stay in front of what needs them.
//
// Units of the last stage are the loop's body, in the order given; all others run ahead of it (`stage`),
// behind so many of its statements (`order`), and among each other by `rank`.
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "ir/rewrite.h"
#include "pass/schedule.h"
#include "pass/splice.h"
#include "pass/tile_use.h"
#include "target/effects.h"

namespace tl {
namespace {

using Integers = std::vector<int64_t>;

struct Unit {
  std::vector<Stmt> stmts = {};
  std::vector<size_t> numbers = {};  // of the statements, as the user counts them
  int64_t stage = 0;
  std::pair<int64_t, int64_t> place = {};  // in a turn; what is left to the compiler is in front of its user
  bool automatic = false;                  // its place is not given
  struct Use {
    size_t number;  // of the statement
    bool writes;
  };
  std::map<BufferId, std::vector<Use>> uses = {};  // of storage
  bool writes(BufferId storage) const {
    return std::ranges::any_of(uses.at(storage), [](auto& use) { return use.writes; });
  }
};

std::string short_name(const Unit& u) {
  if (u.numbers.size() == 1) return fmt::format("statement {}", u.numbers[0]);
  return fmt::format("the group of statements {}", fmt::join(u.numbers, ", "));
}

// ── what must come before what ──────────────────────────────────────────────────────────────────────
bool is_before(const Unit& a, const Unit& b) { return a.place < b.place; }  // in a turn
// Does `a`, for some iteration, run before `b`, for the one that comes so many later?
bool runs_before(const Unit& a, const Unit& b, int64_t later) {
  int64_t turns = later + b.stage - a.stage;
  return turns > 0 || (turns == 0 && is_before(a, b));
}
bool clash(const Unit& a, const Unit& b, BufferId storage) {
  return a.uses.contains(storage) && b.uses.contains(storage) && (a.writes(storage) || b.writes(storage));
}
// Has the text a statement of `a` in front of one of `b`, of which one writes what the other uses?
bool text_has_first(const Unit& a, const Unit& b, BufferId storage) {
  for (auto& x : a.uses.at(storage))
    for (auto& y : b.uses.at(storage))
      if (x.number < y.number && (x.writes || y.writes)) return true;
  return false;
}

struct GivenSchedule {
  LoopPlanner& p;
  int64_t slots;  // of tiles that are copied to automatically; less than 2: none is
  const Function& f = p.f;
  Span span = p.loop.span;
  std::vector<Stmt> names = {};  // and what is allocated
  std::vector<Unit> units = {};

  const Integers* list(std::string_view name) const {
    auto* value = p.loop.attrs.find(name);
    return value ? std::get_if<Integers>(value) : nullptr;
  }

  // ── units ───────────────────────────────────────────────────────────────────────────────────────────
  void find_units() {
    std::vector<Stmt> stmts;
    for (auto& s : p.body) (s.as<Let>() || s.as<Alloc>() ? names : stmts).push_back(s);
    auto* group = list("group");
    if (group && group->size() != stmts.size())
      fail(span, "T.Pipelined: group names {} statements, but the body has {}", group->size(), stmts.size());
    for (int64_t number : group ? *group : Integers{})
      if (number < 0 || number >= int64_t(stmts.size()))
        fail(span, "T.Pipelined: there is no group {}; the body has {} statements", number, stmts.size());
    for (size_t i = 0; i < stmts.size(); i++) {
      size_t number = group ? size_t((*group)[i]) : i;
      if (units.size() <= number) units.resize(number + 1);
      units[number].stmts.push_back(stmts[i]);
      units[number].numbers.push_back(i);
    }
    for (size_t i = 0; i < units.size(); i++)
      if (units[i].stmts.empty()) fail(span, "T.Pipelined: no statement belongs to group {}", i);
    for (std::string_view name : {"order", "stage"})
      if (auto* given = list(name); given && given->size() != units.size())
        fail(span, "T.Pipelined: {} has {} items, but {} {}: one item for each", name, given->size(),
             group ? "group has" : "the body has",
             group ? fmt::format("{} groups", units.size()) : fmt::format("{} statements", units.size()));
  }

  void read_lists() {
    find_units();
    auto *order = list("order"), *stage = list("stage");
    std::map<int64_t, size_t> placed;
    for (size_t i = 0; i < units.size(); i++) {
      Unit& u = units[i];
      int64_t at = order ? (*order)[i] : int64_t(i), its_stage = stage ? (*stage)[i] : 0;
      if (order && stage && (at < 0) != (its_stage < 0))
        fail(span,
             "T.Pipelined: {} has order {} and stage {}: -1, which leaves it to the compiler, must be both",
             describe(u), at, its_stage);
      if (at < -1 || its_stage < -1)
        fail(span,
             "T.Pipelined: {} is given {}; order and stage count from 0, and -1 leaves it to the compiler",
             describe(u), std::min(at, its_stage));
      u.automatic = at < 0 || its_stage < 0;
      u.stage = its_stage;
      u.place = {at, 1};
      if (u.automatic) continue;
      if (auto [it, is_new] = placed.emplace(at, i); !is_new)
        fail(span, "T.Pipelined: order gives {} to {} and to {}: each needs a place of its own", at,
             describe(units[it->second]), describe(u));
    }
    for (Unit& u : units)
      for (size_t i = 0; i < u.stmts.size(); i++)
        visit_effects(u.stmts[i], [&](const Stmt&, const Effect& e) {
          bool aliased = f[e.buffer].scope == Scope::global && may_alias(p.kernel, e.buffer);
          u.uses[aliased ? BufferId{} : f.storage(e.buffer)].push_back(
              {u.numbers[i], e.writes() || e.access == Access::value});
        });
  }

  std::string describe(const Unit& u) const {
    return fmt::format("{} (line {})", short_name(u), u.stmts[0]->span.line);
  }
  std::string name_of(BufferId storage) const {
    return storage != BufferId{} ? f[storage].name : "tensors that may overlap";
  }

  // ── slots and order ─────────────────────────────────────────────────────────────────────────────────
  // How many slots the tile needs, so that what a unit uses in one iteration is not overwritten too early.
  int64_t slots_for(BufferId storage) const {
    int64_t n = 1;
    for (auto& a : units)
      for (auto& b : units)
        if (&a != &b && clash(a, b, storage))
          while (!runs_before(a, b, n)) n++;
    return n;
  }
  bool may_have_slots(BufferId storage) const {
    return storage != BufferId{} && f[storage].scope == Scope::shared && p.why_not_own(storage).empty();
  }

  [[noreturn]] void refuse(const Unit& first, const Unit& then, BufferId storage, bool next) const {
    bool writes = first.writes(storage), overwrites = then.writes(storage);
    fail(then.stmts[0]->span,
         "T.Pipelined's order and stage (line {}) run {}{} before {}, but {} {} {}, which {} {}: give {} a "
         "later place or stage",
         span.line, describe(then), next ? " of the next iteration" : "", describe(first), short_name(first),
         writes ? "writes" : "reads", name_of(storage), short_name(then),
         !overwrites ? "reads"
         : writes    ? "writes too"
                     : "overwrites",
         short_name(then));
  }

  void check_order() const {
    for (auto& name : names)
      if (auto* let = name.as<Let>())
        if (std::string why = p.why_late(let->value); !why.empty())
          fail(let->span,
               "{} is a name for all statements of a loop whose order is given (line {}), but {}: write "
               "the expression where it is used",
               let->var.as<Var>()->hint, span.line, why);
    for (size_t i = 0; i < units.size(); i++)
      for (size_t j = 0; j < units.size(); j++)
        for (auto& [storage, uses] : units[i].uses) {
          if (i == j || !clash(units[i], units[j], storage)) continue;
          if (text_has_first(units[i], units[j], storage) && !runs_before(units[i], units[j], 0))
            refuse(units[i], units[j], storage, false);
          if (!may_have_slots(storage) && !runs_before(units[i], units[j], 1))
            refuse(units[i], units[j], storage, true);
        }
    if (auto* sync = list("sync"); sync && sync->size() % 2)
      fail(span, "T.Pipelined: sync holds pairs, but {} numbers are given", sync->size());
    else if (sync)
      for (size_t i = 0; i + 1 < sync->size(); i += 2) check_sync((*sync)[i], (*sync)[i + 1]);
  }
  void check_sync(int64_t first, int64_t then) const {
    for (int64_t n : {first, then})
      if (n < 0 || n >= int64_t(units.size()))
        fail(span, "T.Pipelined: sync names {}, but the body has {} statements or groups, counted from 0", n,
             units.size());
    if (!runs_before(units[size_t(first)], units[size_t(then)], 0))
      fail(span, "T.Pipelined: sync lets {} wait for {}, but order and stage run it earlier",
           describe(units[size_t(then)]), describe(units[size_t(first)]));
  }

  // ── what is left to the compiler ────────────────────────────────────────────────────────────────────
  const Early* planned_copy(const Stmt& s) const {
    for (auto& e : p.early)
      if (p.is_planned(e) && e.tensor && f[e.tile].scope == Scope::shared && e.stmt.same(s)) return &e;
    return nullptr;
  }
  bool runs_ahead(const Unit& u) const {
    const Early* first = planned_copy(u.stmts[0]);
    return slots > 1 && first && std::ranges::all_of(u.stmts, [&](auto& s) {
             auto* e = planned_copy(s);
             return e && e->splits == first->splits;
           });
  }
  // In front of the first unit that uses what it writes.
  void place_automatic() {
    for (size_t i = units.size(); i-- > 0;) {
      Unit& u = units[i];
      if (!u.automatic) continue;
      const Unit* needs = nullptr;
      for (auto& other : units) {
        bool used = std::ranges::any_of(
            u.uses, [&](auto& x) { return u.writes(x.first) && other.uses.contains(x.first); });
        if (&other == &u || other.automatic || !used) continue;
        auto time = [](const Unit& x) { return std::pair(x.stage, x.place); };
        if (!needs || time(other) < time(*needs)) needs = &other;
      }
      if (!needs)
        fail(span,
             "T.Pipelined: {} is left to the compiler, but no statement with an order uses what it "
             "writes: give it an order and a stage",
             describe(u));
      u.stage = needs->stage;
      u.place = {needs->place.first, -int64_t(units.size()) + int64_t(i)};
      if (!runs_ahead(u)) continue;
      u.stage -= planned_copy(u.stmts[0])->splits ? 1 : slots - 1;
      u.place = {-1, int64_t(i)};
    }
  }

  // ── the plan ────────────────────────────────────────────────────────────────────────────────────────
  // What is written instead of a unit that runs ahead.
  std::vector<Stmt> ahead(const Unit& u, int64_t order, int64_t rank, std::vector<Stmt>& allocs) const {
    bool copies = std::ranges::all_of(u.stmts, [&](auto& s) {
      auto* e = planned_copy(s);
      return e && (e->engine == "cp_async" || (u.automatic && runs_ahead(u)));
    });
    std::vector<Stmt> out;
    for (auto& s : u.stmts) {
      const Early* e = copies ? planned_copy(s) : nullptr;
      if (e && e->splits) {
        for (auto& part : p.split(*e, u.stage + 1, allocs)) out.push_back(part);
      } else {
        out.push_back(p.marked(s, e ? e->engine : "", u.stage, order, rank));
      }
    }
    return out;
  }

  void check() {
    read_lists();
    place_automatic();
    check_order();
  }

  // Of the copies that cannot be asynchronous, or are left to the compiler and have no second slot, why.
  void report_late_copies() const {
    for (auto& e : p.early)
      if (!p.is_planned(e) && e.tensor && f[e.tile].scope == Scope::shared)
        p.note(fmt::format("the copy of {} to {} is not asynchronous: {}", f[e.tensor].name, f[e.tile].name,
                           e.why_not),
               true, e.stmt->span, e.tile);
    for (auto& u : units)
      if (u.automatic && slots < 2)
        p.note(fmt::format("{} does not run ahead: its tiles have no second slot", describe(u)), true,
               u.stmts[0]->span);
  }

  Stmt run() {
    check();
    int64_t least = 0, last = 0;
    for (auto& u : units) {
      bool splits = u.automatic && runs_ahead(u) && planned_copy(u.stmts[0])->splits;
      least = std::min(least, u.stage - (splits ? 1 : 0));
    }
    for (auto& u : units) last = std::max(last, u.stage -= least);
    std::vector<const Unit*> in_turn;
    for (auto& u : units) in_turn.push_back(&u);
    std::ranges::sort(in_turn, [&](auto* a, auto* b) { return is_before(*a, *b); });
    std::vector<Stmt> body = names, allocs;
    int64_t order = int64_t(names.size()), rank = 0;
    for (auto* u : in_turn) {
      bool rest = u->stage == last;
      std::vector<Stmt> part = rest ? u->stmts : ahead(*u, u->place.first < 0 ? 0 : order, rank++, allocs);
      body.insert(body.end(), part.begin(), part.end());
      if (rest) order += int64_t(part.size());
    }
    std::set<BufferId> stored;
    for (auto& u : units)
      for (auto& [storage, uses] : u.uses) stored.insert(storage);
    for (BufferId b : stored)
      if (may_have_slots(b)) p.f[b].slots = std::max(p.f[b].slots, slots_for(b));
    Attrs attrs = p.loop.attrs;
    for (auto* name : {"order", "stage", "group", "sync"}) attrs.entries.erase(name);
    if (last > 0) attrs.entries.insert_or_assign("stages", last);
    allocs.push_back(for_loop(p.loop.var, p.loop.min, p.loop.extent, p.loop.loop,
                              block(std::move(body), span), span, attrs));
    p.note(fmt::format("runs as order and stage say: {} stage{}", last + 1, last ? "s" : ""), false);
    report_late_copies();
    return block(std::move(allocs), span);
  }
};

}  // namespace

bool has_given_schedule(const For& loop) {
  return loop.loop == Loop::pipelined && (loop.attrs.find("order") || loop.attrs.find("stage"));
}

void LoopPlanner::check_given() { GivenSchedule{.p = *this, .slots = 1}.check(); }

void check_given_schedules(const Function& f) {
  const Target no_chip{};  // what a schedule may do is asked of the program alone
  for (auto& k : f.kernels)
    walk(k.body, {.team = whole_block(k)}, [&](const Stmt& s, const WalkContext& at) {
      auto* loop = s.as<For>();
      if (!loop || !has_given_schedule(*loop)) return true;
      Function own = f;
      LoopPlanner planner{.f = own, .kernel = k, .target = no_chip, .loop_stmt = s, .team = at.team};
      planner.read_body();
      planner.check_given();
      return true;
    });
}

Stmt LoopPlanner::as_given(int64_t slots) { return GivenSchedule{.p = *this, .slots = slots}.run(); }

}  // namespace tl
