// plan_memory: gives every shared buffer its place in the block's memory; on a target of one thread per
// block, all tiles are there, and local arrays that are too large for its stack.  First at machine level:
// from here on addresses are numbers.
//
// Buffers that are never alive together share memory; insert_sync, which runs next, orders their accesses.  A
// buffer is alive from its first access to its last; where a loop accesses a buffer that exists outside it,
// for all of the loop.  Between the last access of one and the first of the next insert_sync must be able to
// place a barrier of all threads: a statement whose parts threads run at different times counts as one
// moment, and after some threads have returned no buffer takes the place of another. Nor does any buffer of a
// program that places its own barriers (own_barriers), because those do not order what the program does not
// see.
//
//   As = shared f16[128, 32]   ->   As = shared f16[128, 32] address(8192)
#include <algorithm>

#include "base/error.h"
#include "base/round.h"
#include "ir/rewrite.h"
#include "pass/passes.h"
#include "pass/too_large.h"
#include "pass/varying.h"
#include "pass/walk.h"
#include "target/effects.h"
#include "target/said.h"

namespace tl {
namespace {

constexpr int64_t largest_on_stack = 16 << 10, most_on_stack = 128 << 10;  // of a CPU's local arrays

int64_t elements_of(const BufferInfo& b) {
  if (b.elements >= 0) return b.elements;
  int64_t elements = 1;  // of a local array
  for (auto& e : b.shape) elements *= as_int(e).value_or(1);
  return elements;
}
int64_t bytes_of(const BufferInfo& b) { return elements_of(b) * b.dtype.bytes(); }

struct Lifetime {
  BufferId buffer;
  int64_t first = -1, last = -1;  // moments, in the order of the text; -1: no access
  int64_t bytes = 0;
  std::set<Team> teams = {};     // that touch it
  int64_t begin = -1, end = -1;  // the same, with all of what runs beside its accesses

  bool meets(const Lifetime& o) const {
    if (first < 0 || o.first < 0) return false;
    bool in_order = teams.size() == 1 && teams == o.teams;
    return in_order ? first <= o.last && o.first <= last : begin <= o.end && o.begin <= end;
  }
};

struct Lifetimes {
  const Function& f;
  const Target& target;
  const Varying& varying;
  std::vector<Lifetime> found = {};
  std::map<BufferId, size_t> at = {};
  std::set<BufferId> awaited = {};   // by the loops that copy into them: see pipeline_loops
  std::set<BufferId> words = {};     // of barriers, and what other blocks reach: theirs for good
  int64_t clock = 0, own = 0;        // own: bytes of a thread's local arrays
  bool stands = false;               // the clock: within one moment
  bool gone = false;                 // some threads have returned
  std::vector<size_t> touched = {};  // the number in `found` of each access, in the order of the text
  struct Open {                      // a statement that is being walked, and what held where it begins
    int64_t begin;
    size_t outside, first;
    int64_t own;
    bool stands;
    int64_t section =
        -1;  // the moment at which the groups begin of which the latest is being walked; -1: none
    size_t section_first = 0;
  };
  std::vector<Open> open = {};
  Team team = {};  // whose statement it is
  struct Flight {  // what goes on behind the statement that began it
    BufferId buffer;
    Token token;
    BufferId word;
    int64_t word_at;
    WalkContext at;
    int64_t before;  // groups closed before
    bool is_awaited = false;
  };
  std::vector<Flight> flights = {};
  std::map<Token, std::vector<WalkContext>> closed = {};  // groups

  // Decided where the buffer begins.
  bool placed(BufferId b) {
    const BufferInfo& info = f[b];
    if (info.scope == Scope::shared) return true;
    if (info.scope == Scope::fragment) return !target.has_threads();
    if (info.scope != Scope::local) return false;
    int64_t bytes = bytes_of(info);
    if (!target.has_threads() && (bytes > largest_on_stack || own + bytes > most_on_stack)) return true;
    own += bytes;
    if (target.has_threads() && own > target.local_bytes)
      fail(info.span,
           "the local arrays of a thread take {:.1f} KB with {}, but {} gives a thread {} KB: use a smaller "
           "array, or one that the block shares (T.alloc_shared)",
           double(own) / 1024, info.name, said(target), target.local_bytes / 1024);
    return false;
  }

  void touch(BufferId b, int64_t first, int64_t last) {
    auto it = at.find(f.storage(b));
    if (it == at.end()) return;
    extend(it->second, first, last);
    found[it->second].teams.insert(team);
    touched.push_back(it->second);
  }
  void extend(size_t number, int64_t first, int64_t last) {
    Lifetime& l = found[number];
    if (gone) first = 0;
    l.first = l.first < 0 ? first : std::min(l.first, first);
    l.last = std::max(l.last, last);
    widen(l, first, last);
  }
  static void widen(Lifetime& l, int64_t begin, int64_t end) {
    l.begin = l.begin < 0 ? begin : std::min(l.begin, begin);
    l.end = std::max(l.end, end);
  }

