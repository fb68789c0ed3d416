// Loads and stores: every address is computed and every access checked, lane by lane; inactive and masked
// lanes touch nothing, and a masked load gives 0.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "sim/elements.h"
#include "sim/performance_counters.h"
#include "sim/race_detector.h"
#include "sim/steps.h"
#include "sim/undefined.h"

namespace tl::sim {
namespace {

// Which elements of a buffer there are, and where; of a fragment or local buffer, those of lane 0.
struct Reach {
  int64_t first = 0, end = 0;
  std::byte* base = nullptr;  // element 0
};

// What lies around an address that the program computed or was given: all of the argument that holds it.
Reach reach_of_address(const Warp& w, const Place& p, int lane) {
  auto* base = reinterpret_cast<std::byte*>(uintptr_t(w.registers[size_t(p.made_at + lane)].i));
  for (auto& e : w.block->arguments)
    if (base >= e.begin && base < e.end)
      return {-((base - e.begin) / p.type.bytes()), (e.end - base) / p.type.bytes(), base};
  return {0, 0, base};
}

Reach reach_of(Warp& w, const Place& p, int lane) {
  if (p.made_at >= 0) return reach_of_address(w, p, lane);
  if (p.scope == Scope::global) {
    const Tensor& t = w.block->tensors[p.id];
    return {t.low, t.high, t.data};
  }
  return {0, p.elements, (p.scope == Scope::shared ? w.block->shared : w.lanes.data()) + p.address};
}

void outside(Warp& w, const Place& p, int lane, int64_t index, int64_t count, int32_t site) {
  const Strayed& s = w.strayed;
  if (s.site == site && s.place == p.number && has_lane(s.lanes, lane)) return;
  if (w.block->race_detector->again(Finding::Kind::outside, site, p.number)) return;
  auto [first, end, base] = reach_of(w, p, lane);
  Finding f{.kind = Finding::Kind::outside};
  f.buffer = p.name;
  f.index = index < first || index >= end ? index : end;
  if (p.made_at >= 0 && first == end) {
    f.text = fmt::format(
        "{} begins at the address {:#x}, which is not in a tensor argument of this call, in {}; the "
        "simulator can access only those: pass the tensor as an argument, too",
        p.name, reinterpret_cast<uintptr_t>(base), describe_thread(w, lane));
  } else {
    std::string vector = count > 1 ? fmt::format(" (of a vector of {} from {})", count, index) : "";
    f.text = fmt::format(
        "{}[{}]: element {}{} is outside [{}, {}) in {}; guard the access with an if, or make {} larger",
        p.name, f.index, f.index, vector, first, end, describe_thread(w, lane), p.name);
  }
  w.block->race_detector->report(w, lane, std::move(f), site, -1, p.number);
}

void misaligned(Warp& w, const Place& p, int lane, int64_t index, int64_t bytes, int32_t site) {
  if (w.block->race_detector->again(Finding::Kind::misaligned, site, p.number)) return;
  Finding f{.kind = Finding::Kind::misaligned,
            .text = fmt::format("{}[{}]: one access of {} bytes, but the address is not divisible by {}, in "
                                "{}; access fewer elements at once, or align where the row begins",
                                p.name, index, bytes, bytes, describe_thread(w, lane))};
  f.buffer = p.name;
  f.index = index;
  w.block->race_detector->report(w, lane, std::move(f), site, -1, p.number);
}

// What an access outside of memory gives, and where it leaves what it writes.
constexpr int64_t most_bytes = 1024;
std::byte* nowhere(DType type) {
  thread_local std::byte bytes[most_bytes];
  poison(bytes, most_bytes, type);
  return bytes;
}

// What an access of all lanes needs to know of its buffer, found once.
struct Accessor {
  Warp& w;
  const Operation& o;
  const Place& place;
  Reach reach = {};
  int64_t lane_stride, element, count, bytes;  // count: elements of a lane
  int64_t chunk = 0;                           // bytes that one access takes at once; 0: element by element
  bool watched;
  PerformanceCounters* counters;

