// Groups: teams of warps, each with statements, arrays and barriers of its own.  Those beside each other run
// one after the other where they signal nothing, and then share all arrays; else they run at once, and each
// array is one team's, or only read.  Or they exchange what they have stored, by named barriers or the
// block's.
#pragma once
#include <regex>

#include "fuzz/late_text.h"

namespace tl::fuzz {

struct GroupText : LateText {
  bool silent = false;  // teams run one after the other: they may signal nothing

  bool in_group() const { return threads < block_threads; }
  bool may_sync() const { return !silent || threads == 32; }

  // ── arrays ──────────────────────────────────────────────────────────────────────────────────────────
  Shared declare_array() {
    Shared a{.name = name("S"), .type = pick<std::string>({"i32", "i32", "f32", "u8", "i64", "i16", "u64"})};
    a.per_thread = chance(70) ? 1 : 2;
    a.size = threads * a.per_thread;
    a.turn = chance(40) ? below(threads) : 0;
    if (a.type == "i32" && chance(40))
      a.atomic = pick<std::string>({"atomic_add", "atomic_max", "atomic_min", "atomic_or"});
    if (!a.atomic.empty()) a.turn = 0;
    line("{} = shared {}[{}]", a.name, a.type, a.size);
    return a;
  }
  void fill_array(const Shared& a) {
    for (int64_t e = 0; e < a.per_thread; e++) line("{}[x + {}] = {}", a.name, threads * e, expr(a.type, 2));
  }

  // ── teams ───────────────────────────────────────────────────────────────────────────────────────────
  // Some of the present team's warps, in any order.
  std::vector<Team> some_teams() {
    std::vector<Team> out;
    for (int64_t at = 0, n; at < warps; at += n) {
      n = 1 + below(warps - at);
      Team team{.first = 32 * at, .count = 32 * n};
      if ((out.empty() || chance(80)) && may_form(team)) out.push_back(team);
    }
    std::shuffle(out.begin(), out.end(), random);
    return out;
  }
  // x and t in what is written there count from `begin` on.
  template <class F>
  void counted_from(int64_t begin, F body) {
    if (begin == 0) return body();
    std::string number = std::to_string(fresh++);
    line("t{} = t - {}", number, begin);
    line("x{} = x - {}", number, begin);
    size_t before = lines.size();
    body();
    static const std::regex counts(R"(\b([tx])\b)");
    for (size_t i = before; i < lines.size(); i++)
      lines[i] = std::regex_replace(lines[i], counts, "$01" + number);
  }

  // What stands in a team's group: its threads count from 0 there.
  template <class F>
  void within(const Team& team, std::vector<Shared> seen, F body) {
    auto outer = std::tuple(threads, warps, first, arrays, barriers_of_team, silent);
    under(head_of(team), [&] {
      if (team.count < threads) barriers_of_team = {};
      first += team.first, threads = team.count, warps = team.warps();
      if (threads > 32 && threads < block_threads && !silent && !named(0)) silent = true;
      for (auto& a : seen) a.turn = (a.turn + team.first) % (a.size / a.per_thread);
      arrays = std::move(seen);
      counted_from(team.first, body);
    });
    std::tie(threads, warps, first, arrays, barriers_of_team, silent) = std::move(outer);
  }
  void own_work(int64_t most, int depth) {
    if (all_barriers && !may_sync()) return assign();
    Shared a = declare_array();
    fill_array(a);
    placed();
    arrays.push_back(a);
    for (int64_t i = 1 + below(most); i > 0; i--) in_step(depth - 1);
  }

