#include "sim/undefined.h"

#include <algorithm>

#include "sim/monitor.h"
#include "sim/steps.h"

namespace tl::sim {
namespace {

struct Found {
  Mask lanes = 0;
  Origin origin = {};
  void add(const Found& o) {
    if (!lanes) origin = o.origin;
    lanes |= o.lanes;
  }
};

Found undefined_at(const Warp& w, int32_t slot) {
  for (auto& u : w.undefined)
    if (u.slot == slot) return {u.lanes, u.origin};
  return {};
}

void set(Warp& w, int32_t slot, const Found& found) {
  auto it = std::find_if(w.undefined.begin(), w.undefined.end(), [&](auto& u) { return u.slot == slot; });
  if (it == w.undefined.end()) {
    if (found.lanes) w.undefined.push_back({slot, found.lanes, found.origin});
  } else if (found.lanes) {
    *it = {slot, found.lanes, found.origin};
  } else {
    w.undefined.erase(it);
  }
}

Mask where_true(Warp& w, int32_t slot) {
  Mask mask = 0;
  for (int lane = 0; lane < lane_count; lane++) mask |= Mask(w.slot(slot)[lane].i != 0) << lane;
  return mask;
}

void use(Warp& w, const Found& found, Mask lanes, int32_t site, const char* how) {
  if (Mask used = found.lanes & lanes) w.block->monitor->undefined(w, __builtin_ctz(used), found.origin, site, how);
}

// What element e of an operation's result is made of.
Found made_of(Warp& w, const Operation& o, int32_t e) {
  Found all;
  if (o.run == repeat || o.run == ramp) {
    all.add(undefined_at(w, o.a));
    if (o.run == ramp) all.add(undefined_at(w, o.b));
  } else if (o.run == select) {
    Mask cond = where_true(w, o.a + e);
    Found a = undefined_at(w, o.b + e), b = undefined_at(w, o.c + e);
    a.lanes &= cond;
    b.lanes &= ~cond;
    for (auto& f : {undefined_at(w, o.a + e), a, b}) all.add(f);
  } else if (o.run == scalar_call) {
    for (auto& arg : w.code->calls[size_t(o.row)].args) all.add(undefined_at(w, arg.slot + e));
  } else {
    for (int32_t operand : {o.a, o.b, o.c})
      if (operand >= 0) all.add(undefined_at(w, operand + e));
  }
  return all;
}

void follow_store(Warp& w, const Operation& o) {
  const Place& p = w.code->places[size_t(o.row)];
  Mask lanes = o.b < 0 ? w.active : w.active & where_true(w, o.b);
  bool registers = p.scope == Scope::fragment || p.scope == Scope::local;
  for (int32_t e = 0; e < o.count; e += lane_count) {
    Found value = undefined_at(w, o.c + e);
    value.lanes &= lanes;
    if (!value.lanes) continue;
    if (p.scope == Scope::global) {
      use(w, value, lanes, o.site, "is stored here");
      continue;
    }
    int64_t element = p.type.bytes();
    for_lanes(value.lanes, [&](int lane) {
      int64_t offset = (w.slot(o.a)[o.uniform_index ? 0 : lane].i + e / lane_count) * element;
      if (registers)
        w.block->monitor->forget_registers(w, p, offset, element, lane, value.origin);
      else
        w.block->monitor->forget_shared(w, p, offset, element);
    });
  }
}

}  // namespace

void add_undefined(Warp& w, int32_t slot, Mask lanes, const Origin& origin) {
  Found all = undefined_at(w, slot);
  all.add({lanes, origin});
  set(w, slot, all);
}

void clear_undefined(Warp& w, int32_t slot, int32_t count) {
  std::erase_if(w.undefined, [&](auto& u) { return u.slot >= slot && u.slot < slot + count; });
}

void follow_shuffle(Warp& w, const CallSite& site, Mask lanes, const std::array<int8_t, lane_count>& source) {
  int32_t from = site.args[0].slot;
  std::vector<Undefined> made;
  for (auto& u : w.undefined) {
    if (u.slot != from) continue;
    Undefined moved{site.to, 0, u.origin};
    for_lanes(lanes, [&](int lane) { moved.lanes |= (u.lanes >> source[size_t(lane)] & 1) << lane; });
    made.push_back(moved);
  }
  for_lanes(lanes, [&](int lane) {
    int64_t other = source[size_t(lane)];
    if (lanes >> other & 1) return;
    made.push_back({site.to, Mask(1) << lane, {.place = -1, .index = other, .site = site.site}});
  });
  clear_undefined(w, site.to, lane_count);
  for (auto& u : made) add_undefined(w, u.slot, u.lanes, u.origin);
}

void check_index(Warp& w, const Operation& o) {
  bool loads = o.effect == Operation::Effect::load;
  if (!loads && o.effect != Operation::Effect::store) return;
  if (o.b >= 0) use(w, undefined_at(w, o.b), w.active, o.site, "decides whether this happens");
  Mask lanes = o.b < 0 ? w.active : w.active & where_true(w, o.b);
  use(w, undefined_at(w, o.a), lanes, o.site, loads ? "is the index of a load" : "is the index of a store");
}

void follow_undefined(Warp& w, const Operation& o, Mask active) {
  switch (o.effect) {
    case Operation::Effect::none:
    case Operation::Effect::arms:  // the select that ends them says what comes of it
      return;
    case Operation::Effect::branch:
      if (o.a >= 0 && o.count != 1) use(w, undefined_at(w, o.a), active, o.site, "decides what runs");
      return;
    case Operation::Effect::load:  // its value it has set itself
      return;
    case Operation::Effect::store:
      return follow_store(w, o);
    case Operation::Effect::call: {
      const CallSite& site = w.code->calls[size_t(o.row)];
      const Callee& callee = *site.callee;
      Found all;
      // What a shuffle moves it has followed itself.
      bool is_shuffle = callee.effect == Callee::Effect::warp && callee.result == Callee::Result::same;
      for (size_t i = is_shuffle ? 1 : 0; i < site.args.size(); i++)
        if (!site.args[i].uniform) all.add(undefined_at(w, site.args[i].slot));
      use(w, all, active, o.site, "is used here");
      if (site.to >= 0 && !is_shuffle) set(w, site.to, Found());
      return;
    }
    case Operation::Effect::compute:
      for (int32_t e = 0; e < o.count; e += lane_count) set(w, o.to + e, made_of(w, o, e));
      return;
  }
}

}  // namespace tl::sim