  Accessor(Warp& w, const Operation& o, int64_t element)
      : w(w),
        o(o),
        place(w.code->places[size_t(o.row)]),
        lane_stride(place.scope == Scope::global || place.scope == Scope::shared ? 0 : w.code->lane_bytes),
        element(element),
        count(w.code->elements_of(o.count)),
        bytes(count * element),
        watched(w.block->watch && !o.quiet && (lane_stride || w.block->race_detector->is_watched(place))),
        counters(lane_stride || o.quiet ? nullptr : w.block->counters) {
    reach = reach_of(w, place, 0);
    int64_t widest = w.code->vector_bytes;
    bool wide = lane_stride == 0 && bytes > element, power = (bytes & (bytes - 1)) == 0;
    if (wide) chunk = bytes > widest ? (bytes % widest ? 0 : widest) : power ? bytes : 0;
  }
  std::byte* at(int lane, int64_t index) const {
    const Reach here = place.made_at >= 0 ? reach_of(w, place, lane) : reach;
    if (index < here.first || index + count > here.end) {
      if (!o.quiet) outside(w, place, lane, index, count, o.site);
      return nullptr;
    }
    std::byte* address = here.base + index * element + lane * lane_stride;
    if (chunk && reinterpret_cast<uintptr_t>(address) % uintptr_t(chunk))
      misaligned(w, place, lane, index, chunk, o.site);
    return address;
  }
  // Of registers: where lane 0's are, the others behind it, all checked by one of the threads that take part.
  std::byte* of_first(LaneMask active, int64_t index) const {
    int lane = first_lane(active);
    std::byte* address = at(lane, index);
    return address ? address - lane * lane_stride : nullptr;
  }
  // f(slot, element): in registers of all lanes, from those of lane 0 on.
  template <class Byte, class F>
  void each_lane(Byte* at, F f) const {
    const int64_t stride = lane_stride;
    const int32_t slots = o.count, lanes = w.lane_count();
    for (int32_t slot = 0; slot < slots; at += element)
      for (int32_t lane = 0; lane < lanes; lane += lane_group, slot += lane_group)
        for (int32_t i = 0; i < lane_group; i++) f(slot + i, at + (lane + i) * stride);
  }
  void note_store(int lane, int64_t index, const std::byte* at, bool same) const {
    if (!watched) return;
    if (lane_stride)
      w.block->race_detector->registers(w, place, index * element, bytes, lane_bit(lane), true, o.site);
    else
      w.block->race_detector->access(w, place, lane, at, bytes, Touch::write, o.site, same);
  }
  // What these lanes read of memory; of registers all at the same index.
  void note_load(LaneMask lanes, int64_t index, const std::byte* at) const {
    if (!watched) return;
    Holes holes;
    if (lane_stride)
      holes = w.block->race_detector->unwritten_registers(w, place, index * element, bytes, lanes, o.site);
    else
      w.block->race_detector->access(w, place, first_lane(lanes), at, bytes, Touch::read, o.site, false,
                                     nullptr, &holes);
    if (!holes.empty()) add_undefined(w, o, element, holes);
  }
  void note_all(LaneMask lanes, int64_t index, bool writes) const {
    if (watched) w.block->race_detector->registers(w, place, index * element, bytes, lanes, writes, o.site);
  }
};

LaneMask taking_part(Warp& w, const Operation& o) {
  return o.b < 0 ? w.active : w.active & lanes_where(w, o.b);
}

template <class T, bool uniform>
void load(Warp& w, const Operation& o) {
  Accessor access(w, o, T::bytes);
  if (!w.undefined.empty()) clear_undefined(w, o.to, o.count);
  const Scalar* index = w.slot(o.a);
  Scalar* to = w.slot(o.to);
  LaneMask active = taking_part(w, o);
  if (active != w.active) std::fill(to, to + o.count, Scalar());
  if (uniform && access.lane_stride && active && active == w.active) {  // a register: one question for all
    const std::byte* at = access.of_first(active, index->i);
    if (!at) return;
    access.note_load(active, index->i, at);
    access.each_lane(at, [&](int32_t slot, const std::byte* element) { to[slot] = T::get(element); });
    return;
  }
  PerformanceCounters::Addresses addresses(access.counters);
  int32_t lanes = w.lane_count();
  for_lanes(active, [&](int lane) {
    int64_t i = index[uniform ? 0 : lane].i;
    const std::byte* at = access.at(lane, i);
    if (at) access.note_load(lane_bit(lane), i, at);
    addresses.set(lane, at);
    if (!at) at = nowhere(access.place.type);
    for (int32_t e = lane; e < o.count; e += lanes, at += T::bytes) to[e] = T::get(at);
  });
  addresses.count(w, access.place, access.bytes, o.site, Counter::Kind::load);
}

template <class T, bool uniform>
void store(Warp& w, const Operation& o) {
  Accessor access(w, o, T::bytes);
  const Scalar *index = w.slot(o.a), *value = w.slot(o.c);
  LaneMask active = taking_part(w, o);
  if (uniform && access.lane_stride && active == w.whole()) {
    std::byte* at = access.of_first(active, index->i);
    if (!at) return;
    access.note_all(active, index->i, true);
    access.each_lane(at, [&](int32_t slot, std::byte* element) { T::put(element, value[slot]); });
    return;
  }
  PerformanceCounters::Addresses addresses(access.counters);
  int32_t lanes = w.lane_count();
  bool compared = access.watched && !access.lane_stride && access.bytes <= most_bytes;
  for_lanes(active, [&](int lane) {
    int64_t i = index[uniform ? 0 : lane].i;
    std::byte* to = access.at(lane, i);
    addresses.set(lane, to);
    if (!to) return;
    std::byte made[most_bytes], *at = compared ? made : to;
    for (int32_t e = lane; e < o.count; e += lanes, at += T::bytes) T::put(at, value[e]);
    access.note_store(lane, i, to, compared && !std::memcmp(made, to, size_t(access.bytes)));
    if (compared) std::memcpy(to, made, size_t(access.bytes));
    w.block->race_detector->memory_version += !access.lane_stride && !access.watched;
  });
  addresses.count(w, access.place, access.bytes, o.site, Counter::Kind::store);
}

}  // namespace

Run load_run(DType element, bool uniform_index) {
  return with_element(element, [&](auto t) -> Run {
    using T = decltype(t);
    return uniform_index ? load<T, true> : load<T, false>;
  });
}
Run store_run(DType element, bool uniform_index) {
  return with_element(element, [&](auto t) -> Run {
    using T = decltype(t);
    return uniform_index ? store<T, true> : store<T, false>;
  });
}

void address(Warp& w, const Operation& o) {
  const Place& place = w.code->places[size_t(o.row)];
  const Scalar* a = w.slot(o.a);
  Scalar* to = w.slot(o.to);
  for (int32_t i = 0; i < o.count; i++) to[i] = scalar(a[i].i * place.type.bytes());
}

void poison(std::byte* data, int64_t bytes, DType type) {
  std::memset(data, type.is_float() ? 0xFF : 0xCD, size_t(bytes));
}

void begin_buffer(Warp& w, const Operation& o) {
  const Place& place = w.code->places[size_t(o.row)];
  if (place.scope == Scope::shared) return;  // the whole block's: done before its first warp begins
  for_lanes(w.active, [&](int lane) {
    poison(w.lane_memory(lane) + place.address, place.elements * place.type.bytes(), place.type);
  });
  if (w.block->watch) w.block->race_detector->begin_registers(w, place, w.active);
}

Located locate(Warp& w, const Place& place, int lane, int64_t offset, int64_t bytes, int64_t alignment,
               int32_t site) {
  int64_t element = place.type.bytes();
  auto [first, end, base] = reach_of(w, place, lane);
  if (offset < first * element || offset + bytes > end * element) {
    outside(w, place, lane, offset / element, (bytes + element - 1) / element, site);
    return {nowhere(place.type), false};
  }
  bool registers = place.scope == Scope::fragment || place.scope == Scope::local;
  std::byte* at = base + offset + (registers ? lane * w.code->lane_bytes : 0);
  if (reinterpret_cast<uintptr_t>(at) % uintptr_t(alignment))
    misaligned(w, place, lane, offset / element, alignment, site);
  return {at, true};
}

int64_t elements_left(Warp& w, const Place& place, int lane, int64_t offset) {
  return reach_of(w, place, lane).end - offset / place.type.bytes();
}

}  // namespace tl::sim
