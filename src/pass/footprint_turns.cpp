// Do two turns of a loop write one element of a tensor, by different threads?
//
//   for k: copy(S[0:64, …], B[28 * k, …])    row 28 is in turn 0 one thread's, in turn 1 another one's
//   for k: copy(S[0:64, …], B[64 * k, …])    no element is written twice
//
// Found by enumeration of the first turns, element by element, for one block and one choice of the sizes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "base/interrupt.h"
#include "ir/build.h"
#include "ir/rewrite.h"
#include "pass/footprint.h"

namespace tl {
namespace {

constexpr int64_t most_touched = 1 << 18;      // elements, over threads and turns; two turns may have more
constexpr int64_t most_turns = 64;             // of a loop
constexpr int64_t turns_of_unknown_many = 16;  // of a loop whose extent the sizes do not tell

using TurnedStores = Footprints::TurnedStores;

class Turns {
 public:
  // `sampled`: the thread, and values of block indices and sizes; `fixed`: the thread alone, which decides
  // conditions where no thread of that one block would store.
  Turns(const TurnedStores& all, const LaneEnv& sampled, const LaneEnv& fixed)
      : all(all),
        threads(size_t(all.team.count)),
        places(sampled),
        conditions(sampled),
        fixed(fixed) {
    double in_all = 0;
    for (auto& store : all.stores) in_all += in_one_turn(store);
    double each = std::pow(double(most_touched) / in_all, 1 / std::max(1.0, double(all.loops.size())));
    most = std::clamp(int64_t(each), int64_t(2), most_turns);
  }

  bool meet() {
    take_turns();
    if (!touched.empty() || somewhere || met) return met;
    conditions = fixed;
    take_turns();
    return met;
  }

 private:
  struct Touched {
    int64_t turn, thread;
  };
  static constexpr int64_t several = -1;

  const TurnedStores& all;
  size_t threads;
  LaneEnv places, conditions;
  const LaneEnv& fixed;
  int64_t most = 2;  // turns of one loop
  int64_t turn = 0;
  std::unordered_map<int64_t, Touched> touched = {};  // by element: who did first
  std::optional<int64_t> somewhere = {};              // the thread that stores at places that are not known
  bool met = false;

  static bool depends_on(const TurnedStores::Store& s, const Expr& v) {
    return uses_var(s.index, v) ||
           std::ranges::any_of(s.conditions, [&](auto& c) { return uses_var(c.first, v); });
  }

  double in_one_turn(const TurnedStores::Store& s) const {
    double count = double(threads) * s.index->dtype.lanes * double(s.elements);
    for (const For* loop : s.inner)
      if (depends_on(s, loop->var)) count *= double(as_int(loop->extent).value_or(turns_of_unknown_many));
    return std::max(1.0, count);
  }

  void take_turns() {
    for (int again = 0; again < (all.in_while ? 2 : 1); again++) take_turns(0);
  }
  void take_turns(size_t depth) {
    if (depth == all.loops.size()) {
      turn++;
      for (auto& store : all.stores) walk(store, 0);
      return;
    }
    const For& loop = *all.loops[depth];
    bool used = std::ranges::any_of(all.stores, [&](auto& s) { return depends_on(s, loop.var); });
    int64_t turns = loop.attrs.get_int("as_blocks") ? 1 : used ? most : 2;
    each_turn(loop, turns, [&] { take_turns(depth + 1); });
  }
  void walk(const TurnedStores::Store& s, size_t depth) {
    if (depth == s.inner.size()) return touch(s);
    const For& loop = *s.inner[depth];
    int64_t turns = depends_on(s, loop.var) ? std::numeric_limits<int64_t>::max() : 1;
    each_turn(loop, turns, [&] { walk(s, depth + 1); });
  }

  template <class F>
  void each_turn(const For& loop, int64_t limit, F f) {
    auto first = values_of(loop.min, places, threads), extent = values_of(loop.extent, places, threads);
    int64_t turns = std::min(limit, extent ? std::ranges::max(*extent) : turns_of_unknown_many);
    for (int64_t i = 0; i < turns && !met; i++) {
      for (LaneEnv* env : {&places, &conditions}) {
        env->erase(loop.var.get());
        if (!first) continue;
        Lanes& at = (*env)[loop.var.get()] = *first;
        for (int64_t& n : at) n += i;
      }
      f();
    }
  }

