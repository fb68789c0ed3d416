#include "sim/wrapped.h"

#include <algorithm>

#include "base/error.h"
#include "ir/build.h"
#include "sim/race_detector.h"
#include "sim/steps.h"

namespace tl::sim {
namespace {

using Follow = Operation::Follow;
using Wide = __int128;

const Wrapped* wrapped_at(const Warp& w, int32_t slot) {
  auto it = std::ranges::find_if(w.wrapped, [&](auto& x) { return x.slot == slot; });
  return it == w.wrapped.end() ? nullptr : &*it;
}

void set(Warp& w, Wrapped found) {
  auto it = std::ranges::find_if(w.wrapped, [&](auto& x) { return x.slot == found.slot; });
  if (it == w.wrapped.end()) {
    if (found.lanes) w.wrapped.push_back(std::move(found));
  } else if (found.lanes) {
    *it = std::move(found);
  } else {
    w.wrapped.erase(it);
  }
}

void clear(Warp& w, int32_t slot, int32_t count) {
  std::erase_if(w.wrapped, [&](auto& x) { return x.slot >= slot && x.slot < slot + count; });
}

// An operand's lane: what it is, what it would be, and the wrap that parts the two (null: they are the same).
struct Lane {
  int64_t is;
  Wide exact;
  const Wrap* wrap;
};
Lane lane_of(Warp& w, const Wrapped* wrapped, int32_t slot, int lane) {
  int64_t is = w.slot(slot)[lane].i;
  if (!wrapped || !has_lane(wrapped->lanes, lane)) return {is, is, nullptr};
  const Wrap& wrap = wrapped->values[size_t(lane)];
  return {is, wrap.exact, &wrap};
}

int64_t saturated(Wide v) { return int64_t(std::clamp<Wide>(v, INT64_MIN, INT64_MAX)); }

Wide floor_quotient(Wide a, Wide b) {
  Wide q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

// Of a sum, a product and what else an index is made of; nothing where the result has no such value.
bool exact_result(const Operation& o, Wide a, Wide b, Wide& out) {
  switch (o.op) {
    case BinaryOp::add:
      return out = a + b, true;
    case BinaryOp::sub:
      return out = a - b, true;
    case BinaryOp::mul:
      return out = a * b, true;
    case BinaryOp::min:
      return out = std::min(a, b), true;
    case BinaryOp::max:
      return out = std::max(a, b), true;
    case BinaryOp::shl:
      return out = b >= 0 && b < 64 ? a * (Wide(1) << b) : 0, b >= 0 && b < 64;
    case BinaryOp::shr:
      return out = b >= 0 && b < 64 ? a >> b : 0, b >= 0 && b < 64;
    case BinaryOp::floordiv:
      return b != 0 && (out = floor_quotient(a, b), true);
    case BinaryOp::truncdiv:
      return b != 0 && (out = a / b, true);
    default:
      return false;
  }
}

// One element of the result, of what its operands' lanes hold: a slot per lane, or one where all agree.
struct Made {
  Warp& w;
  const Operation& o;
  Wrapped out;

  void lane(int i, Wide exact, std::initializer_list<const Wrap*> of) {
    int64_t is = w.slot(out.slot)[i].i;
    if (exact == is) return;
    const Wrap* from = nullptr;
    for (auto* wrap : of) from = from ? from : wrap;
    if (!from && !o.wraps) return;
    out.lanes |= lane_bit(i);
    Wrap fresh{.origin = &o, .made = saturated(exact), .kept = is};
    out.values[size_t(i)] = from ? *from : fresh;
    out.values[size_t(i)].exact = saturated(exact);
  }
  void decided(int i, const Wrap& by) {
    out.lanes |= lane_bit(i);
    out.values[size_t(i)] = by;
  }
};

void follow_logic(Warp& w, const Operation& o, Made& made, int32_t e, int lanes) {
  const Wrapped *x = wrapped_at(w, o.a + e), *y = o.b < 0 ? nullptr : wrapped_at(w, o.b + e);
  for (int i = 0; i < lanes; i++) {
    Lane a = lane_of(w, x, o.a + e, i), b = o.b < 0 ? Lane{} : lane_of(w, y, o.b + e, i);
    if (!a.wrap && !b.wrap) continue;
    bool decides =
        o.op == BinaryOp::logical_or;  // the value of one side with which the other one does not count
    bool a_alone = !a.wrap && bool(a.is) == decides, b_alone = o.b >= 0 && !b.wrap && bool(b.is) == decides;
    if (o.b < 0 || (!a_alone && !b_alone)) made.decided(i, a.wrap ? *a.wrap : *b.wrap);
  }
}

void follow_operator(Warp& w, const Operation& o, Made& made, int32_t e, int lanes) {
  const Wrapped *x = wrapped_at(w, o.a + e), *y = o.b < 0 ? nullptr : wrapped_at(w, o.b + e);
  if (!x && !y && !o.wraps) return;
  for (int i = 0; i < lanes; i++) {
    Lane a = lane_of(w, x, o.a + e, i), b = o.b < 0 ? Lane{0, 0, nullptr} : lane_of(w, y, o.b + e, i);
    Wide exact = 0;
    if (o.follow == Follow::compare) {
      if (a.wrap || b.wrap) made.decided(i, a.wrap ? *a.wrap : *b.wrap);
    } else if (o.follow == Follow::negate) {
      made.lane(i, -a.exact, {a.wrap});
    } else if (o.follow == Follow::convert) {
      made.lane(i, a.exact, {a.wrap});
    } else if (o.follow == Follow::address) {
      made.lane(i, a.exact * w.code->places[size_t(o.row)].type.bytes(), {a.wrap});
    } else if (exact_result(o, a.exact, b.exact, exact)) {
      made.lane(i, exact, {a.wrap, b.wrap});
    }
  }
}

void follow_select(Warp& w, const Operation& o, Made& made, int32_t e, int lanes) {
  const Wrapped *x = wrapped_at(w, o.b + e), *y = wrapped_at(w, o.c + e);
  const Wrapped* by = o.type.is_bool() ? wrapped_at(w, o.a + e) : nullptr;
  for (int i = 0; i < lanes; i++) {
    if (by && has_lane(by->lanes, i)) {
      made.decided(i, by->values[size_t(i)]);
      continue;
    }
    Lane taken = w.slot(o.a + e)[i].i ? lane_of(w, x, o.b + e, i) : lane_of(w, y, o.c + e, i);
    if (taken.wrap) made.decided(i, *taken.wrap);
  }
}

// Of one value to many: all lanes of a uniform one, all elements of a vector.
void follow_spread(Warp& w, const Operation& o, Made& made, int32_t e) {
  const Wrapped *x = wrapped_at(w, o.a), *y = o.follow == Follow::ramp ? wrapped_at(w, o.b) : nullptr;
  if (!x && !y) return;
  for (int i = 0; i < w.lane_count(); i++) {
    Lane a = lane_of(w, x, o.a, o.follow == Follow::splat ? 0 : i);
    Lane b = o.follow == Follow::ramp ? lane_of(w, y, o.b, i) : Lane{0, 0, nullptr};
    made.lane(i, a.exact + b.exact * (e / w.lane_count()), {a.wrap, b.wrap});
  }
}

void follow_compute(Warp& w, const Operation& o) {
  if (w.wrapped.empty() && !o.wraps) return;
  if (o.follow == Follow::none) return clear(w, o.to, o.count);
  int lanes = o.count == 1 ? 1 : w.lane_count();
  for (int32_t e = 0; e < o.count; e += w.lane_count()) {
    Made made{.w = w, .o = o, .out = {.slot = o.to + e}};
    switch (o.follow) {
      case Follow::logic:
        follow_logic(w, o, made, e, lanes);
        break;
      case Follow::select:
        follow_select(w, o, made, e, lanes);
        break;
      case Follow::splat:
      case Follow::repeat:
      case Follow::ramp:
        follow_spread(w, o, made, e);
        break;
      default:
        follow_operator(w, o, made, e, lanes);
    }
    set(w, std::move(made.out));
  }
}

// ── findings ──────────────────────────────────────────────────────────────────────────────────────────
// x + x has become x * 2 by now: where the line has no `*`, the words are those of what stands there.
std::string_view name_of(const Operation& o, const Span& at) {
  if (o.follow == Follow::negate) return "negation";
  if (o.follow == Follow::convert) return "value";
  if (o.op == BinaryOp::mul) {
    std::string line = render_source(at);
    bool is_other = !line.empty() && line.find('*') == std::string::npos;
    if (is_other && line.find('+') != std::string::npos) return "sum";
    return is_other && line.find("<<") != std::string::npos ? "shift" : "product";
  }
  return o.op == BinaryOp::add ? "sum" : o.op == BinaryOp::sub ? "difference" : "shift";
}

// `index`: of the access that happens there, else a condition that it decided has left it out.
void report(Warp& w, int lane, const Wrap& wrap, int32_t place, int32_t site, const int64_t* index) {
  const Code& code = *w.code;
  const Place& p = code.places[size_t(place)];
  const Operation& o = *wrap.origin;
  const Span &here = code.sites[size_t(o.site)].span, &there = code.sites[size_t(site)].span;
  bool same_line = here.line == there.line;
  std::string line = !there || same_line ? "" : fmt::format(" on line {}", there.line);
  std::string use = index ? fmt::format("it becomes the index of {}[{}]{}", p.name, *index, line)
                          : fmt::format("a condition on it then leaves out the access to {}{}", p.name, line);
  int wider = o.type.bits < 32 && wrap.made == int32_t(wrap.made) ? 32 : 64;
  Finding f{.kind = Finding::Kind::overflow,
            .text = fmt::format("this {0} exceeds {1} bits: its value is {3}, but {4} keeps {5}, in {6}, and "
                                "{7}; compute it in {2} bits (make its operands int{2})",
                                name_of(o, here), o.type.bits, wider, wrap.made, to_string(o.type), wrap.kept,
                                describe_thread(w, lane), use)};
  f.buffer = p.name;
  if (index) f.index = *index;
  w.block->race_detector->report(w, lane, std::move(f), o.site, same_line ? -1 : site, p.number);
}

// ── memory ────────────────────────────────────────────────────────────────────────────────────────────
const std::vector<bool>& accesses_of(Warp& w, const Wrap& wrap) {
  auto [it, fresh] = w.block->reached.try_emplace(wrap.origin);
  if (fresh) it->second = reached_by(*w.code, *wrap.origin);
  return it->second;
}

// The accesses to an element by which `lanes` of a warp wrap, and that a condition has kept from these
// others.
void check_access(Warp& w, const Operation& o, LaneMask active) {
  const Wrapped* at = wrapped_at(w, o.a);
  LaneMask happens = active & (o.b < 0 ? ~LaneMask(0) : lanes_where(w, o.b));
  if (at)
    for_lanes(happens, [&](int lane) {
      int i = o.uniform_index ? 0 : lane;
      if (has_lane(at->lanes, i)) report(w, lane, at->values[size_t(i)], o.row, o.site, &w.slot(o.a)[i].i);
    });
  const Wrapped* mask = o.b < 0 ? nullptr : wrapped_at(w, o.b);
  if (mask)
    for_lanes(active & ~happens & mask->lanes, [&](int lane) {
      const Wrap& wrap = mask->values[size_t(lane)];
      if (accesses_of(w, wrap)[size_t(&o - w.code->operations.data())])
        report(w, lane, wrap, o.row, o.site, nullptr);
    });
}

void check_call(Warp& w, const Operation& o, LaneMask active) {
  for (auto& arg : w.code->calls[size_t(o.row)].args) {
    const Wrapped* at = arg.place < 0 ? nullptr : wrapped_at(w, arg.slot);
    if (!at) continue;
    for_lanes(active, [&](int lane) {
      int i = arg.uniform ? 0 : lane;
      int64_t index = w.slot(arg.slot)[i].i / w.code->places[size_t(arg.place)].type.bytes();
      if (has_lane(at->lanes, i)) report(w, lane, at->values[size_t(i)], arg.place, o.site, &index);
    });
  }
}

// What a branch does not run for lanes whose condition has wrapped: accesses by the same value.
void check_skipped(Warp& w, LaneMask lanes, const Wrapped& by, bool uniform, size_t begin, size_t end) {
  const auto& all = w.code->operations;
  for_lanes(lanes, [&](int lane) {
    int i = uniform ? 0 : lane;
    if (!has_lane(by.lanes, i)) return;
    const Wrap& wrap = by.values[size_t(i)];
    const std::vector<bool>& reached = accesses_of(w, wrap);
    for (size_t at = begin; at < end && at < all.size(); at++) {
      if (!reached[at]) continue;
      int32_t place = all[at].row;
      if (all[at].effect == Operation::Effect::call)
        for (auto& arg : w.code->calls[size_t(place)].args)
          if (arg.place >= 0) place = arg.place;
      return report(w, lane, wrap, place, all[at].site, nullptr);
    }
  });
}

void check_branch(Warp& w, const Operation& o, LaneMask active) {
  bool asks = o.run == narrow || o.run == narrow_on;
  const Wrapped* cond = asks ? wrapped_at(w, o.a) : nullptr;
  if (!cond) return;
  bool uniform = o.count == 1;
  const auto& all = w.code->operations;
  size_t at = size_t(&o - all.data()), other = at + size_t(o.jump);
  LaneMask holds = !uniform ? lanes_where(w, o.a) : w.slot(o.a)->i ? ~LaneMask(0) : 0;
  check_skipped(w, active & ~holds, *cond, uniform, at, other);
  if (o.run == narrow && other < all.size() && all[other].run == narrow_else)
    check_skipped(w, active & holds, *cond, uniform, other, other + size_t(all[other].jump));
}

// A buffer of the block keeps what was stored there.
std::map<int64_t, Wrap>& memory_of(Warp& w, const Place& p, int lane) {
  return p.scope == Scope::shared ? w.block->wrapped : w.wrapped_memory[size_t(lane)];
}

void follow_store(Warp& w, const Operation& o, LaneMask active) {
  const Place& p = w.code->places[size_t(o.row)];
  if (p.scope == Scope::global || o.quiet) return;
  LaneMask lanes = active & (o.b < 0 ? ~LaneMask(0) : lanes_where(w, o.b));
  for (int32_t e = 0; e < o.count; e += w.lane_count()) {
    const Wrapped* value = wrapped_at(w, o.c + e);
    for_lanes(lanes, [&](int lane) {
      auto& memory = memory_of(w, p, lane);
      bool has = value && has_lane(value->lanes, lane);
      if (!has && memory.empty()) return;
      int64_t byte =
          p.address + (w.slot(o.a)[o.uniform_index ? 0 : lane].i + e / w.lane_count()) * p.type.bytes();
      if (has)
        memory[byte] = value->values[size_t(lane)], w.block->holds_wrapped = true;
      else
        memory.erase(byte);
    });
  }
}

void follow_load(Warp& w, const Operation& o, LaneMask active) {
  clear(w, o.to, o.count);
  const Place& p = w.code->places[size_t(o.row)];
  if (p.scope == Scope::global || !p.type.is_int()) return;
  LaneMask lanes = active & (o.b < 0 ? ~LaneMask(0) : lanes_where(w, o.b));
  for (int32_t e = 0; e < o.count; e += w.lane_count()) {
    Wrapped found{.slot = o.to + e};
    for_lanes(lanes, [&](int lane) {
      auto& memory = memory_of(w, p, lane);
      if (memory.empty()) return;
      int64_t byte =
          p.address + (w.slot(o.a)[o.uniform_index ? 0 : lane].i + e / w.lane_count()) * p.type.bytes();
      auto it = memory.find(byte);
      if (it == memory.end()) return;
      found.lanes |= lane_bit(lane);
      found.values[size_t(lane)] = it->second;
    });
    set(w, std::move(found));
  }
}

// A loop's variable begins where its bounds say, and goes on from there.
void follow_loop(Warp& w, const Operation& o) {
  bool begins = o.run == for_begin || o.run == lanes_begin;
  const Wrapped* from = wrapped_at(w, begins ? o.a : o.to);
  if (!from) return clear(w, o.to, 1);
  Wrapped next = *from;
  next.slot = o.to;
  if (!begins)
    for (Wrap& v : next.values) v.exact += v.exact < INT64_MAX;
  set(w, std::move(next));
}

}  // namespace

void check_wrapped(Warp& w, const Operation& o) {
  if (!w.block->watch || o.quiet) return;
  switch (o.effect) {
    case Operation::Effect::load:
    case Operation::Effect::store:
      return check_access(w, o, w.active);
    case Operation::Effect::call:
      return check_call(w, o, w.active);
    case Operation::Effect::arms:
    case Operation::Effect::branch:
      return check_branch(w, o, w.active);
    case Operation::Effect::none:
    case Operation::Effect::compute:
      return;
  }
}

void follow_wrapped(Warp& w, const Operation& o, LaneMask active) {
  if (!w.block->watch) return;
  switch (o.effect) {
    case Operation::Effect::load:
      return follow_load(w, o, active);
    case Operation::Effect::store:
      return follow_store(w, o, active);
    case Operation::Effect::call:
      if (int32_t to = w.code->calls[size_t(o.row)].to; to >= 0) clear(w, to, w.lane_count());
      return;
    case Operation::Effect::compute:
      return follow_compute(w, o);
    case Operation::Effect::none:
    case Operation::Effect::arms:
    case Operation::Effect::branch:
      if (o.run == for_begin || o.run == lanes_begin || o.run == for_next || o.run == lanes_next)
        follow_loop(w, o);
  }
}

}  // namespace tl::sim