  // Groups beside each other are one section: what their teams touch is needed by some of them all the time.
  void enter_section(Open& around, bool is_group) {
    if (is_group && around.section < 0) around.section = clock + 1, around.section_first = touched.size();
    if (!is_group) around.section = -1;
  }
  void leave_group(const Open& around) {
    for (size_t i = around.section_first; i < touched.size(); i++)
      widen(found[touched[i]], around.section, clock);
  }

  // What is in flight is needed until it has landed: by a phase, until its barrier is last waited for; in a
  // group, until a wait that is certain to come leaves fewer groups going on than were closed since: by all
  // that wait, or by those that began it.
  void land(const Completion& c, const WalkContext& context) {
    std::erase_if(flights, [&](Flight& flight) {
      bool other_word = flight.word_at >= 0 && c.word_at >= 0 && flight.word_at != c.word_at;
      if (flight.token != c.token || flight.word != c.word || other_word) return false;
      touch(flight.buffer, clock, clock);
      flight.is_awaited = true;
      auto& list = closed[c.token];
      auto certain = std::count_if(list.begin() + flight.before, list.end(), [&](const WalkContext& at) {
        return at.encloses(context) || at.encloses(flight.at);
      });
      return c.token != Token::phase && certain > c.left && context.encloses(flight.at);
    });
  }
  void finish() {
    for (auto& flight : flights)
      if (flight.token != Token::phase || !flight.is_awaited) touch(flight.buffer, clock, clock);
    for (BufferId b : words) touch(b, 0, clock);
  }

  void enter(const Stmt& s, const WalkContext& context) {
    bool is_group = s.as<Group>() != nullptr;
    if (!open.empty()) enter_section(open.back(), is_group);
    if (!stands) clock++;
    open.push_back({clock, found.size(), touched.size(), own, stands});
    stands |= !is_group && varying.may_diverge(s);
    team = context.team;
    gone |= is_loop(s) && !varying.returns(s).empty();
    if (auto* a = s.as<Alloc>()) {
      begin(a->buffer);
      if (a->attrs.get_int("awaited")) awaited.insert(a->buffer);
    }
    Effects effects = effects_of(s);
    for (auto& e : effects.list) {
      touch(e.buffer, clock, clock);
      if (e.is_phase || meets_other_blocks(e)) words.insert(e.buffer);
      if (e.begins != Token::none && !awaited.contains(e.buffer))
        flights.push_back({e.buffer, e.begins, e.word, e.word_at, context, std::ssize(closed[e.begins])});
    }
    for (Token token : effects.closes) closed[token].push_back(context);
    for (auto& c : effects.completes) land(c, context);
  }
  // Another block of the cluster writes there when it likes, or is told by its own barrier that it has been
  // read.
  static bool meets_other_blocks(const Effect& e) {
    if (!e.by || e.by->kind != Kind::Call) return false;
    const AsyncInstr* row = async_row_of(*static_cast<const Call&>(*e.by).intrinsic);
    return row && row->leaves_block() && (e.writes() || row->begins());
  }
  void leave(const Stmt& s) {
    Open done = open.back();
    open.pop_back();
    if (is_loop(s))  // what exists outside of it is needed by all of its turns
      for (size_t i = done.first; i < touched.size(); i++)
        if (touched[i] < done.outside) extend(touched[i], done.begin, clock);
    if (s.as<Group>() && !open.empty()) leave_group(open.back());
    if (s.as<Block>() && target.has_threads()) own = done.own;  // what follows may take its place
    gone |= s.as<If>() && !varying.returns(s).empty();
    stands = done.stands || gone;
  }
  static bool is_loop(const Stmt& s) { return s.as<For>() || s.as<While>(); }