  void touch(const TurnedStores::Store& s) {
    poll();
    Lanes part(threads, 1);
    for (auto& [condition, holds] : s.conditions) {
      auto is = values_of(condition, conditions, threads);
      for (size_t i = 0; is && i < threads; i++) part[i] = part[i] && ((*is)[i] != 0) == holds;
    }
    for (int e = 0; e < s.index->dtype.lanes && !met; e++) {
      auto at = values_of(s.index, places, threads, e);
      met = touched.size() > size_t(8 * most_touched);
      for (size_t i = 0; i < threads && !met; i++) {
        if (!part[i]) continue;
        if (!at) touch_somewhere(int64_t(i));
        for (int64_t n = 0; at && n < s.elements; n++) touch((*at)[i] + n, int64_t(i));
      }
    }
  }
  void touch_somewhere(int64_t thread) {
    met = somewhere.value_or(thread) != thread;
    somewhere = thread;
  }
  void touch(int64_t element, int64_t thread) {
    auto [it, is_new] = touched.try_emplace(element, Touched{turn, thread});
    Touched& before = it->second;
    if (before.thread == thread) return;
    if (before.turn == turn)
      before.thread = several;
    else
      met = true;
  }
};

// What only data tell, alike for all threads, is 0, 1, 2, … as if a loop counted it.
struct Numbers {
  const TurnedStores& all;
  std::function<bool(const Var&)> is_known;  // of itself
  std::vector<std::pair<Expr, Expr>> of = {};

  Expr operator()(const Expr& e, std::span<const For* const> inner) {
    auto is_inner = [&](const Var& v) {
      return std::ranges::any_of(inner, [&](const For* loop) { return loop->var.get() == &v; });
    };
    auto number = [&](const Expr& part) -> Expr {
      bool counts = part->dtype.is_int() && part->dtype.lanes == 1 && !all.differs(part);
      if (!counts || contains(part, [&](const Var& v) { return is_inner(v); })) return part;
      for (auto& [known, as] : of)
        if (equal(known, part)) return as;
      return of.emplace_back(part, var("number", part->dtype)).second;
    };
    return rewrite(
        e, [&](const Load& n, Rewriter&) { return number(Expr(&n)); },
        [&](const Call& n, Rewriter&) { return number(Expr(&n)); },
        [&](const Var& n, Rewriter&) { return is_known(n) || is_inner(n) ? Expr(&n) : number(Expr(&n)); });
  }
};

}  // namespace

bool Footprints::turns_meet(const TurnedStores& given) const {
  TurnedStores s = given;
  Numbers numbers{given, [&](const Var& v) {
                    auto is_this = [&](const For* loop) { return loop->var.get() == &v; };
                    return sampled.contains(&v) || std::ranges::any_of(given.loops, is_this);
                  }};
  std::vector<Stmt> kept;
  auto with_bounds = [&](std::vector<const For*>& loops, std::span<const For* const> inner) {
    for (const For*& loop : loops) {
      Expr min = numbers(resolved(loop->min), inner), extent = numbers(resolved(loop->extent), inner);
      kept.push_back(for_loop(loop->var, min, extent, loop->loop, {}, loop->span, loop->attrs));
      loop = kept.back().as<For>();
    }
  };
  with_bounds(s.loops, {});
  for (auto& store : s.stores) {
    std::vector<const For*> inner = store.inner;
    store.index = numbers(resolved(store.index), inner);
    Conditions conditions;
    for (auto& [condition, holds] : store.conditions)
      split(numbers(resolved(condition), inner), holds, conditions);
    store.conditions = std::move(conditions);
    with_bounds(store.inner, inner);
  }
  for (auto& [of, number] : numbers.of) {
    kept.push_back(for_loop(number, turns_of_unknown_many, Loop::serial, {}));
    s.loops.insert(s.loops.begin(), kept.back().as<For>());
  }
  return Turns(s, of_team(sampled, s.team), of_team(fixed, s.team)).meet();
}

}  // namespace tl
