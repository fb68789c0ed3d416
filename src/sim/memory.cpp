// Loads and stores: every address is computed and every access checked, lane by lane; what is inactive or
// masked touches nothing, and a masked load gives 0.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "sim/elements.h"
#include "sim/steps.h"

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

[[noreturn]] void outside(Warp& w, const Place& p, int lane, int64_t index, int64_t count, Span span) {
  auto [first, end, base] = reach_of(w, p, lane);
  if (p.made_at >= 0 && first == end)
    fail(span, "{} begins at the address {:#x}, which lies in no tensor argument of this call, in {}; the simulator "
               "reaches those only: pass the tensor as an argument, too", p.name, reinterpret_cast<uintptr_t>(base),
         describe_thread(w, lane));
  int64_t wrong = index < first || index >= end ? index : end;
  std::string vector = count > 1 ? fmt::format(" (of a vector of {} from {})", count, index) : "";
  fail(span, "{}[{}]: element {}{} is outside [{}, {}) in {}; guard the access with an if, or make {} larger",
       p.name, wrong, wrong, vector, first, end, describe_thread(w, lane), p.name);
}

[[noreturn]] void misaligned(const Warp& w, const Place& p, int lane, int64_t index, int64_t bytes,
                             Span span) {
  fail(span,
       "{}[{}]: one access of {} bytes, but the address is not divisible by {}, in {}; access fewer elements "
       "at once, "
       "or align where the row begins",
       p.name, index, bytes, bytes, describe_thread(w, lane));
}

// What an access of all lanes needs to know of its buffer, found once.
struct Accessor {
  Warp& w;
  const Operation& o;
  const Place& place;
  Reach reach = {};
  int64_t lane_stride, element;
  int64_t chunk = 0;  // bytes that one access takes at once; 0: element by element

  Accessor(Warp& w, const Operation& o, int64_t element)
      : w(w),
        o(o),
        place(w.code->places[size_t(o.row)]),
        lane_stride(place.scope == Scope::global || place.scope == Scope::shared ? 0 : w.code->lane_bytes),
        element(element) {
    reach = reach_of(w, place, 0);
    int64_t bytes = o.count / lane_count * element, widest = w.code->vector_bytes;
    bool wide = lane_stride == 0 && bytes > element, power = (bytes & (bytes - 1)) == 0;
    if (wide) chunk = bytes > widest ? (bytes % widest ? 0 : widest) : power ? bytes : 0;
  }
  Span span() const { return w.code->spans[size_t(o.span)]; }
  std::byte* at(int lane, int64_t index) const {
    int64_t count = o.count / lane_count;
    const Reach here = place.made_at >= 0 ? reach_of(w, place, lane) : reach;
    if (index < here.first || index + count > here.end) outside(w, place, lane, index, count, span());
    std::byte* address = here.base + index * element + lane * lane_stride;
    if (chunk && reinterpret_cast<uintptr_t>(address) % uintptr_t(chunk))
      misaligned(w, place, lane, index, chunk, span());
    return address;
  }
  // Of registers: where lane 0's are, the others behind it, all checked by one of the threads that take part.
  std::byte* of_first(Mask active, int64_t index) const {
    int lane = __builtin_ctz(active);
    return at(lane, index) - lane * lane_stride;
  }
};

Mask taking_part(Warp& w, const Operation& o) {
  if (o.b < 0) return w.active;
  const Scalar* mask = w.slot(o.b);
  Mask all = 0;
  for (int lane = 0; lane < lane_count; lane++) all |= Mask(mask[lane].i != 0) << lane;
  return all & w.active;
}

template <class T, bool uniform>
void load(Warp& w, const Operation& o) {
  Accessor access(w, o, T::bytes);
  const Scalar* index = w.slot(o.a);
  Scalar* to = w.slot(o.to);
  Mask active = taking_part(w, o);
  if (active != w.active) std::fill(to, to + o.count, Scalar());
  if (uniform && access.lane_stride && active && active == w.active) {  // a register: one question for all
    const std::byte* at = access.of_first(active, index->i);
    for (int32_t e = 0; e < o.count; e += lane_count, at += T::bytes)
      for (int lane = 0; lane < lane_count; lane++) to[e + lane] = T::get(at + lane * access.lane_stride);
    return;
  }
  for_lanes(active, [&](int lane) {
    const std::byte* at = access.at(lane, index[uniform ? 0 : lane].i);
    for (int32_t e = 0; e < o.count; e += lane_count, at += T::bytes) to[e + lane] = T::get(at);
  });
}

template <class T, bool uniform>
void store(Warp& w, const Operation& o) {
  Accessor access(w, o, T::bytes);
  const Scalar *index = w.slot(o.a), *value = w.slot(o.c);
  Mask active = taking_part(w, o);
  if (uniform && access.lane_stride && active == ~Mask(0)) {
    std::byte* at = access.of_first(active, index->i);
    for (int32_t e = 0; e < o.count; e += lane_count, at += T::bytes)
      for (int lane = 0; lane < lane_count; lane++) T::put(at + lane * access.lane_stride, value[e + lane]);
    return;
  }
  for_lanes(active, [&](int lane) {
    std::byte* at = access.at(lane, index[uniform ? 0 : lane].i);
    for (int32_t e = 0; e < o.count; e += lane_count, at += T::bytes) T::put(at, value[e + lane]);
  });
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
}

std::byte* locate(Warp& w, const Place& place, int lane, int64_t offset, int64_t bytes, int64_t alignment,
                  Span span) {
  int64_t element = place.type.bytes();
  auto [first, end, base] = reach_of(w, place, lane);
  if (offset < first * element || offset + bytes > end * element)
    outside(w, place, lane, offset / element, (bytes + element - 1) / element, span);
  bool registers = place.scope == Scope::fragment || place.scope == Scope::local;
  std::byte* at = base + offset + (registers ? lane * w.code->lane_bytes : 0);
  if (reinterpret_cast<uintptr_t>(at) % uintptr_t(alignment))
    misaligned(w, place, lane, offset / element, alignment, span);
  return at;
}

int64_t elements_left(Warp& w, const Place& place, int lane, int64_t offset) {
  return reach_of(w, place, lane).end - offset / place.type.bytes();
}

}  // namespace tl::sim
