#include "sim/reference_barriers.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "ir/build.h"
#include "ir/rewrite.h"
#include "target/effects.h"

namespace tl {
namespace {

using AsyncKind = AsyncInstr::AsyncKind;
constexpr int64_t word_bytes = 8;

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
  return contains(s, [](const While& n) { return test_of(n) != nullptr; });
}

void ReferenceBarriers::Word::end_phase() {
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

void ReferenceBarriers::arrive(const Place& p, Frame& x, int64_t times) {
  Word& w = word_at(p, x);
  for (int64_t i = 0; i < times; i++) {
    if (w.pending == 0)
      fail(p.span,
           "more than {} arrivals at {} in phase {}, which still expects {} bytes, in {}: count more "
           "arrivals, or wait for the phase first",
           w.count, p.said(x), w.phase, w.bytes, x.where);
    w.pending--;
    w.end_phase();
  }
}

ReferenceBarriers::Step ReferenceBarriers::instruction(const Stmt& s, const Team& team, Span span) {
  auto* e = s.as<Eval>();
  auto* c = e ? e->value.as<Call>() : nullptr;
  const AsyncInstr* row = c ? async_row_of(*c->intrinsic) : nullptr;
  if (row && only_orders(row->does)) return [](Frame&) {};
  if (!row || !is_of_barrier(*row)) return nullptr;
  Place p = place_at(c->args[0], span);
  Code value = c->args.size() > 1 ? host.compile(c->args[1]) : Code();
  int64_t times = team.count;
  switch (row->does) {
    case AsyncKind::init:
      return [=, this](Frame& x) {
        int64_t count = value(x).i;
        if (count < 1) fail(p.span, "{}: a phase needs at least one arrival, not {}", p.said(x), count);
        words[x.buffers[p.buffer].data + p.offset(x) * word_bytes] = {.count = count, .pending = count};
      };
    case AsyncKind::inval:
      return [=, this](Frame& x) { words.erase(x.buffers[p.buffer].data + p.offset(x) * word_bytes); };
    case AsyncKind::arrive:
    case AsyncKind::signal_counted:
      return [=, this](Frame& x) { arrive(p, x, times); };
    case AsyncKind::expect:
      return [=, this](Frame& x) { word_at(p, x).bytes += times * value(x).i; };
    case AsyncKind::arrive_expect:
      return [=, this](Frame& x) {
        word_at(p, x).bytes += times * value(x).i;
        arrive(p, x, times);
      };
    case AsyncKind::signal:
      return [=, this](Frame& x) { word_at(p, x); };  // adds an arrival for each that it counts
    default:
      return nullptr;
  }
}

void ReferenceBarriers::wait_for(const Place& p, Frame& x, int64_t parity, const std::string& who) {
  if (parity != 0 && parity != 1)
    fail(p.span, "the parity of a phase of {} is {}, in {}: it is 0 (even phases) or 1 (odd phases)",
         p.said(x), parity, x.where);
  Word& w = word_at(p, x);
  auto ended = [&] { return w.phase % 2 != parity; };
  size_t me = turns ? turns->current() : 0;
  std::string what = fmt::format("{} wait for phase {} of {} (parity {})", who, w.phase, p.said(x), parity);
  waiting[me] = {what, &w, p.span};
  bool goes_on = turns ? turns->wait(ended) : ended();
  waiting.erase(me);
  if (goes_on) return;
  bool fresh = w.pending == w.count && w.bytes == 0 && w.phase > 0;
  std::string text = fmt::format("{} in {}, and nothing else can go on; {}", what, x.where, w.missing());
  if (fresh) text += fmt::format("; the phase before has ended: was parity {} meant?", 1 - parity);
  for (auto& [team, other] : waiting)
    text += fmt::format("; on line {} {}, {}", other.span.line, other.what, other.word->missing());
  fail(p.span, "{}", text);
}

ReferenceBarriers::Step ReferenceBarriers::wait(const While& loop, const Team& team, Span span) {
  const Call* test = test_of(loop);
  if (!test) return nullptr;
  return [this, p = place_at(test->args[0], span), parity = host.compile(test->args[1]),
          who = name_of_team(team)](Frame& x) { wait_for(p, x, parity(x).i, who); };
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
