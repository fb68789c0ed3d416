// Rings of tiles that are filled ahead of their use: by groups of cp.async, or handed over by barriers in
// memory among all threads, or between producers and consumers.
#pragma once
#include "fuzz/async_text.h"

namespace tl::fuzz {

struct RingText : AsyncText {
  enum class Fill { stores, copies, bulk };
  // When the copies of a thread have landed, a barrier hears of it: by arrivals that are counted, or count
  // themselves, or of the thread itself, which has waited.
  enum class Told { counted, uncounted, waited };
  struct Ring {
    std::string name = {}, type = {}, source = {}, acc = {};
    int64_t stages = 1, trips = 0;
    int64_t tile = 0, total = 0,
            stride = 0;  // elements; of the source, for each block; from one block to the next
    bool rows = false;   // two dimensions
    Fill fill = Fill::stores;
    Told told = Told::waited;
    int64_t copies = 1, each = 1, split = 1;  // per trip and thread; elements; bulk copies of a part
    bool full_by_warp = false, empty_by_warp = false, own = false, ragged = false;
    std::string barriers = {}, out = {}, outbox = {};
    int64_t boxes = 1, width = 0;  // of the outbox; elements that a trip gives to `out`

    std::string at(const std::string& stage, const std::string& index) const {
      return rows ? fmt::format("{}[{}, {}]", name, stage, index)
                  : fmt::format("{}[({})*{} + {}]", name, stage, tile, index);
    }
  };
  // Where a ring stands: computed from the number of the trip, or carried along.
  struct Turn {
    std::string stage, parity, before, carried;  // the parity of a phase, and of the one before
  };
  Turn turn(int64_t stages, const std::string& trip, bool may_carry) {
    if (!may_carry || chance(70))
      return {
          .stage = fmt::format("({}) % {}", trip, stages),
          .parity = stages == 1 ? fmt::format("({}) % 2", trip) : fmt::format("({})//{} % 2", trip, stages),
          .before = fmt::format("(({})//{} + 1) % 2", trip, stages),
          .carried = ""};
    std::string q = fresh_name("q");
    line("{} = local i32[2]", q);
    line("{}[0] = 0", q);
    line("{}[1] = 0", q);
    return {.stage = fmt::format("cast<i64>({}[0])", q),
            .parity = q + "[1]",
            .before = fmt::format("1 - {}[1]", q),
            .carried = q};
  }
  void advance(const Turn& turn, int64_t stages) {
    const std::string& q = turn.carried;
    if (q.empty()) return;
    line("{0}[0] = {0}[0] + 1", q);
    under(fmt::format("if {}[0] == {}", q, stages), [&] {
      line("{}[0] = 0", q);
      line("{0}[1] = 1 - {0}[1]", q);
    });
  }

