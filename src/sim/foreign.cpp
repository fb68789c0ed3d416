// What memory calls do in the simulator: atomic accesses lane after lane, explicit-width accesses, and
// foreign code by the function that its author gave for it.
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "ops/atomic.h"
#include "sim/elements.h"
#include "sim/instr.h"
#include "target/foreign.h"

namespace tl::sim {
namespace {

// A sum of f32 in global memory takes zero for a subnormal number, and gives it (PTX ISA, atom).
Scalar update(Intrinsic::Atomic op, const Place& p, Scalar old, Scalar value) {
  if (!p.type.is_float()) return scalar(combine(op, old.i, value.i, p.type));
  if (op != Intrinsic::Atomic::add || p.type != f32 || p.scope != Scope::global)
    return scalar(combine(op, old.d, value.d, p.type));
  auto flushed = [](double d) {
    return std::fabs(d) < double(std::numeric_limits<float>::min()) ? std::copysign(0.0, d) : d;
  };
  return scalar(flushed(combine(op, flushed(old.d), flushed(value.d), p.type)));
}

void atomic_access(const Execution& x) {
  const Place& p = x.place(0);
  auto op = x.site.intrinsic->atomic;
  bool has_value = x.site.args.size() == 3;
  int lanes = has_value ? x.site.args[1].type.lanes : 1;
  BlockWatch* watch = x.warp.block->watch;
  if (watch && p.scope == Scope::global && x.site.type != none_type && x.site.order == MemoryOrder::relaxed)
    watch->asked_without_order = x.site.site;
  PerformanceCounters::Addresses addresses(x.warp.block->counters);
  with_element(p.type, [&](auto element) {
    int64_t bytes = element.bytes, whole = bytes * lanes;
    for_lanes(x.lanes, [&](int lane) {
      bool reads = op != Intrinsic::Atomic::store, writes = op != Intrinsic::Atomic::load;
      Touch touch = writes ? Touch::atomic_update : Touch::atomic_read;
      std::byte* at = x.operand(0, lane, whole, std::min<int64_t>(whole, x.warp.code->vector_bytes), touch);
      addresses.set(lane, at);
      if (watch) x.warp.block->race_detector->synchronise(x.warp, lane, at, x.site.order, reads, writes);
      for (int e = 0; e < lanes; e++, at += bytes) {
        Scalar old = element.get(at);
        if (has_value) {
          Scalar value = x.element(1, lane, e);
          std::byte before[16];
          std::memcpy(before, at, size_t(bytes));
          element.put(at, update(op, p, old, value));
          x.warp.block->race_detector->memory_version += std::memcmp(before, at, size_t(bytes)) != 0;
        }
        if (x.site.type != none_type) x.give(lane, old);
      }
    });
    addresses.count(x.warp, p, whole, x.site.site, Counter::Kind::atomic, x.site.intrinsic->name);
  });
}

void wide_access(const Execution& x) {
  bool loads = x.site.intrinsic == &load_wide;
  int words = loads ? x.site.type.lanes : x.site.args[1].type.lanes;
  int64_t bytes = int64_t(words) * 4;
  PerformanceCounters::Addresses addresses(x.warp.block->counters);
  for_lanes(x.lanes, [&](int lane) {
    std::byte* at = x.operand(0, lane, bytes, std::min<int64_t>(bytes, x.warp.code->vector_bytes));
    addresses.set(lane, at);
    for (int e = 0; e < words; e++) {
      uint32_t word = loads ? bits_at<uint32_t>(at + 4 * e) : uint32_t(x.element(1, lane, e).i);
      if (loads)
        x.give(lane, scalar(int64_t(word)), e);
      else
        put_bits(at + 4 * e, word);
    }
  });
  addresses.count(x.warp, x.place(0), bytes, x.site.site, loads ? Counter::Kind::load : Counter::Kind::store);
}

// What one lane gives to foreign code by a pointer.  Its array ends where the program says, or with the
// buffer; then what the code has changed is what it wrote, for nothing else is known.
struct Reached {
  const Execution& x;
  size_t arg;
  int lane;
  bool counted = x.site.args[arg].count >= 0;
  char access = x.site.args[arg].access;
  const Place& place = x.place(arg);
  int64_t element = place.type.bytes(), offset = x.value(arg, lane).i, count = 0;
  std::byte* at = nullptr;
  std::vector<std::byte> before = {};                 // of what may be written
  static constexpr int64_t most_compared = 64 << 10;  // bytes; beyond them anything may have been written

