#include "sim/reference_barriers.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "ir/build.h"
#include "ir/rewrite.h"
#include "sim/mbarrier_report.h"
#include "sim/phase_state.h"
#include "target/effects.h"

namespace tl {
namespace {

using AsyncKind = AsyncInstr::AsyncKind;
constexpr int64_t word_bytes = 8;
constexpr int64_t most_questions = 1 << 20;  // in vain: more is a loop that never ends

std::string name_of_team(const Team& t) {
  if (t.count == 1) return fmt::format("thread {}", t.first);
  return fmt::format("the threads [{}, {})", t.first, t.first + t.count);
}

bool only_orders(AsyncKind does) {  // which all is in the reference anyway
  return does == AsyncKind::fence || does == AsyncKind::fence_shared || does == AsyncKind::fence_init ||
         does == AsyncKind::bulk_commit || does == AsyncKind::bulk_wait || does == AsyncKind::bulk_wait_read;
}
bool is_of_barrier(const AsyncInstr& row) {
  return row.operands.starts_with("s") && row.bytes == word_bytes && !row.begins();
}

// The test that a loop repeats until it holds; null if it does anything else.
const Call* test_of(const While& loop) {
  auto* n = loop.cond.as<Unary>();
  auto* test = n && n->op == UnaryOp::logical_not ? n->a.as<Call>() : nullptr;
  const AsyncInstr* row = test ? async_row_of(*test->intrinsic) : nullptr;
  return row && row->does == AsyncKind::test && is_empty(loop.body) ? test : nullptr;
}

// What is a thread's own: variables, and arrays of scope local.  Each team has its own while teams run in
// turns.
struct Own {
  std::vector<Scalar> vars;
  std::set<size_t> named_outside;
  std::unordered_map<size_t, Misfit> named_misfits;
  Flow flow;
  std::vector<std::vector<std::byte>> arrays;
};

struct Swapper {
  Frame& frame;
  std::vector<size_t> locals = {};
  std::vector<Own> of = {};