  // ── copies ──────────────────────────────────────────────────────────────────────────────────────────
  void begin_ring(Ring& r, int64_t filling) {
    r.rows = chance(40);
    r.stages = 1 + below(4);
    if (r.fill == Fill::copies) {
      int64_t bytes = pick<int64_t>({4, 8, 16});
      do r.type = pick<std::string>({"i32", "f32", "u8", "i16", "i64"});
      while (bytes_of(r.type) > bytes);
      r.each = bytes / bytes_of(r.type);
      r.copies = 1 + below(3);
    } else {
      r.type = pick<std::string>({"i32", "f32", "u8", "i16", "i64"});
      r.copies = 1 + below(2);
    }
    r.tile = filling * r.copies * r.each;
  }
  // After its trips are known.
  void place_ring(Ring& r) {
    r.total = r.trips * r.tile;
    int64_t unit = r.fill == Fill::bulk ? std::max<int64_t>(1, 16 / bytes_of(r.type)) : 1;
    r.ragged = r.fill != Fill::stores && r.split == 1 && !r.own && r.trips > 0 && chance(40);
    if (r.ragged) r.total -= (r.tile > unit ? below(r.tile / unit - 1) : 0) * unit;
    r.stride = (r.total + 15) / 16 * 16;  // each begins where 16 bytes do
    r.source = tensor("A", r.type, blocks * r.stride);
    r.name = fresh_name("S");
    line("{} = shared {}[{}]", r.name, r.type,
         r.rows ? fmt::format("{}, {}", r.stages, r.tile) : std::to_string(r.stages * r.tile));
    r.acc = begin_sum(r.type);
  }
  std::string source_at(const Ring& r, const std::string& trip, const std::string& index) {
    return fmt::format("{}[bx*{} + ({})*{} + {}]", r.source, r.stride, trip, r.tile, index);
  }
  // One thread's copies number [first, last) of a trip.
  void copy(const Ring& r, const Team& team, const std::string& stage, const std::string& trip, int64_t first,
            int64_t last) {
    int64_t bytes = r.each * bytes_of(r.type);
    auto one = [&](const std::string& number) {
      std::string to = fmt::format("({}*{} + {})*{}", number, team.count, team.number(), r.each), from = to;
      if (!r.ragged && !r.own && chance(30))
        from = fmt::format("({}*{} + {} - {})*{}", number, team.count, team.count - 1, team.number(), r.each);
      std::string given;
      if (r.ragged)
        given = fmt::format(", min(max(({} - ({})*{} - {})*{}, 0), {})", r.total, trip, r.tile, from,
                            bytes_of(r.type), bytes);
      else if (chance(25))
        given = fmt::format(", (t*{} + ({})) % {} * {}", 1 + below(5), trip, r.each + 1, bytes_of(r.type));
      line("cp_async_{}{}(address_of({}), address_of({}){})", bytes, given.empty() ? "" : "_zfill",
           r.at(stage, to), source_at(r, trip, from), given);
    };
    if (last - first > 1 && chance(50)) {
      std::string g = fresh_name("k");
      under(fmt::format("for {} in {}({})", g, chance(50) ? "serial" : "unrolled", last - first),
            [&] { one(fmt::format("({} + {})", g, first)); });
    } else {
      for (int64_t g = first; g < last; g++) one(std::to_string(g));
    }
  }
  // How much of a trip's tile there is.
  std::string limit(const Ring& r, const std::string& trip) {
    if (!r.ragged || r.fill == Fill::copies) return std::to_string(r.tile);
    return fmt::format("min({}, {} - ({})*{})", r.tile, r.total, trip, r.tile);
  }

  // ── groups of cp.async ──────────────────────────────────────────────────────────────────────────────
  // How the copies of a trip are shared out to groups.
  struct Groups {
    int64_t copies, parts;
    bool lazy;  // no empty groups at the end
    std::pair<int64_t, int64_t> share(int64_t part) const {
      return {part ? copies / 2 : 0, parts == 1 || part ? copies : copies / 2};
    }
  };
  void begin_groups(const Ring& r, const Groups& groups, const std::string& trip, const std::string& cond) {
    for (int64_t p = 0; p < groups.parts; p++) {
      auto copies = [&] {
        auto [first, last] = groups.share(p);
        copy(r, everyone(), fmt::format("({}) % {}", trip, r.stages), trip, first, last);
        if (groups.lazy) line("cp_async_commit_group()");
      };
      cond.empty() ? copies() : under("if " + cond, copies);
      if (!groups.lazy) line("cp_async_commit_group()");
    }
  }
  // Trip k uses what was begun `ahead` trips before, in one or two groups.
  void groups() {
    Ring r{.fill = Fill::copies};
    begin_ring(r, threads);
    Trips n = trips(r.stages);
    r.trips = n.n;
    r.own = chance(20);  // each thread uses what it has copied itself: nobody else need know
    place_ring(r);
    int64_t ahead = below(r.stages + 1), parts = r.copies > 1 && chance(50) ? 2 : 1;
    Groups groups{.copies = r.copies, .parts = parts, .lazy = chance(15)};
    auto begin = [&](const std::string& trip, const std::string& cond) {
      begin_groups(r, groups, trip, cond);
    };
    std::string k = fresh_name("k");
    if (ahead > 0)
      under(fmt::format("for {} in {}({})", k, chance(50) ? "serial" : "unrolled", ahead),
            [&] { begin(k, fmt::format("{} < {}", k, n.text)); });
    k = fresh_name("k");
    bool front = ahead > 0 && ahead < r.stages && chance(60), reuses = ahead == r.stages || r.stages == 1;
    std::string jump = !chance(20) ? "" : chance(50) ? "break()" : "continue()";
    if (!front && ahead > 0 && jump == "continue()") jump = "";
    under(fmt::format("for {} in serial({})", k, n.text), [&] {
      std::string next = fmt::format("{} + {}", k, ahead),
                  more = fmt::format("{} + {} < {}", k, ahead, n.text);
      if (ahead == 0) begin(k, "");
      for (int64_t p = 0; p < parts; p++) {
        int64_t most = parts * ahead - p - 1 + (ahead == 0 || (front && p > 0) ? parts : 0);
        if (groups.lazy || (most > 0 && chance(15))) most = groups.lazy ? 0 : below(most);
        if (most == 0 && chance(40))
          line("cp_async_wait_all()");
        else
          line("cp_async_wait_group({})", most);
        if (!r.own) line("sync_threads()");
        if (p == 0 && front) begin(next, more);
        if (p == parts - 1 && !jump.empty())  // all parts have landed
          under(fmt::format("if {} % 3 == {}", k, below(3)), [&] { line("{}", jump); });
        auto [first, last] = groups.share(p);
        int64_t from = first * threads * r.each, size = (last - first) * threads * r.each;
        for (int64_t i = 1 + below(2); i > 0; i--) {
          std::string index = r.own ? fmt::format("({}*{} + t)*{} + {}", first + below(last - first), threads,
                                                  r.each, below(r.each))
                                    : fmt::format("{} + {}", from, somewhere(std::to_string(size)));
          take(r.acc, r.type, r.at(fmt::format("{} % {}", k, r.stages), index));
        }
        maybe_aside();
      }
      if (reuses && !r.own) line("sync_threads()");
      if (ahead > 0 && !front) begin(next, more);
    });
    if (!jump.empty()) line("cp_async_wait_all()");
    line("sync_threads()");
    end_sum(r.acc, r.type);
  }