  void begin(BufferId b) {
    if (!placed(b) || f[b].alias_of) return;
    at[b] = found.size();
    found.push_back({.buffer = b, .bytes = round_up(bytes_of(f[b]), alignment_of(f[b]))});
  }
};

// The lowest place for each, in this order, that no buffer alive at the same time has.  The bytes needed.
int64_t place(Function& f, const Kernel& k, const std::vector<Lifetime>& order, bool share) {
  auto apart = [&, own = k.attrs.get_int("own_barriers")](const Lifetime& x, const Lifetime& y) {
    return !share || x.meets(y) || (x.buffer.value < own && y.buffer.value < own);
  };
  int64_t end = 0;
  std::vector<const Lifetime*> done;
  for (const Lifetime& l : order) {
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (auto* o : done)
      if (apart(*o, l)) taken.emplace_back(f[o->buffer].address, f[o->buffer].address + o->bytes);
    std::ranges::sort(taken);
    int64_t address = 0;
    for (auto& [from, to] : taken)
      if (from < address + l.bytes) address = std::max(address, round_up(to, alignment_of(f[l.buffer])));
    f[l.buffer].address = address;
    if (f[l.buffer].elements < 0) f[l.buffer].elements = elements_of(f[l.buffer]);
    end = std::max(end, address + l.bytes);
    done.push_back(&l);
  }
  return end;
}

// Largest first packs tighter than the order of the text.
int64_t place_tightly(Function& f, const Kernel& k, std::vector<Lifetime>& tiles, bool share, int64_t most) {
  int64_t needed = place(f, k, tiles, share);
  if (needed <= most) return needed;
  std::ranges::sort(tiles, [](auto& a, auto& b) {
    return std::tuple(-a.bytes, a.buffer) < std::tuple(-b.bytes, b.buffer);
  });
  return place(f, k, tiles, share);
}

int64_t unpadded_bytes(const BufferInfo& b) {
  int64_t elements = 1;
  for (auto& e : b.shape) elements *= as_int(e).value_or(1);
  return std::min(elements, elements_of(b)) * b.dtype.bytes();
}

// Would the tiles fit without the rows and columns that layouts leave empty?
bool fits_unpadded(Function f, const Kernel& k, std::vector<Lifetime> tiles, bool share, int64_t most) {
  for (Lifetime& l : tiles) l.bytes = round_up(unpadded_bytes(f[l.buffer]), alignment_of(f[l.buffer]));
  return place_tightly(f, k, tiles, share, most) <= most;
}

// What `run_fitting` (compile.cpp) has left out so that the tiles fit.
void note_unpadded(Function& f, Kernel& k, const Target& target) {
  int64_t padded = k.attrs.get_int("unpadded");
  if (k.attrs.entries.erase("unpadded"))
    f.notes.push_back(
        {"plan_memory", k.name,
         fmt::format("tiles are not padded against bank conflicts: so they would need {:.1f} KB "
                     "of the {} KB of shared memory of a block",
                     double(padded) / 1024, target.shared_bytes / 1024),
         k.span, true});
}

// The tiles that lie one above the other, from the start of the memory to the end of what is needed.
Shortage shortage_of(const Function& f, const Kernel& k, const std::vector<Lifetime>& placed, int64_t needed,
                     const Target& target) {
  Shortage out{.kernel = size_t(&k - f.kernels.data()),
               .needed = needed,
               .given = target.shared_bytes,
               .chip = said(target)};
  auto end_of = [&](const Lifetime& l) { return f[l.buffer].address + l.bytes; };
  auto add = [&](const Lifetime& l) {
    const BufferInfo& info = f[l.buffer];
    out.tiles.push_back({l.buffer, info.name, bytes_of(info), unpadded_bytes(info), info.span, info.shape});
  };
  const Lifetime* top = nullptr;
  for (auto& l : placed)
    if (!top || end_of(l) > end_of(*top)) top = &l;
  for (const Lifetime* above = top; above;) {
    add(*above);
    const Lifetime* below = nullptr;
    for (auto& l : placed)
      if (end_of(l) <= f[above->buffer].address && (!below || end_of(l) > end_of(*below))) below = &l;
    above = below;
  }
  std::ranges::reverse(out.tiles);
  out.others = placed.size() - out.tiles.size();
  return out;
}

}  // namespace

Function plan_memory(Function f, const Target& target) {
  for (Kernel& k : f.kernels) {
    Varying varying{.f = f};
    if (k.thread) varying.vars.emplace(k.thread.get(), "the thread index");
    varying.find(k.body);
    Lifetimes lifetimes{.f = f, .target = target, .varying = varying};
    walk(
        k.body, {.team = whole_block(k)},
        [&](const Stmt& s, const WalkContext& at) {
          lifetimes.enter(s, at);
          return true;
        },
        [&](const Stmt& s, const WalkContext&) { lifetimes.leave(s); });
    lifetimes.finish();
    bool share = target.has_threads();
    int64_t needed = place_tightly(f, k, lifetimes.found, share, target.shared_bytes);
    bool second_slots = k.attrs.entries.erase("two_slots_beside") > 0;
    if (needed > target.shared_bytes) {
      Shortage s = shortage_of(f, k, lifetimes.found, needed, target);
      s.padding = fits_unpadded(f, k, lifetimes.found, share, target.shared_bytes);
      s.second_slots = second_slots;
      throw TilesTooLarge(std::move(s));
    }
    note_unpadded(f, k, target);
    for (BufferInfo& b : f.buffers)
      if (b.alias_of && lifetimes.at.contains(b.alias_of)) b.address = f[b.alias_of].address;
  }
  return f;
}

}  // namespace tl
