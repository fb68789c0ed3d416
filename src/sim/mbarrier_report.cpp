#include "sim/mbarrier_report.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "sim/barrier.h"
#include "sim/instr.h"

namespace tl::sim {
namespace {

std::string on_line(const Code& code, int32_t site) {
  const Span& span = code.sites[size_t(site)].span;
  return span ? fmt::format(" (line {})", span.line) : "";
}

// " of block (1, 0)", where blocks reach each other.
std::string of_block(const Block& from, int64_t number) {
  if (!from.cluster) return "";
  for (auto* block : from.cluster->blocks)
    if (block->number == number) return " of " + block->where.substr(0, block->where.find(" of "));
  return "";
}

// "threads [0, 128) (line 7), thread 160 (line 9)"
std::string arrivals(const Block& block, MBarrier::Arrivals all) {
  constexpr size_t most = 4;
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  std::string text;
  size_t runs = 0, told = 0;
  for (size_t i = 0, end = 0; i < all.size() && runs < most; i = end, runs++, told = end) {
    MBarrier::Arrival next = all[i];
    for (end = i; end < all.size() && all[end] == next; end++) next.thread++;
    std::string who = end == i + 1 ? fmt::format("thread {}", all[i].thread)
                                   : fmt::format("threads [{}, {})", all[i].thread, next.thread);
    text += (i ? ", " : "") + who + of_block(block, next.block) + on_line(block.code, next.site);
  }
  return told < all.size() ? fmt::format("{} and {} more", text, all.size() - told) : text;
}

// "waits for phase 1 of M[0] (parity 1)"
std::string awaited_by(const Warp& w) {
  int64_t phase = w.block->engine->barriers.at(w.awaited).phase;
  return fmt::format("waits for phase {} of {} ({})", phase, name_of_barrier(*w.code, w.awaited),
                     w.awaits_by_state ? "by its state" : fmt::format("parity {}", phase % 2));
}

std::string missing_in(const MBarrier& m) {
  if (m.pending < 0) return fmt::format("more threads have arrived than the {} that it counts", m.count);
  if (m.bytes < 0) return fmt::format("{} bytes more have landed than were expected", -m.bytes);
  std::vector<std::string> missing;
  if (m.pending > 0) missing.push_back(fmt::format("{} of {} arrivals", m.pending, m.count));
  if (m.bytes > 0) missing.push_back(fmt::format("{} bytes that were expected", m.bytes));
  std::string text = fmt::format("missing: {}", fmt::join(missing, ", "));
  int64_t beside = m.pending + int64_t(m.came.size()) - m.count;
  if (m.pending > 0 && beside > 0)
    text += fmt::format(
        ", in addition to {} of cp_async_mbarrier_arrive, each of which adds to the count (…_noinc does not)",
        beside);
  return text;
}

std::string arrivals_counted(int64_t count) {
  return fmt::format("{} arrival{}", count, count == 1 ? "" : "s");
}

std::string let_arrive(int64_t count) {
  return count == 1 ? "let one of them arrive (if T.get_thread_binding() == 0)"
                    : fmt::format("let only {} of them arrive", count);
}

bool is_of(const Warp& w, const MBarrier::Arrival& a) {
  return a.block == w.block->number && a.thread >= w.first && a.thread < w.first + w.lane_count();
}

bool has_thread_in(const Warp& w, const std::set<int64_t>& arrivers) {
  int64_t first = w.block->number * w.code->thread_count() + w.first;
  auto it = arrivers.lower_bound(first);
  return it != arrivers.end() && *it < first + w.lane_count();
}

// The first phase that the warp neither has seen end nor has been told of by one that has.
int64_t first_unseen(const Warp& w, const MBarrier& m) {
  int64_t phase = 0;
  const BlockWatch* watch = w.block->watch;
  for (auto& [first, seen] : m.seen_by) {
    bool knows = first == w.first;
    for (size_t lane = 0; lane < seen.epochs.size() && watch && !knows; lane++) {
      Stamp stamp = watch->clocks.now(first + int64_t(lane), seen.site);
      stamp.epoch = seen.epochs[lane];
      knows = stamp.epoch > 0 && watch->clocks.ordered(stamp, w.first + w.awaiting);
    }
    if (knows) phase = std::max(phase, seen.phase + 1);
  }
  return phase;
}

// ── why a phase is missed ─────────────────────────────────────────────────────────────────────────────
bool counts_too_few(const MBarrier& m) { return int64_t(m.arrivers.size()) > m.count; }

// `all`: nobody arrives any more.
std::string cause_in_count(const Block& block, std::string_view name, const MBarrier& m, bool all) {
  std::string ended;
  for (size_t i = 0; i < m.first_phases.size(); i++)
    ended += fmt::format("{}phase {} ended with {}", i ? ", " : ": ", i, arrivals(block, m.first_phases[i]));
  size_t threads = m.arrivers.size();
  return fmt::format(
      "{} counts {} in each phase, but {} threads {} at it{}; count all of them (T.alloc_barrier({})), or {}",
      name, arrivals_counted(m.count), threads, all ? "arrive" : "have arrived", ended,
      all ? fmt::to_string(threads) : "n", let_arrive(m.count));
}

// Those that arrive run ahead of a warp that waits.
std::string cause_in_order(const Block& block, const MBarrier::Arrivals& with) {
  return fmt::format("nothing makes {} wait for this warp: {}",
                     with.empty() ? "those that end the phase" : arrivals(block, with) + ", which arrive,",
                     cure_by_empty());
}

std::string told_twice(int64_t thread, const MBarrier::Seen& seen, const Code& code, int64_t at) {
  return fmt::format(
      "thread {} has waited{} twice for the end of one phase of {} (parity {}), and so ran ahead: the parity "
      "must change from phase to phase, as k // slots % 2 does",
      thread, on_line(code, seen.site), name_of_barrier(code, at), seen.phase & 1);
}

// A warp that arrives at `m` has asked twice for one phase of a barrier at which this one arrives: that lets
// it run ahead.
std::string cause_in_constant_parity(const Warp& w, const MBarrier& m) {
  for (auto& [at, other] : w.block->engine->barriers)
    for (auto& [first, seen] : other.seen_by)
      if (seen.again && !seen.by_state && has_thread_in(w, other.arrivers) &&
          has_thread_in(*seen.warp, m.arrivers))
        return told_twice(first, seen, *w.code, at);
  return "";
}

// Nobody has arrived anywhere, and each waits for another one's first arrival.
bool none_has_begun(const Warp& w, std::span<const Warp* const> others) {
  std::set<int64_t> awaited;
  for (auto* other : others) {
    if (other->block != w.block) continue;
    if (other->awaited < 0 || other->awaits_by_state) return false;
    const MBarrier& m = w.block->engine->barriers.at(other->awaited);
    if (m.phase > 0 || told_of_phase(*other) > 1) return false;
    awaited.insert(other->awaited);
  }
  return awaited.size() > 1;
}

bool is_overtaken(const Warp& w, const MBarrier& m) {
  return !w.awaits_by_state && first_unseen(w, m) < m.phase - 1;
}

// It waits for the phase under way, though the one before has ended, which it has not seen.
bool asks_other_parity(const Warp& w, const MBarrier& m) {
  auto own = [&](auto& a) { return is_of(w, a); };
  return !w.awaits_by_state && first_unseen(w, m) == m.phase - 1 && std::ranges::none_of(m.came, own);
}

// A copy counts its bytes in this phase, and no arrival has ever ended one.
bool lacks_arrival(const MBarrier& m) { return m.arrivers.empty() && m.load.phase == m.phase; }

std::string cause_of(const Warp& w, const MBarrier& m, std::span<const Warp* const> others) {
  const Code& code = *w.code;
  std::string name = name_of_barrier(code, w.awaited);
  if (counts_too_few(m)) return cause_in_count(*w.block, name, m, true);
  if (lacks_arrival(m))
    return fmt::format(
        "a copy{} counts its bytes in this phase, but nobody arrives: put T.barrier_arrive({}) behind the "
        "copy",
        on_line(code, m.load.site), name);
  if (std::string cause = cause_in_constant_parity(w, m); !cause.empty()) return cause;
  if (is_overtaken(w, m)) {
    int64_t unseen = first_unseen(w, m);
    return fmt::format("phases {} {} {} ended before it waited for phase {}: {}", unseen,
                       unseen + 2 == m.phase ? "and" : "to", m.phase - 1, unseen,
                       cause_in_order(*w.block, m.ended_with));
  }
  if (asks_other_parity(w, m))
    return fmt::format("the phase before has ended: was parity {} meant?", 1 - m.phase % 2);
  if (none_has_begun(w, others))
    return "the one that is to go first should wait for the phase before the first, which counts as ended: "
           "parity 1";
  if (m.phase > 0 && m.came.empty() && !m.ended_with.empty())
    return fmt::format("the phase before ended with {}, and none of them arrives again",
                       arrivals(*w.block, m.ended_with));
  return "";
}

}  // namespace

std::string name_of_barrier(const Place& p, int64_t address) {
  return fmt::format("{}[{}]", p.name, (address - p.address) / p.type.bytes());
}
std::string name_of_barrier(const Code& code, int64_t address) {
  for (auto& p : code.places)
    if (int64_t end = p.address + p.elements * p.type.bytes();
        p.scope == Scope::shared && address >= p.address && address < end)
      return name_of_barrier(p, address);
  return {};
}

std::string no_room(const Warp& w, const Block& of, const MBarrier& m, int lane, int64_t address) {
  int64_t thread = w.first + lane;
  bool again =
      std::ranges::any_of(m.came, [&](auto& a) { return a.block == w.block->number && a.thread == thread; });
  std::string ahead = again ? why_ahead(*w.block, thread) : "";
  return fmt::format(
      "{} arrives at {}{}, but phase {} has the {} that it counts ({}), and {} bytes are still to land: {}",
      describe_thread(w, lane), name_of_barrier(*w.code, address) + of_block(of, of.number),
      again ? " again" : "", m.phase, arrivals_counted(m.count), arrivals(of, m.came), m.bytes,
      !ahead.empty() ? ahead
      : again
          ? "wait for the phase first, and expect as many bytes as its copies bring"
          : fmt::format("count all threads that arrive (T.alloc_barrier(n)), or {}", let_arrive(m.count)));
}

// A warp has seen the phase before this one end. Had it come later than the end of this one, it would wait
// for the next, whose parity is the same; so what ends this one must come after what the warp has seen. One
// lane that tells of it will do.
void check_overtaken(const Block& block, int64_t barrier, const MBarrier& m) {
  const Clocks& clocks = block.watch->clocks;
  for (auto& [first, seen] : m.seen_by) {
    if (seen.phase != m.phase - 1 || m.crowded_by) continue;
    bool tells = false;
    for (size_t lane = 0; lane < seen.epochs.size() && !tells; lane++) {
      Stamp stamp = clocks.now(first + int64_t(lane), seen.site);
      stamp.epoch = seen.epochs[lane];
      tells = stamp.epoch > 0 && (clocks.covers(m.joined, stamp) || clocks.covers(m.ended_by, stamp));
    }
    if (tells) continue;
    Finding f{.kind = Finding::Kind::barrier};
    std::string name = name_of_barrier(block.code, barrier);
    auto own = [&warp = *seen.warp](auto& a) { return is_of(warp, a); };
    bool other_parity = !seen.by_state && (seen.again || std::ranges::any_of(m.came, own));
    std::string cause = cause_in_constant_parity(*seen.warp, m);
    if (counts_too_few(m)) cause = cause_in_count(block, name, m, false);
    if (cause.empty())
      cause = other_parity ? fmt::format("was parity {} meant?", m.phase % 2) : cause_in_order(block, m.came);
    std::string then =
        seen.by_state
            ? "the state that it waits by serves no more"
            : fmt::format("this wait is for phase {}, of the same parity, maybe for ever", m.phase + 1);
    f.text = fmt::format(
        "{} waits here for the phase before phase {} of {}, and nothing makes phase {} wait for that: if it "
        "ends first, {}; {}",
        describe_thread(*seen.warp, 0), m.phase, name, m.phase, then, cause);
    if (!m.came.empty()) f.other_thread = m.came[0].thread;
    block.race_detector->report(*seen.warp, 0, std::move(f), seen.site, m.came.empty() ? -1 : m.came[0].site);
  }
}

void check_crowds(const Block& block) {
  for (auto& [at, m] : block.engine->barriers) {
    if (!m.crowded_by || !counts_too_few(m)) continue;
    Warp& w = *m.crowded_by;
    Finding f{.kind = Finding::Kind::barrier};
    f.text = fmt::format(
        "{} arrives here together with threads that have just ended the phase before, so "
        "that none could wait for it; {}",
        describe_thread(w, m.crowding), cause_in_count(block, name_of_barrier(block.code, at), m, true));
    block.race_detector->report(w, m.crowding, std::move(f), m.crowded_at);
  }
}

std::string cure_of_unawaited(const Block& block, int64_t barrier) {
  const MBarrier& m = block.engine->barriers.at(barrier);
  std::string why = why_ahead(block, m.load.thread);
  for (auto& [first, seen] : m.seen_by)
    if (seen.again && !seen.by_state) why = told_twice(first, seen, block.code, barrier);
  return why.empty() ? "wait for it before that (for the phase of its mbarrier)" : why;
}

// At which barrier the warp has seen a phase end last: its offset; -1: at none.
static int64_t last_seen(const Warp& w) {
  int64_t last = -1;
  uint32_t latest = 0;
  for (auto& [at, m] : w.block->engine->barriers) {
    auto seen = m.seen_by.find(w.first);
    if (seen == m.seen_by.end()) continue;
    uint32_t epoch = std::ranges::max(seen->second.epochs);
    if (epoch >= latest) last = at, latest = epoch;
  }
  return last;
}

static bool has_come(const Code& code, const MBarrier& m, const MBarrier::Load& load) {
  return m.arrivers.contains(load.block * code.thread_count() + load.thread);
}

std::string why_told_elsewhere(const Warp& w, int64_t barrier, const MBarrier& m) {
  const Code& code = *w.code;
  int64_t last = last_seen(w);
  if (last < 0 || last == barrier) return "";
  const MBarrier& other = w.block->engine->barriers.at(last);
  if (other.copies > 0 || !has_come(code, other, m.load)) return "";
  return fmt::format(
      "the reader has waited for {0}, of which no copy tells: this one{1} counts at {2}; let it count at "
      "{0} (barrier=), or let the reader wait for phase {3} of {2} (parity {4})",
      name_of_barrier(code, last), on_line(code, m.load.site), name_of_barrier(code, barrier), m.load.phase,
      m.load.phase % 2);
}

std::string why_ended_early(const Block& block, int64_t reader, int64_t barrier, const MBarrier::Load& load) {
  const Code& code = block.code;
  const MBarrier& m = block.engine->barriers.at(barrier);
  auto seen = m.seen_by.find(reader / code.warp * code.warp);
  bool waited = seen != m.seen_by.end() && seen->second.phase == m.phase - 1;
  if (!waited || load.phase != m.phase || m.had_load || has_come(code, m, load)) return "";
  if (m.phase == 0)
    return fmt::format(
        "the reader's wait for parity 1 of {} is over at once, as if a phase had ended before the first: it "
        "did not wait for this copy{}; was parity 0 meant?",
        name_of_barrier(code, barrier), on_line(code, load.site));
  return fmt::format(
      "phase {} of {}, for which the reader has waited, ended with {} before thread {}{} began this copy{}, "
      "whose bytes were not yet expected: let the thread that begins the copy arrive behind it",
      m.phase - 1, name_of_barrier(code, barrier), arrivals(block, m.ended_with), load.thread,
      of_block(block, load.block), on_line(code, load.site));
}

std::string why_alone(const Warp& w, int64_t thread, std::string_view did) {
  int64_t own = w.block->number * w.code->thread_count();
  int64_t first = own + thread / w.lane_count() * w.lane_count();
  for (auto& [at, m] : w.block->engine->barriers) {
    if (!m.seen_by.contains(w.first) || m.arrivers.contains(own + thread)) continue;
    auto it = m.arrivers.lower_bound(first);
    if (it == m.arrivers.end() || *it >= first + w.lane_count()) continue;
    return fmt::format(
        "thread {} {} it, but only thread {} of its warp arrives at {}, for which the other one waits: let "
        "the "
        "warp meet before that arrival (T.sync_warp())",
        thread, did, *it - own, name_of_barrier(*w.code, at));
  }
  return "";
}

std::string why_not_counted(const Block& block, int64_t reader, int64_t writer) {
  const Code& code = block.code;
  int64_t size = code.warp, own = block.number * code.thread_count();
  auto any_of_warp = [&](const MBarrier& m, int64_t thread) {
    int64_t first = own + thread / size * size;
    auto it = m.arrivers.lower_bound(first);
    return it != m.arrivers.end() && *it < first + size;
  };
  for (auto& [at, m] : block.engine->barriers) {
    if (!m.seen_by.contains(writer / size * size) || m.copies > 0 || m.ended_with.empty()) continue;
    if (any_of_warp(m, reader) || any_of_warp(m, writer)) continue;
    return fmt::format(
        "thread {}, which writes it, has waited for {}, which counts {}, but phase {} ended with {}, and the "
        "warp of thread {} was not among them: let it arrive there, too, and count it (T.alloc_barrier(n))",
        writer, name_of_barrier(code, at), arrivals_counted(m.count), m.phase - 1,
        arrivals(block, m.ended_with), reader);
  }
  return "";
}

std::string cure_by_empty() {
  return "let those that read a slot arrive at a second barrier when they are done "
         "(T.barrier_arrive(empty[slot])), and let those that write it wait for that first "
         "(T.barrier_wait(empty[slot], (k // slots + 1) % 2))";
}

std::string why_ahead(const Block& block, int64_t thread) {
  int64_t first = thread / block.code.warp * block.code.warp;
  for (auto& [at, m] : block.engine->barriers) {
    auto it = m.seen_by.find(first);
    if (it != m.seen_by.end() && it->second.again && !it->second.by_state)
      return told_twice(first, it->second, block.code, at);
  }
  return "";
}

std::string why_unordered(const Warp& w, int64_t thread) {
  const Code& code = *w.code;
  for (auto& [at, m] : w.block->engine->barriers) {
    if (!m.seen_by.contains(w.first) && !m.seen_by.contains(thread / w.lane_count() * w.lane_count()))
      continue;
    std::string name = name_of_barrier(code, at);
    if (counts_too_few(m)) return cause_in_count(*w.block, name, m, false);
    for (auto& [first, seen] : m.seen_by)
      if (seen.again && !seen.by_state && m.phase > 1) return told_twice(first, seen, code, at);
    if (m.rushed.empty()) continue;
    std::string why = m.rushed[0].block == w.block->number ? why_ahead(*w.block, m.rushed[0].thread) : "";
    if (why.empty())
      why = fmt::format(
          "nothing makes {}, which arrived more than once in one phase of {}, wait for its end: {}",
          arrivals(*w.block, m.rushed), name, cure_by_empty());
    return why;
  }
  return "";
}

bool was_told(const Block& block, int64_t thread, const Warp& by) {
  int64_t first = thread / by.lane_count() * by.lane_count();
  return std::ranges::any_of(block.engine->barriers, [&](auto& entry) {
    auto& m = entry.second;
    auto it = m.seen_by.find(first);
    return it != m.seen_by.end() && it->second.phase >= 0 && has_thread_in(by, m.arrivers);
  });
}

int told_of_phase(const Warp& w) {
  if (w.awaited < 0) return 0;
  const MBarrier& m = w.block->engine->barriers.at(w.awaited);
  if (counts_too_few(m) || lacks_arrival(m) || is_overtaken(w, m) || asks_other_parity(w, m)) return 3;
  return !m.came.empty() || m.bytes != 0 ? 2 : 1;
}

// "; thread 128 waits at barrier 4 (line 7), where 128 of 256 threads have arrived"
static std::string waits_at_barrier(const Warp& w) {
  const CallSite& at = waits_at(w);
  std::string text = fmt::format("; thread {}{} waits at ", w.first, of_block(*w.block, w.block->number));
  if (w.barrier < 0) return text + fmt::format("{}{}", at.intrinsic->name, on_line(*w.code, at.site));
  const NamedBarrier& b = w.block->barriers.at(w.barrier);
  return text + fmt::format("barrier {}{}, where {} of {} threads have arrived", w.barrier,
                            on_line(*w.code, at.site), b.arrived, b.expected);
}

Finding phase_finding(const Warp& w, std::span<const Warp* const> others) {
  const Code& code = *w.code;
  const MBarrier& m = w.block->engine->barriers.at(w.awaited);
  std::string came = m.came.empty() ? "no thread has arrived" : arrivals(*w.block, m.came) + " came";
  Finding f{.kind = Finding::Kind::deadlock, .span = code.sites[size_t(w.awaits_at)].span};
  f.thread = w.first + w.awaiting;
  std::string cause = cause_of(w, m, others);
  f.text = fmt::format("{} {}, and no other thread can go on; {}; {}{}{}", describe_thread(w, w.awaiting),
                       awaited_by(w), missing_in(m), came, cause.empty() ? "" : "; ", cause);
  int behind = count_of(w.alive & ~w.returned & ~w.active);
  if (m.pending > 0 && m.pending == behind)
    f.text += fmt::format(
        "; {} other threads of its warp go on only when it leaves this loop (the threads of a warp run in "
        "lockstep): let it wait in a warp of its own",
        behind);
  constexpr size_t most = 4;
  std::set<std::pair<int64_t, int32_t>> told = {{w.awaited, w.awaits_at}};
  for (auto* other : others) {
    if (told.size() > most || other->block->cluster != w.block->cluster) continue;
    if (!w.block->cluster && other->block != w.block) continue;
    if (is_waiting(*other) && told.emplace(-1 - other->barrier, waits_at(*other).site).second)
      f.text += waits_at_barrier(*other);
    if (is_waiting(*other) || other->awaited < 0) continue;
    if (!told.emplace(other->awaited, other->awaits_at).second) continue;
    const Span& there = code.sites[size_t(other->awaits_at)].span;
    f.text += fmt::format("; thread {}{} {}{}, {}", other->first + other->awaiting,
                          of_block(*w.block, other->block->number), awaited_by(*other),
                          there ? fmt::format(" on line {}", there.line) : "",
                          missing_in(other->block->engine->barriers.at(other->awaited)));
  }
  if (!m.came.empty()) {
    f.other_thread = m.came[0].thread;
    f.other = code.sites[size_t(m.came[0].site)].span;
  }
  return f;
}

}  // namespace tl::sim