  // ── rings that are handed over ──────────────────────────────────────────────────────────────────────
  void fill(const Ring& r, const Team& team, const Turn& now, const std::string& trip) {
    std::string full = fmt::format("{}[{}]", r.barriers, now.stage);
    if (r.fill == Fill::bulk) return fill_bulk(r, team, now, trip, full);
    if (r.fill == Fill::stores) {
      for (int64_t j = 0; j < r.copies; j++) {
        std::string slot = fmt::format("{} + {}", team.number(), j * team.count);
        line("{} = {}", r.at(now.stage, slot),
             chance(50) ? source_at(r, trip, slot) : mix(r.type, r.acc + "[0]", source_at(r, trip, slot)));
      }
      return arrive(full, r.full_by_warp);
    }
    copy(r, team, now.stage, trip, 0, r.copies);
    if (r.told == Told::counted) return line("cp_async_mbarrier_arrive_noinc(address_of({}))", full);
    if (r.told == Told::uncounted) {
      line("cp_async_mbarrier_arrive(address_of({}))", full);
      maybe_aside();
      return line("mbarrier_arrive(address_of({}))", full);
    }
    if (chance(50)) {
      line("cp_async_commit_group()");
      line("cp_async_wait_group(0)");
    } else {
      line("cp_async_wait_all()");
    }
    arrive(full, r.full_by_warp);
  }
  // One thread of the team, or of each of its warps, begins the copies of a part.
  int64_t bulk_parts(const Ring& r, const Team& team) const { return r.full_by_warp ? team.warps() : 1; }
  void fill_bulk(const Ring& r, const Team& team, const Turn& now, const std::string& trip,
                 const std::string& full) {
    int64_t part = r.tile / bulk_parts(r, team), b = bytes_of(r.type), piece = part / r.split;
    under(r.full_by_warp ? "if t % 32 == 0" : "if " + team.leads(), [&] {
      std::string bytes = r.ragged ? fmt::format("({})*{}", limit(r, trip), b) : std::to_string(part * b);
      std::string first = r.full_by_warp ? fmt::format("{}//32*{} + ", team.number(), part) : "";
      int64_t order = below(3);
      if (order == 0) line("mbarrier_arrive_expect_tx(address_of({}), {})", full, bytes);
      for (int64_t i = 0; i < r.split; i++) {
        std::string index = fmt::format("{}{}", first, i * piece),
                    size = r.ragged ? bytes : std::to_string(piece * b);
        if (order == 1) line("mbarrier_expect_tx(address_of({}), {})", full, size);
        line("cp_async_bulk_load(address_of({}), address_of({}), {}, address_of({}))", r.at(now.stage, index),
             source_at(r, trip, index), size, full);
      }
      if (order == 1) line("mbarrier_arrive(address_of({}))", full);
      if (order == 2) line("mbarrier_arrive_expect_tx(address_of({}), {})", full, bytes);
    });
  }
  void use(const Ring& r, const Team& team, const Turn& now, const std::string& trip) {
    auto element = [&] {
      return r.at(now.stage, r.own ? fmt::format("{}", team.number()) : somewhere(limit(r, trip)));
    };
    for (int64_t i = 1 + below(2); i > 0; i--) take(r.acc, r.type, element());
    std::string place = fmt::format("(bx*{} + {})*{}", r.trips, trip, r.width);
    if (!r.outbox.empty()) {
      std::string box = fmt::format("({}) % {}*{}", trip, r.boxes, team.count);
      under("if " + team.leads(), [&] { line("cp_async_bulk_wait_group_read({})", r.boxes - 1); });
      sync(team);
      line("{}[{} + {}] = {}", r.outbox, box, team.number(), element());
      line("fence_proxy_async()");
      sync(team);
      under("if " + team.leads(), [&] {
        line("cp_async_bulk_store(address_of({}[{}]), address_of({}[{}]), {})", r.out, place, r.outbox, box,
             r.width * bytes_of(r.type));
        line("cp_async_bulk_commit_group()");
      });
    } else if (!r.out.empty()) {
      line("{}[{} + {}] = {}", r.out, place, team.number(), element());
    }
    maybe_aside();
    if (!r.own || chance(50)) return;
    line("{0} = {1}", element(), mix(r.type, element(), r.acc + "[0]"));  // what the next copy overwrites
    take(r.acc, r.type, element());
    if (r.fill == Fill::bulk) line("fence_proxy_async()");
  }
  Ring draw_ring(const Team& makers, const Team& users) {
    Ring r{.fill = newer && chance(60) ? Fill::bulk : chance(70) ? Fill::copies : Fill::stores};
    r.full_by_warp = chance(50);
    begin_ring(r, r.fill == Fill::bulk ? 32 * (r.full_by_warp ? makers.warps() : 1) : makers.count);
    if (r.fill == Fill::copies) r.told = pick({Told::counted, Told::uncounted, Told::waited});
    if (r.fill == Fill::bulk) r.split = 1 + below(2);
    if (r.fill == Fill::copies && r.told != Told::waited) r.full_by_warp = false;
    r.empty_by_warp = chance(50);
    r.own = users.count <= r.tile && chance(25);
    return r;
  }
  // Who fills and who uses: all do both, or some warps each.
  void ring() {
    bool parted = warps > 1 && chance(60);
    Team makers = everyone(), users = everyone();
    if (parted) {
      int64_t making = 1 + below(warps - 1), using_ = 1 + below(warps - making);
      bool makers_first = chance(50);
      makers = {.first = makers_first ? 0 : 32 * using_, .count = 32 * making, .barrier = 3};
      users = {.first = makers_first ? 32 * making : 0, .count = 32 * using_, .barrier = 4};
    }
    Ring r = draw_ring(makers, users);
    Trips rounds[2] = {trips(r.stages), trips(r.stages)};
    bool twice = chance(25);
    r.trips = rounds[0].n + (twice ? rounds[1].n : 0);
    if (r.fill == Fill::bulk && r.full_by_warp) r.split = std::max<int64_t>(r.split, 2);  // none is ragged
    place_ring(r);
    bool hands_back = parted || chance(60);  // else all wait for all
    int64_t full = r.fill == Fill::bulk ? bulk_parts(r, makers)
                   : r.full_by_warp     ? makers.warps()
                                        : makers.count;
    std::string m = barriers(
        {{r.stages, full}, {hands_back ? r.stages : 0, r.empty_by_warp ? users.warps() : users.count}},
        r.fill == Fill::bulk);
    r.barriers = m;
    if (r.trips > 0 && chance(60)) {
      r.width = users.count;
      r.out = tensor("Y", r.type, blocks * r.trips * r.width);
      r.boxes = 1 + below(2);
      if (newer && chance(60)) r.outbox = shared("R", r.type, r.boxes * r.width);
    }
    auto make = [&](const Turn& now, const std::string& trip) {
      if (hands_back) {
        std::string empty = fmt::format("{}[{} + {}]", m, now.stage, r.stages);
        if (r.fill == Fill::bulk && !r.full_by_warp)
          under("if " + makers.leads(), [&] { wait_alone(empty, now.before); });
        else
          wait(empty, now.before);
      }
      fill(r, makers, now, trip);
      advance(now, r.stages);
    };
    auto consume = [&](const Turn& now, const std::string& trip) {
      wait(fmt::format("{}[{}]", m, now.stage), now.parity);
      use(r, users, now, trip);
      if (hands_back)
        arrive(fmt::format("{}[{} + {}]", m, now.stage, r.stages), r.empty_by_warp);
      else
        line("sync_threads()");
      advance(now, r.stages);
    };
    parted ? apart(r, makers, users, rounds, twice, make, consume)
           : together(r, rounds, twice, make, consume);
    if (!r.outbox.empty() && !parted)
      under("if " + users.leads(), [&] { line("cp_async_bulk_wait_group(0)"); });
    end_barriers(m, r.stages * (hands_back ? 2 : 1));
    if (!r.out.empty() && chance(50))
      take(r.acc, r.type,
           fmt::format("{}[bx*{} + {}]", r.out, r.trips * r.width,
                       somewhere(std::to_string(r.trips * r.width))));
    end_sum(r.acc, r.type);
  }
  // The two sides, each with its own loops.
  template <class Make, class Consume>
  void apart(const Ring& r, const Team& makers, const Team& users, const Trips* rounds, bool twice, Make make,
             Consume consume) {
    auto side = [&](auto work) {
      Turn carried = turn(r.stages, "", chance(30));
      for (int64_t i = 0; i <= int64_t(twice); i++) {
        std::string k = fresh_name("k"), trip = i ? fmt::format("{} + {}", k, rounds[0].text) : k;
        under(fmt::format("for {} in serial({})", k, rounds[i].text),
              [&] { work(carried.carried.empty() ? turn(r.stages, trip, false) : carried, trip); });
        maybe_aside();
      }
    };
    auto using_ = [&] {
      side(consume);
      if (!r.outbox.empty()) under("if " + users.leads(), [&] { line("cp_async_bulk_wait_group(0)"); });
    };
    auto who = [&](const Team& team) {
      return fmt::format("x//32 >= {} and x//32 < {}", team.first / 32, (team.first + team.count) / 32);
    };
    auto second = [&](const Team& team, auto work) {
      line("else:");
      indent++;
      size_t outer = names.size();
      makers.count + users.count < threads ? under("if " + who(team), work) : work();
      names.resize(outer);
      indent--;
    };
    if (chance(50)) {
      under("if " + who(makers), [&] { side(make); });
      second(users, using_);
    } else {
      under("if " + who(users), using_);
      second(makers, [&] { side(make); });
    }
  }
  // Trip by trip; the filling is some trips ahead.
  template <class Make, class Consume>
  void together(const Ring& r, const Trips* rounds, bool twice, Make make, Consume consume) {
    int64_t ahead = below(r.stages);
    bool carries = chance(30);
    Turn made = turn(r.stages, "", carries), used = turn(r.stages, "", !made.carried.empty());
    for (int64_t i = 0; i <= int64_t(twice); i++) {
      std::string k = fresh_name("k"), base = i ? fmt::format(" + {}", rounds[0].text) : "";
      auto now = [&](const Turn& t, const std::string& trip) {
        return t.carried.empty() ? turn(r.stages, trip, false) : t;
      };
      under(fmt::format("for {} in serial({} + {})", k, rounds[i].text, ahead), [&] {
        under(fmt::format("if {} < {}", k, rounds[i].text), [&] { make(now(made, k + base), k + base); });
        std::string late = fmt::format("{} - {}{}", k, ahead, base);
        under(fmt::format("if {} >= {}", k, ahead), [&] { consume(now(used, late), late); });
      });
    }
  }

  // Nobody may be in the buffers that a step brings along before it begins, nor after its end.
  void async_step() {
    bool outer = std::exchange(in_loop, false);
    line("sync_threads()");
    int64_t kind = below(newer ? 10 : 8);
    kind < 3 ? groups() : kind < 7 ? ring() : kind < 8 ? phases() : transfer();
    line("sync_threads()");
    in_loop = outer;
  }
};

}  // namespace tl::fuzz
