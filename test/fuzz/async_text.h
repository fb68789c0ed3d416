// What random programs do beside the threads is written with: teams of warps, barriers in memory, sums of
// what was read; and the steps that need no more: phases alone, arrays that are copied whole.  Each step has
// its own buffers, waits for all that it has begun, and ends its barriers.
#pragma once
#include <functional>
#include <set>

#include "fuzz/thread_text.h"

namespace tl::fuzz {

struct AsyncText : ThreadText {
  bool newer = false;                // also what came with sm_90
  int often = 0, teams = 0;          // steps of this kind, and groups, in a hundred
  std::function<void()> aside = {};  // statements of whole warps that touch registers alone

  struct Team {  // of whole warps
    int64_t first = 0, count = 0;
    int barrier = 0;  // named, its own
    int64_t warps() const { return count / 32; }
    std::string number() const { return first ? fmt::format("(t - {})", first) : "t"; }
    std::string leads() const { return fmt::format("t == {}", first); }
  };
  struct Trips {
    int64_t n = 0;
    std::string text = {};
  };
  std::set<std::pair<int64_t, int64_t>> formed = {};  // of the kernel, for which the compiler needs barriers

  bool may_form(const Team& team) {
    if (team.count == 32 || team.count == block_threads) return true;
    std::pair range(first + team.first, team.count);
    if (formed.size() < 4) formed.insert(range);
    return formed.contains(range);
  }
  std::string head_of(const Team& team) const {
    return fmt::format("group({} : +{})", first + team.first, team.count);
  }
  static int64_t bytes_of(const std::string& t) { return bits(t) / 8; }

  // ── pieces ──────────────────────────────────────────────────────────────────────────────────────────
  template <class F>
  void under(const std::string& head, F body) {
    size_t outer = names.size(), before = lines.size();
    line("{}:", head);
    indent++;
    body();
    if (lines.size() == before + 1) line("pass");
    indent--;
    names.resize(outer);
  }
  std::string fresh_name(const char* hint) { return fmt::format("{}_{}", hint, fresh++); }  // no type, i32
  std::string tensor(const char* hint, const std::string& t, int64_t size) {
    std::string n = fresh_name(hint);
    params += fmt::format(", {}: {}[{}]", n, t, std::max<int64_t>(size, 1));
    return n;
  }
  std::string shared(const char* hint, const std::string& t, int64_t size) {
    std::string n = fresh_name(hint);
    line("{} = shared {}[{}]", n, t, size);
    return n;
  }
  void maybe_aside() {
    if (chance(40)) aside();
  }
  Team everyone() const { return {.first = 0, .count = threads}; }
  void sync(const Team& team) {
    if (team.count == threads) return sync_all();
    if (team.count == 32) return line("sync_warp(4294967295:u32)");
    line("bar_sync({}, {})", team.barrier, team.count);
  }
  // 0, 1, one less than there are stages, as many, some more; known or given by the call.
  Trips trips(int64_t stages) {
    Trips trips{.n = chance(60) ? stages + 3 : pick<int64_t>({0, 1, stages - 1, stages, stages})};
    trips.text = std::to_string(trips.n);
    if (chance(50)) return trips;
    trips.text = fresh_name("n");
    params += fmt::format(", {}: i64", trips.text);
    given[trips.text] = double(trips.n);
    return trips;
  }
  std::string mix(const std::string& t, const std::string& a, const std::string& b) {
    if (is_float(t))
      return fmt::format(fmt::runtime(chance(50) ? "min(max({0} + {1}, -16.0:{2}), 16.0:{2})"
                                                 : "min(max({1} - {0}, -16.0:{2}), 16.0:{2})"),
                         a, b, t);
    std::string sum = fmt::format("({}*3 + {})", a, b);
    return t == "i64" ? fmt::format("{} % 100003", sum) : sum;
  }
  std::string cast(const std::string& to, const std::string& from, const std::string& value) {
    if (to == from) return value;
    if (is_float(to) && !is_float(from)) return fmt::format("cast<{}>({} % 15)", to, value);
    if (is_float(from) && to[0] == 'u') return fmt::format("cast<{}>(max({}, 0.0:{}))", to, value, from);
    return fmt::format("cast<{}>({}){}", to, value, to == "i64" ? " % 100003" : "");
  }
  std::string begin_sum(const std::string& t) {
    std::string acc = fresh_name("q");
    line("{} = local {}[1]", acc, t);
    line("{}[0] = {}", acc, is_float(t) ? fmt::format("1.0:{}", t) : fmt::format("1:{}", t));
    return acc;
  }
  void take(const std::string& acc, const std::string& t, const std::string& value) {
    line("{0}[0] = {1}", acc, mix(t, acc + "[0]", value));
  }
  void end_sum(const std::string& acc, const std::string& t) {
    const Register& r = registers[size_t(below(int64_t(registers.size())))];
    std::string element = fmt::format("{}[{}]", r.name, below(r.size));
    line("{} = {}", element, mix(r.type, element, cast(r.type, t, acc + "[0]")));
  }
  // An index below `limit`.
  std::string somewhere(const std::string& limit) {
    switch (below(4)) {
      case 0:
        return fmt::format("(t*{} + {}) % ({})", 1 + below(7), below(40), limit);
      case 1:
        return fmt::format("({}) - 1 - t % ({})", limit, limit);
      case 2:
        return fmt::format("{} % ({})", below(500), limit);
      default:
        return fmt::format("cast<i64>({}) % ({})", expr("i32", 2), limit);
    }
  }