  // Finds it and notes what is read; false if it leaves its buffer, which is a finding.
  bool begin() {
    if (counted) {
      count = x.warp.slot(x.site.args[arg].count)[x.site.args[arg].count_uniform ? 0 : lane].i;
      if (count < 0)
        fail(x.site.span, "foreign code: {} elements of {} cannot be touched", count, place.name);
    }
    auto [found, inside] =
        locate(x.warp, place, lane, offset, element * (counted ? count : 1), 1, x.site.site);
    if (!inside) return false;
    at = found;
    int64_t left = elements_left(x.warp, place, lane, offset);
    if (!counted) count = left;
    if (access == 'r' || (counted && access == 'x')) note(0, counted ? count : 1, Touch::read, false);
    if (access != 'r')
      before.assign(at, at + std::min(count * element, counted ? count * element : most_compared));
    return true;
  }
  ForeignValue value() const { return {.type = place.type, .data = at, .elements = count}; }
  // Notes what was written.
  void end() const {
    bool any = false;
    for (int64_t i = 0; i * element < int64_t(before.size()); i++) {
      bool same = !std::memcmp(before.data() + i * element, at + i * element, size_t(element));
      any |= !same;
      if (counted || !same || (i == 0 && access == 'w')) note(i, 1, Touch::write, same);
    }
    if (counted || access == 'r') return;
    if (!any && access == 'x') {  // it was read, if at all
      Holes unused;
      note(0, 1, Touch::read, false, &unused);
    }
    if (int64_t(before.size()) < count * element)
      x.warp.block->race_detector->forgive({at + before.size(), at + count * element});
  }
  void note(int64_t first, int64_t elements, Touch touch, bool same, Holes* holes = nullptr) const {
    RaceDetector& race_detector = *x.warp.block->race_detector;
    int64_t from = first * element, bytes = elements * element;
    if (!x.warp.block->watch)
      race_detector.memory_version += touch == Touch::write && !same;
    else if (place.scope == Scope::fragment || place.scope == Scope::local)
      x.touch_registers(place, offset + from, bytes, lane_bit(lane), touch == Touch::write, holes);
    else if (bytes > 0)
      race_detector.access(x.warp, place, lane, at + from, bytes, touch, x.site.site, same, nullptr, holes);
  }
};

// args: a text, a key, and of PTX the number of places that it writes, which follow.
void foreign(const Execution& x) {
  bool ptx = x.site.intrinsic == &inline_ptx;
  size_t first = ptx ? 3 : 2, outputs = ptx ? size_t(x.value(2, 0).i) : 0;
  auto eval = find_foreign_eval(x.site.args[1].text);
  internal_check(eval != nullptr, "foreign code without a meaning");
  std::vector<DType> results;
  for (size_t i = first; i < first + outputs; i++) results.push_back(x.place(i).type);
  if (x.site.type != none_type) results.push_back(x.site.type);
  for_lanes(x.lanes, [&](int lane) {
    std::vector<ForeignValue> args;
    std::vector<Reached> places;
    bool inside = true;
    for (size_t i = first + outputs; i < x.site.args.size(); i++) {
      auto& a = x.site.args[i];
      ForeignValue& v = args.emplace_back(ForeignValue{.type = a.type});
      if (a.place >= 0) {
        Reached& r = places.emplace_back(Reached{.x = x, .arg = i, .lane = lane});
        inside &= r.begin();
        v = r.value();
      } else if (a.type.is_float()) {
        v.d = x.value(i, lane).d;
      } else {
        v.i = x.value(i, lane).i;
      }
    }
    std::vector<ForeignValue> given(results.size());
    if (inside) given = (*eval)(args, results);
    for (auto& r : places)
      if (inside) r.end();
    for (size_t r = 0; r < results.size(); r++) {
      Scalar s = results[r].is_float() ? scalar(round_float(given[r].d, results[r]))
                                       : scalar(wrap_int(given[r].i, results[r]));
      if (r < outputs)
        element_access(results[r]).put(x.operand(first + r, lane, results[r].bytes(), 1), s);
      else
        x.give(lane, s);
    }
  });
}

}  // namespace

Semantics memory_semantics(const Intrinsic& intrinsic) {
  if (intrinsic.atomic != Intrinsic::Atomic::none) return atomic_access;
  if (&intrinsic == &load_wide || &intrinsic == &store_wide) return wide_access;
  return is_foreign(intrinsic) ? foreign : nullptr;
}

}  // namespace tl::sim