  Own taken() const {
    Own own{frame.vars, frame.named_outside, frame.named_misfits, frame.flow, {}};
    for (size_t b : locals) own.arrays.push_back(frame.buffers[b].owned);
    return own;
  }
  void put(const Own& own) {
    std::copy(own.vars.begin(), own.vars.end(), frame.vars.begin());  // there may be more by now
    frame.named_outside = own.named_outside;
    frame.named_misfits = own.named_misfits;
    frame.flow = own.flow;
    for (size_t i = 0; i < locals.size(); i++)
      std::ranges::copy(own.arrays[i], frame.buffers[locals[i]].data);
  }
};

}  // namespace

bool is_for_reference(const Intrinsic& intrinsic) {
  const AsyncInstr* row = async_row_of(intrinsic);
  return row && (only_orders(row->does) || is_of_barrier(*row));
}

bool waits_for_phase(const Stmt& s) {
  return contains(s, [](const Call& c) {
    const AsyncInstr* row = async_row_of(*c.intrinsic);
    return row && row->does == AsyncKind::test;
  });
}

int64_t ReferenceBarriers::Word::state() const { return PhaseState{life, phase}.packed(); }

void ReferenceBarriers::Word::end_phase() {
  asked = 0;
  if (pending != 0 || bytes != 0) return;
  phase++;
  pending = count;
}

std::string ReferenceBarriers::Word::missing() const {
  std::vector<std::string> parts;
  if (pending > 0) parts.push_back(fmt::format("{} of {} arrivals", pending, count));
  if (bytes > 0) parts.push_back(fmt::format("{} bytes that were expected", bytes));
  return fmt::format("missing: {}", fmt::join(parts, ", "));
}

ReferenceBarriers::Place ReferenceBarriers::place_at(const Expr& address, Span span) {
  const Load* at = place_of(address);
  if (!at) fail(span, "a barrier is an element of shared memory");
  return {.name = host.f[at->buffer].name,
          .offset = host.compile.offset(at->buffer, at->index, span),
          .buffer = size_t(at->buffer.value),
          .span = span};
}

ReferenceBarriers::Word& ReferenceBarriers::word_at(const Place& p, Frame& x) {
  auto it = words.find(x.buffers[p.buffer].data + p.offset(x) * word_bytes);
  if (it == words.end())
    fail(p.span, "{} has not been initialised as a barrier, in {}: let one thread execute mbarrier_init",
         p.said(x), x.where);
  return it->second;
}

Scalar ReferenceBarriers::arrive(const Place& p, Frame& x, const Team& team) {
  Word& w = word_at(p, x);
  int64_t state = w.state();
  w.arrived[name_of_team(team)] = {team, p.span};
  for (int64_t i = 0; i < team.count; i++) {
    if (w.pending == 0)
      fail(p.span,
           "more than {} arrivals at {} in phase {}, which still expects {} bytes, in {}: count more "
           "arrivals (T.alloc_barrier(n)), or wait for the phase first",
           w.count, p.said(x), w.phase, w.bytes, x.where);
    state = w.state();
    w.pending--;
    w.end_phase();
  }
  return scalar(state);
}

Code ReferenceBarriers::instruction(const Call& c, const Team& team, Span span) {
  const AsyncInstr* row = async_row_of(*c.intrinsic);
  if (row && only_orders(row->does)) return [](Frame&) { return Scalar(); };
  if (!row || !is_of_barrier(*row)) return nullptr;
  if (row->does == AsyncKind::test) return [this, t = test(c, team, span)](Frame& x) { return ask(t, x); };
  Place p = place_at(c.args[0], span);
  Code value = c.args.size() > 1 ? host.compile(c.args[1]) : Code();
  switch (row->does) {
    case AsyncKind::init:
      return [=, this](Frame& x) {
        int64_t count = value(x).i;
        if (count < 1) fail(p.span, "{}: a phase needs at least one arrival, not {}", p.said(x), count);
        words[x.buffers[p.buffer].data + p.offset(x) * word_bytes] = {
            .count = count, .pending = count, .life = ++lives};
        return Scalar();
      };
    case AsyncKind::inval:
      return [=, this](Frame& x) {
        words.erase(x.buffers[p.buffer].data + p.offset(x) * word_bytes);
        return Scalar();
      };
    case AsyncKind::arrive:
    case AsyncKind::signal_counted:
      return [=, this](Frame& x) { return arrive(p, x, team); };
    case AsyncKind::expect:
    case AsyncKind::arrive_expect:
      return [=, this, arrives = row->does == AsyncKind::arrive_expect](Frame& x) {
        word_at(p, x).bytes += team.count * value(x).i;
        return arrives ? arrive(p, x, team) : Scalar();
      };
    case AsyncKind::signal:
      return [=, this](Frame& x) {
        word_at(p, x);  // adds an arrival for each that it counts
        return Scalar();
      };
    default:
      return nullptr;
  }
}

ReferenceBarriers::Test ReferenceBarriers::test(const Call& c, const Team& team, Span span) {
  return {place_at(c.args[0], span), host.compile(c.args[1]), async_row_of(*c.intrinsic)->takes_state(),
          name_of_team(team)};
}

void ReferenceBarriers::check_state(const Test& t, const Word& w, int64_t state, Frame& x) {
  auto refuse = [&](std::string_view what, std::string_view cure) {
    fail(t.place.span, "{} is asked for a phase by {}, in {}; {}", t.place.said(x), what, x.where, cure);
  };
  auto [life, phase] = PhaseState::of(state);
  if (life != w.life)
    refuse(life > 0 && life <= lives ? "a state of another barrier" : "a value that is the state of no phase",
           "it takes what an arrival at this barrier gave");
  if (phase < w.phase - 1)
    refuse(fmt::format("the state of phase {}, but phase {} is under way", phase, w.phase),
           "a state serves for the phase under way and the one before it");
}

std::function<bool()> ReferenceBarriers::question(const Test& t, Frame& x) {
  int64_t given = t.given(x).i;
  Word& w = word_at(t.place, x);
  if (t.by_state) {
    check_state(t, w, given, x);
    return [&w, given] { return w.state() != given; };
  }
  if (given != 0 && given != 1)
    fail(t.place.span, "the parity of a phase of {} is {}, in {}: it is 0 (even phases) or 1 (odd phases)",
         t.place.said(x), given, x.where);
  return [&w, given] { return w.phase % 2 != given; };
}

// "the threads [0, 128) wait for phase 1 of full[0] (parity 1)"
std::string ReferenceBarriers::asks(const Test& t, const Word& w, std::string_view verb, Frame& x) const {
  return fmt::format("{} {} for phase {} of {} ({})", t.who, verb, w.phase, t.place.said(x),
                     t.by_state ? "by its state" : fmt::format("parity {}", w.phase % 2));
}

// Why a team that waits has missed its phase: whose parity is right, if another one's phases run ahead.
std::string ReferenceBarriers::why_never(const Test& t, const Word& w, Frame& x) const {
  int64_t threads = 0;
  std::string who;
  for (auto& [name, from] : w.arrived) {
    threads += from.first.count;
    who += fmt::format("{}{} (line {})", who.empty() ? "" : ", ", name, from.second.line);
  }
  if (threads > w.count)
    return fmt::format(
        "{} counts {} arrivals in each phase, but {} threads arrive at it: {}; count all of them "
        "(T.alloc_barrier({}))",
        t.place.said(x), w.count, threads, who, threads);
  auto it = w.unseen.find(t.who);
  int64_t unseen = it == w.unseen.end() ? 0 : it->second;
  if (t.by_state || unseen >= w.phase) return "";
  if (unseen == w.phase - 1 && w.pending == w.count && w.bytes == 0)
    return fmt::format("the phase before has ended: was parity {} meant?", 1 - w.phase % 2);
  if (unseen >= w.phase - 1) return "";
  return fmt::format(
      "phases {} to {} ended before it waited for phase {}: nothing makes {} wait for that; {}", unseen,
      w.phase - 1, unseen, who, sim::cure_by_empty());
}

void ReferenceBarriers::wait_for(const Test& t, Frame& x) {
  auto ended = question(t, x);
  Word& w = word_at(t.place, x);
  auto note = [&] { w.unseen[t.who] = w.phase; };
  if (ended()) return note();
  size_t me = turns ? turns->current() : 0;
  std::string what = asks(t, w, "wait", x);
  waiting[me] = {what, &w, t.place.span};
  bool goes_on = turns && turns->wait(ended);
  waiting.erase(me);
  if (goes_on) return note();
  std::string text = fmt::format("{} in {}, and nothing else can go on; {}", what, x.where, w.missing());
  if (std::string why = why_never(t, w, x); !why.empty()) text += "; " + why;
  for (auto& [team, other] : waiting)
    text += fmt::format("; on line {} {}, {}", other.span.line, other.what, other.word->missing());
  fail(t.place.span, "{}", text);
}

// Without waiting: the others go on first, so that what they do is seen at some time.
Scalar ReferenceBarriers::ask(const Test& t, Frame& x) {
  auto ended = question(t, x);
  if (ended() || (turns && turns->wait(ended))) return scalar(int64_t(1));
  Word& w = word_at(t.place, x);
  if (++w.asked > most_questions)
    fail(t.place.span, "{} again and again in {}, and nothing else can go on; {}", asks(t, w, "ask", x),
         x.where, w.missing());
  return scalar(int64_t(0));
}

ReferenceBarriers::Step ReferenceBarriers::wait(const While& loop, const Team& team, Span span) {
  const Call* asked = test_of(loop);
  if (!asked) return nullptr;
  return [this, t = test(*asked, team, span)](Frame& x) { wait_for(t, x); };
}

ReferenceBarriers::Step ReferenceBarriers::beside(std::vector<Step> teams) {
  return [this, teams = std::move(teams)](Frame& x) {
    Swapper own{.frame = x};
    for (size_t b = 0; b < x.buffers.size(); b++)
      if (host.f.buffers[b].scope == Scope::local && !x.buffers[b].owned.empty()) own.locals.push_back(b);
    own.of.assign(teams.size(), own.taken());
    size_t runs = 0;
    Turns in_turns([&](size_t next) {
      own.of[runs] = own.taken();
      own.put(own.of[next]);
      runs = next;
    });
    std::vector<std::function<void()>> functions;
    for (auto& team : teams)
      functions.push_back([&] {
        team(x);
        x.flow = Flow::on;  // those that have returned are only these
      });
    turns = &in_turns;
    in_turns.run(functions);
    turns = nullptr;
  };
}

}  // namespace tl