  // ── barriers in memory ──────────────────────────────────────────────────────────────────────────────
  std::string barriers(std::initializer_list<std::pair<int64_t, int64_t>> kinds,
                       bool by_proxy) {  // how many, of what count
    int64_t all = 0;
    for (auto& [many, count] : kinds) all += many;
    std::string m = shared("M", "u64", all), i = fresh_name("k");
    if (by_proxy) line("fence_proxy_async()");  // what stood before where the copies go to
    bool by_one = chance(50);
    under(by_one ? "if t == 0" : fmt::format("if t < {}", all), [&] {
      int64_t first = 0;
      for (auto& [many, count] : kinds) {
        if (many == 0) continue;
        if (by_one) {
          under(fmt::format("for {} in serial({})", i, many),
                [&] { line("mbarrier_init(address_of({}[{} + {}]), {})", m, i, first, count); });
        } else {
          under(fmt::format("if t >= {} and t < {}", first, first + many),
                [&] { line("mbarrier_init(address_of({}[t]), {})", m, count); });
        }
        first += many;
      }
      if (by_proxy || (newer && chance(20))) line("fence_mbarrier_init()");
    });
    sync_all();
    return m;
  }
  void end_barriers(const std::string& m, int64_t all) {
    sync_all();
    under(fmt::format("if t < {}", all), [&] { line("mbarrier_inval(address_of({}[t]))", m); });
  }
  void wait_alone(const std::string& barrier, const std::string& parity) {
    under(fmt::format("while not mbarrier_{}_wait(address_of({}), {})", newer && chance(60) ? "try" : "test",
                      barrier, parity),
          [] {});
  }
  void wait(const std::string& barrier, const std::string& parity) {
    if (chance(75)) return wait_alone(barrier, parity);
    under("if t % 32 == 0", [&] { wait_alone(barrier, parity); });  // one for its warp
    line("sync_warp(4294967295:u32)");
  }
  void arrive(const std::string& barrier, bool by_warp) {
    if (!by_warp) return line("mbarrier_arrive(address_of({}))", barrier);
    line("sync_warp(4294967295:u32)");
    under("if t % 32 == 0", [&] { line("mbarrier_arrive(address_of({}))", barrier); });
  }
  // Arrives, and gives what waits for the phase: its parity, or the state that the arrival gives.
  std::string arrive_and_name(const std::string& barrier, bool by_warp, bool by_state,
                              const std::string& parity) {
    if (!by_state) {
      arrive(barrier, by_warp);
      return parity;
    }
    std::string state = fresh_name("s");
    bool expects = newer && chance(40);
    line("{} = mbarrier_arrive_{}state(address_of({}){})", state, expects ? "expect_tx_" : "", barrier,
         expects ? ", 0" : "");
    return state;
  }
  void wait_named(const std::string& barrier, bool by_state, const std::string& which) {
    if (!by_state) return wait(barrier, which);
    under(fmt::format("while not mbarrier_{}_wait_state(address_of({}), {})",
                      newer && chance(60) ? "try" : "test", barrier, which),
          [] {});
  }
  // ── phases alone ────────────────────────────────────────────────────────────────────────────────────
  // Threads exchange what they have stored; the second phase of a trip says that all have read.
  void phases() {
    Team team{.first = 0, .count = warps > 1 && chance(40) ? 32 * (1 + below(warps - 1)) : threads};
    std::string t = pick<std::string>({"i32", "f32", "u8", "i16"}), s = shared("S", t, team.count),
                acc = begin_sum(t);
    bool by_warp = chance(40), two = chance(50), by_state = !by_warp && chance(50);
    int64_t count = by_warp ? team.warps() : team.count;
    std::string m = barriers({{two ? 2 : 1, count}}, false);
    Trips n = trips(1 + below(4));
    auto body = [&] {
      std::string k = fresh_name("k");
      under(fmt::format("for {} in serial({})", k, n.text), [&] {
        line("{}[t] = {}", s, mix(t, acc + "[0]", fmt::format("cast<{}>({} % 9)", t, k)));
        std::string filled = two ? fmt::format("{} % 2", k) : "0", read = two ? filled : "1";
        filled = arrive_and_name(m + "[0]", by_warp, by_state, filled);
        maybe_aside();
        wait_named(m + "[0]", by_state, filled);
        take(acc, t, fmt::format("{}[(t + {}) % {}]", s, 1 + below(team.count), team.count));
        std::string second = two ? m + "[1]" : m + "[0]";
        read = arrive_and_name(second, by_warp, by_state, read);
        wait_named(second, by_state, read);
      });
    };
    team.count < threads ? under(fmt::format("if x < {}", team.count), body) : body();
    end_barriers(m, two ? 2 : 1);
    end_sum(acc, t);
  }

