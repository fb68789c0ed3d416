// Rings of tiles that are handed over by barriers in memory: among all threads, or between producers and
// consumers.
#pragma once
#include <utility>

#include "fuzz/ring_text.h"

namespace tl::fuzz {

struct HandedText : RingText {
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
      line("fence_proxy_async_shared()");
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
    if (r.fill == Fill::bulk) line("fence_proxy_async_shared()");
  }
  std::pair<Team, Team> two_teams() {
    int64_t making = 1 + below(warps - 1), using_ = 1 + below(warps - making);
    bool makers_first = chance(50);
    return {{.first = makers_first ? 0 : 32 * using_, .count = 32 * making, .barrier = named(1)},
            {.first = makers_first ? 32 * making : 0, .count = 32 * using_, .barrier = named(2)}};
  }
  void place_output(Ring& r, const Team& users) {
    r.width = users.count;
    r.out = tensor("Y", r.type, blocks * r.trips * r.width);
    r.boxes = 1 + below(2);
    bool meet = users.count == threads || users.count == 32 || users.barrier;
    if (newer && meet && chance(60)) r.outbox = shared("R", r.type, r.boxes * r.width);
  }
  // Who fills and who uses: all do both, or some warps each.
  void ring() {
    bool parted = warps > 1 && chance(60);
    std::pair<Team, Team> teams = parted ? two_teams() : std::pair(everyone(), everyone());
    const Team &makers = teams.first, &users = teams.second;
    Ring r{.fill = newer && chance(60) ? Fill::bulk : chance(70) ? Fill::copies : Fill::stores};
    r.full_by_warp = chance(50);
    begin_ring(r, r.fill == Fill::bulk ? 32 * (r.full_by_warp ? makers.warps() : 1) : makers.count);
    if (r.fill == Fill::copies) r.told = pick({Told::counted, Told::uncounted, Told::waited});
    if (r.fill == Fill::bulk) r.split = 1 + below(2);
    if (r.fill == Fill::copies && r.told != Told::waited) r.full_by_warp = false;
    r.empty_by_warp = chance(50);
    r.own = users.count <= r.tile && chance(25);
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
    if (r.trips > 0 && chance(60)) place_output(r, users);
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
        sync_all();
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
    if (chance(40) && may_form(makers) && may_form(users)) {
      bool makers_first = chance(50);
      for (bool makes : {makers_first, !makers_first})
        under(head_of(makes ? makers : users), [&] { makes ? side(make) : using_(); });
      return;
    }
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
    sync_all();
    int64_t kind = below(newer ? 12 : 8);
    if (kind < 8)
      kind < 3 ? groups() : kind < 7 ? ring() : phases();
    else
      kind < 10 ? transfer() : cluster_step();
    sync_all();
    in_loop = outer;
  }
};

}  // namespace tl::fuzz