  // ── sections ────────────────────────────────────────────────────────────────────────────────────────
  // One after the other, as the compiler orders what they have in common.
  void in_turn(int depth) {
    bool outer = std::exchange(silent, true);
    for (auto& team : some_teams()) within(team, arrays, [&] { own_work(3, depth); });
    silent = outer;
  }
  void at_once(int depth) {
    std::vector<Team> teams = some_teams();
    std::vector<size_t> owner;
    for (size_t i = 0; i < arrays.size(); i++) owner.push_back(size_t(below(int64_t(teams.size()) + 1)));
    for (size_t team = 0; team < teams.size(); team++) {
      std::vector<Shared> seen;
      for (size_t i = 0; i < arrays.size(); i++) {
        if (owner[i] != team && owner[i] != teams.size()) continue;
        seen.push_back(arrays[i]);
        seen.back().frozen |= owner[i] == teams.size();
      }
      within(teams[team], seen, [&] { own_work(3, depth); });
    }
  }
  // One fills an array, the other one uses it.
  void exchanging(int depth) {
    auto [makers, users] = two_teams();
    if (!may_form(makers) || !may_form(users)) return at_once(depth);
    int64_t both = makers.count + users.count;
    bool by_block = both == block_threads && chance(50);
    if (!by_block && !(makers.barrier && users.barrier)) return at_once(depth);
    std::string t = pick<std::string>({"i32", "f32", "u8", "i64"}), s = shared("S", t, makers.count),
                acc = begin_sum(t);
    Trips n = trips(2);
    bool arrives = chance(50);
    auto meet = [&](int barrier, bool waits) {
      if (by_block) return line("sync_threads()");
      line("bar_{}({}, {})", waits || !arrives ? "sync" : "arrive", barrier, both);
    };
    auto work = [&](bool makes) {
      std::string k = fresh_name("k");
      under(fmt::format("for {} in serial({})", k, n.text), [&] {
        if (makes)
          line("{}[t] = {}", s, mix(t, acc + "[0]", fmt::format("cast<{}>({} % 9)", t, k)));
        else
          maybe_aside();
        meet(makers.barrier, !makes);
        makes ? maybe_aside()
              : take(acc, t, fmt::format("{}[{}]", s, somewhere(std::to_string(makers.count))));
        meet(users.barrier, makes);
      });
    };
    bool makers_first = chance(50);
    for (bool makes : {makers_first, !makers_first})
      within(makes ? makers : users, {}, [&] {
        if (chance(50)) own_work(2, depth);
        work(makes);
      });
    end_sum(acc, t);
  }
  // Each team waits for what its threads have copied before.
  void landing(int depth) {
    bool outer = std::exchange(silent, silent || !all_barriers);
    Flight all{.copies = {begin_late(true)}, .committed = chance(70), .depth = depth};
    if (all.committed) line("cp_async_commit_group()");
    if (chance(60)) meanwhile(depth);
    int64_t each = all.copies[0].size / threads;
    for (auto& team : some_teams())
      within(team, all_barriers ? std::vector<Shared>() : arrays, [&] {
        own_work(1, depth);
        if (all_barriers && !may_sync()) return;
        Flight mine = all;
        mine.copies[0].first = team.first * each, mine.copies[0].size = team.count * each;
        wait_here(mine);
      });
    silent = outer;
    if (all_barriers) sync_all();
    wait_here(all);
  }
  void groups_step(int depth) {
    if (warps < 2 && chance(80)) return assign();
    bool may_signal = !silent && (threads == 32 || threads == block_threads || named(0));
    if (!all_barriers && (!may_signal || chance(40))) return chance(25) ? landing(depth) : in_turn(depth);
    if (!may_signal) return assign();
    if (newer) {  // what other teams' threads wrote, or tiles of theirs, a team's bulk copies may touch
      line("fence_proxy_async()");
      sync_all();
    }
    if (all_barriers && chance(20)) return landing(depth);
    warps > 1 && chance(40) ? exchanging(depth) : at_once(depth);
    if (depth == 2 && !all_barriers && chance(50)) return;
    sync_all();
    if (!in_group()) next_barrier = 1, barriers_of_team = {};
  }
};

}  // namespace tl::fuzz
