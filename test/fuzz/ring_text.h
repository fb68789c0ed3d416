// Rings of tiles that are filled ahead of their use, by groups of cp.async.
#pragma once
#include "fuzz/cluster_text.h"

namespace tl::fuzz {

struct RingText : ClusterText {
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
  void take_landed(const Ring& r, const std::string& stage, int64_t first, int64_t last) {
    int64_t from = first * threads * r.each, size = (last - first) * threads * r.each;
    for (int64_t i = 1 + below(2); i > 0; i--) {
      std::string index = r.own ? fmt::format("({}*{} + t)*{} + {}", first + below(last - first), threads,
                                              r.each, below(r.each))
                                : fmt::format("{} + {}", from, somewhere(std::to_string(size)));
      take(r.acc, r.type, r.at(stage, index));
    }
  }
  // Trip k uses what was begun `ahead` trips before, in one or two groups.
  void groups() {
    Ring r{.fill = Fill::copies};
    Team all = everyone();
    begin_ring(r, threads);
    Trips n = trips(r.stages);
    r.trips = n.n;
    r.own = chance(20);  // each thread uses what it has copied itself: nobody else need know
    place_ring(r);
    int64_t ahead = below(r.stages + 1), parts = r.copies > 1 && chance(50) ? 2 : 1, half = r.copies / 2;
    bool lazy = chance(15);  // no empty groups at the end
    auto share = [&](int64_t part) {
      return std::pair(part ? half : 0, parts == 1 || part ? r.copies : half);
    };
    auto commit = [&] { line("cp_async_commit_group()"); };
    auto begin = [&](const std::string& trip, const std::string& cond) {
      for (int64_t p = 0; p < parts; p++) {
        auto [first, last] = share(p);
        auto copies = [&] {
          copy(r, all, fmt::format("({}) % {}", trip, r.stages), trip, first, last);
          if (lazy) commit();
        };
        cond.empty() ? copies() : under("if " + cond, copies);
        if (!lazy) commit();
      }
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
        if (lazy || (most > 0 && chance(15))) most = lazy ? 0 : below(most);
        if (most == 0 && chance(40))
          line("cp_async_wait_all()");
        else
          line("cp_async_wait_group({})", most);
        if (!r.own) sync_all();
        if (p == 0 && front) begin(next, more);
        if (p == parts - 1 && !jump.empty())  // all parts have landed
          under(fmt::format("if {} % 3 == {}", k, below(3)), [&] { line("{}", jump); });
        auto [first, last] = share(p);
        take_landed(r, fmt::format("{} % {}", k, r.stages), first, last);
        maybe_aside();
      }
      if (reuses && !r.own) sync_all();
      if (ahead > 0 && !front) begin(next, more);
    });
    if (!jump.empty()) line("cp_async_wait_all()");
    sync_all();
    end_sum(r.acc, r.type);
  }
};

}  // namespace tl::fuzz
