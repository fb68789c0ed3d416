#include "sim/undefined.h"

#include <algorithm>

#include "sim/race_detector.h"
#include "sim/steps.h"

namespace tl::sim {
namespace {

void add(Undefined& to, const Undefined& from) {
  for_lanes(from.lanes & ~to.lanes, [&](int lane) { to.origins[size_t(lane)] = from.origins[size_t(lane)]; });
  to.lanes |= from.lanes;
}

auto find_slot(Warp& w, int32_t slot) {
  return std::ranges::find_if(w.undefined, [&](auto& u) { return u.slot == slot; });
}

Undefined undefined_at(Warp& w, int32_t slot) {
  auto it = find_slot(w, slot);
  return it == w.undefined.end() ? Undefined{slot} : *it;
}

void set(Warp& w, int32_t slot, Undefined found) {
  found.slot = slot;
  auto it = find_slot(w, slot);
  if (it == w.undefined.end()) {
    if (found.lanes) w.undefined.push_back(found);
  } else if (found.lanes) {
    *it = found;
  } else {
    w.undefined.erase(it);
  }
}

void add_undefined(Warp& w, int32_t slot, LaneMask lanes, const Origin& origin) {
  Undefined all = undefined_at(w, slot), more{slot, lanes};
  more.origins.fill(origin);
  add(all, more);
  set(w, slot, all);
}

void use(Warp& w, const Undefined& found, LaneMask lanes, int32_t site, const char* how) {
  for_lanes(found.lanes & lanes, [&](int lane) {
    w.block->race_detector->undefined(w, lane, found.origins[size_t(lane)], site, how);
  });
}

// What does not fit the integer that it is cast to.
void add_misfits(Warp& w, const Operation& o, int32_t e, Undefined& to) {
  const Scalar* value = w.slot(o.a + e);
  bool alike = o.count == 1;
  for_lanes(w.whole() & ~to.lanes, [&](int lane) {
    double v = value[alike ? 0 : lane].d;
    if (fits_integer(v, o.type)) return;
    to.lanes |= lane_bit(lane);
    to.origins[size_t(lane)] = {.site = o.site, .cast = o.type, .value = v};
  });
}

// What element e of an operation's result is made of.
Undefined made_of(Warp& w, const Operation& o, int32_t e) {
  Undefined all{o.to + e};
  if (o.defines) return all;
  if (o.run == repeat || o.run == ramp) {
    add(all, undefined_at(w, o.a));
    if (o.run == ramp) add(all, undefined_at(w, o.b));
  } else if (o.run == select) {
    LaneMask cond = lanes_where(w, o.a + e);
    Undefined a = undefined_at(w, o.b + e), b = undefined_at(w, o.c + e);
    a.lanes &= cond;
    b.lanes &= ~cond;
    for (auto& u : {undefined_at(w, o.a + e), a, b}) add(all, u);
  } else if (o.run == scalar_call) {
    for (auto& arg : w.code->calls[size_t(o.row)].args) add(all, undefined_at(w, arg.slot + e));
  } else {
    for (int32_t operand : {o.a, o.b, o.c})
      if (operand >= 0) add(all, undefined_at(w, operand + e));
    if (o.run == to_integer) add_misfits(w, o, e, all);
  }
  return all;
}

void follow_store(Warp& w, const Operation& o) {
  const Place& p = w.code->places[size_t(o.row)];
  LaneMask lanes = o.b < 0 ? w.active : w.active & lanes_where(w, o.b);
  bool registers = p.scope == Scope::fragment || p.scope == Scope::local;
  for (int32_t e = 0; e < o.count; e += w.lane_count()) {
    Undefined value = undefined_at(w, o.c + e);
    value.lanes &= lanes;
    if (!value.lanes) continue;
    if (p.scope == Scope::global) {
      use(w, value, lanes, o.site, "is stored here");
      continue;
    }
    int64_t element = p.type.bytes();
    for_lanes(value.lanes, [&](int lane) {
      int64_t offset = (w.slot(o.a)[o.uniform_index ? 0 : lane].i + e / w.lane_count()) * element;
      if (registers)
        w.block->race_detector->forget_registers(w, p, offset, element, lane, value.origins[size_t(lane)]);
      else
        w.block->race_detector->forget_shared(w, p, offset, element, value.origins[size_t(lane)]);
    });
  }
}

}  // namespace

void add_undefined(Warp& w, const Operation& o, int64_t element, const Holes& holes) {
  for (auto& hole : holes)
    for (int64_t e = std::max<int64_t>(0, hole.at) / element;
         e * element < hole.at + hole.bytes && e * w.lane_count() < o.count; e++)
      add_undefined(w, o.to + int32_t(e) * w.lane_count(), hole.lanes, hole.origin);
}

void clear_undefined(Warp& w, int32_t slot, int32_t count) {
  std::erase_if(w.undefined, [&](auto& u) { return u.slot >= slot && u.slot < slot + count; });
}

void follow_shuffle(Warp& w, const CallSite& site, LaneMask lanes,
                    const std::array<int8_t, max_lanes>& source) {
  LaneMask asked = 0;
  for_lanes(lanes, [&](int lane) { asked |= lane_bit(source[size_t(lane)]); });
  if (w.undefined.empty() && (asked & ~lanes) == 0) return;
  int32_t from = site.args[0].slot;
  Undefined taken = undefined_at(w, from), made{site.to};
  for_lanes(lanes, [&](int lane) {
    size_t other = size_t(source[size_t(lane)]);
    bool takes_part = has_lane(lanes, other);
    if (takes_part && !has_lane(taken.lanes, other)) return;
    made.lanes |= lane_bit(lane);
    made.origins[size_t(lane)] =
        takes_part ? taken.origins[other] : Origin{.place = -1, .index = int64_t(other), .site = site.site};
  });
  clear_undefined(w, site.to, w.lane_count());
  set(w, site.to, made);
}

void check_index(Warp& w, const Operation& o) {
  bool loads = o.effect == Operation::Effect::load;
  if (o.quiet || (!loads && o.effect != Operation::Effect::store)) return;
  if (o.b >= 0) use(w, undefined_at(w, o.b), w.active, o.site, "decides whether this happens");
  LaneMask lanes = o.b < 0 ? w.active : w.active & lanes_where(w, o.b);
  use(w, undefined_at(w, o.a), lanes, o.site, loads ? "is the index of a load" : "is the index of a store");
}

void RaceDetector::misfit(Warp& w, int lane, const Origin& origin, int32_t site, const char* how) {
  const Span& there = code.sites[size_t(site)].span;
  bool at_once = code.sites[size_t(origin.site)].stmt.get() == code.sites[size_t(site)].stmt.get();
  int32_t other_site = at_once ? -1 : site;
  if (findings.again(key(Finding::Kind::fault, origin.site, other_site, -1))) return;
  std::string line = there && !at_once ? fmt::format(" (line {})", there.line) : "";
  Finding f{.kind = Finding::Kind::fault,
            .text = fmt::format("{}, in {}, and a value computed from it {}{}; {}",
                                misfit_text(origin.value, origin.cast), describe_thread(w, lane), how, line,
                                misfit_help)};
  report(w, lane, std::move(f), origin.site, other_site);
}

void follow_undefined(Warp& w, const Operation& o, LaneMask active) {
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
      const Intrinsic& intrinsic = *site.intrinsic;
      Undefined all{site.to};
      // What a shuffle moves it has followed itself.
      bool is_shuffle =
          intrinsic.effect == Intrinsic::Effect::warp && intrinsic.result == Intrinsic::Result::same;
      for (size_t i = is_shuffle ? 1 : 0; i < site.args.size(); i++)
        if (!site.args[i].uniform) add(all, undefined_at(w, site.args[i].slot));
      use(w, all, active, o.site, "is used here");
      if (site.to >= 0 && !is_shuffle) set(w, site.to, {});
      return;
    }
    case Operation::Effect::compute:
      for (int32_t e = 0; e < o.count; e += w.lane_count()) set(w, o.to + e, made_of(w, o, e));
      return;
  }
}

}  // namespace tl::sim