  // ── arrays of the program ───────────────────────────────────────────────────────────────────────────
  // One thread takes a whole array out, or brings one in.
  void transfer() {
    const Shared& a = any_array();
    int64_t bytes = a.size * bytes_of(a.type), leader = below(threads);
    if (chance(50)) {
      std::string y = tensor("Y", a.type, blocks * a.size);
      line("fence_proxy_async()");
      sync_all();
      under(fmt::format("if t == {}", leader), [&] {
        line("cp_async_bulk_store(address_of({}[bx*{}]), address_of({}[0]), {})", y, a.size, a.name, bytes);
        line("cp_async_bulk_commit_group()");
        line("cp_async_bulk_wait_group{}(0)",
             indent == 2 && chance(50) ? "_read" : "");  // in a loop it is written again
      });
      return sync_all();
    }
    std::string from = tensor("A", a.type, blocks * a.size), m = barriers({{1, 1}}, true);
    under(fmt::format("if t == {}", leader), [&] {
      line("mbarrier_arrive_expect_tx(address_of({}[0]), {})", m, bytes);
      line("cp_async_bulk_load(address_of({}[0]), address_of({}[bx*{}]), {}, address_of({}[0]))", a.name,
           from, a.size, bytes, m);
    });
    wait(m + "[0]", "0");
    end_barriers(m, 1);
  }
  // A thread's own element, by a copy that it waits for; empty-handed where its type does not fit.
  bool own_copy(const Shared& a) {
    if (a.type != "i32" && a.type != "f32") return false;
    std::string from;
    for (auto& input : inputs)
      if (input.type == a.type) from = fmt::format("{}[{}]", input.name, index(input.size, 2));
    bool partly = chance(40);
    line("cp_async_4{}(address_of({}[{}]), address_of({}){})", partly ? "_zfill" : "", a.name, own_place(a),
         from, partly ? fmt::format(", select({}, 4, 0)", condition(1)) : "");
    if (chance(50)) {
      line("cp_async_wait_all()");
    } else {
      line("cp_async_commit_group()");
      line("cp_async_wait_group(0)");
    }
    return true;
  }
};

}  // namespace tl::fuzz
