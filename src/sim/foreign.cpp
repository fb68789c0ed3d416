// What memory calls do in the simulator: atomic accesses lane after lane, explicit-width accesses, and foreign code by
// the function that its author gave for it.
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
Scalar update(Callee::Atomic op, const Place& p, Scalar old, Scalar value) {
  if (!p.type.is_float()) return scalar(combine(op, old.i, value.i, p.type));
  if (op != Callee::Atomic::add || p.type != f32 || p.scope != Scope::global) return scalar(combine(op, old.d, value.d, p.type));
  auto flushed = [](double d) { return std::fabs(d) < double(std::numeric_limits<float>::min()) ? std::copysign(0.0, d) : d; };
  return scalar(flushed(combine(op, flushed(old.d), flushed(value.d), p.type)));
}

void atomic_access(const Execution& x) {
  const Place& p = x.place(0);
  auto op = x.site.callee->atomic;
  bool has_value = x.site.args.size() == 3;
  int lanes = has_value ? x.site.args[1].type.lanes : 1;
  BlockWatch* watch = x.warp.block->watch;
  if (watch && p.scope == Scope::global && x.site.type != none_type && x.site.order == MemoryOrder::relaxed)
    watch->asked_without_order = x.site.site;
  Tally::Addresses addresses(x.warp.block->tally);
  with_element(p.type, [&](auto element) {
    int64_t bytes = element.bytes, whole = bytes * lanes;
    for_lanes(x.lanes, [&](int lane) {
      bool reads = op != Callee::Atomic::store, writes = op != Callee::Atomic::load;
      Touch touch = writes ? Touch::atomic_update : Touch::atomic_read;
      std::byte* at = x.operand(0, lane, whole, std::min<int64_t>(whole, x.warp.code->vector_bytes), touch);
      addresses.set(lane, at);
      if (watch) x.warp.block->monitor->synchronise(x.warp, lane, at, x.site.order, reads, writes);
      for (int e = 0; e < lanes; e++, at += bytes) {
        Scalar old = element.get(at);
        if (has_value) {
          Scalar value = x.element(1, lane, e);
          std::byte before[16];
          std::memcpy(before, at, size_t(bytes));
          element.put(at, update(op, p, old, value));
          x.warp.block->monitor->memory_version += std::memcmp(before, at, size_t(bytes)) != 0;
        }
        if (x.site.type != none_type) x.give(lane, old);
      }
    });
    addresses.count(x.warp, p, whole, x.site.site, Counter::Kind::atomic, x.site.callee->name);
  });
}

void wide_access(const Execution& x) {
  bool loads = x.site.callee == &load_wide;
  int words = loads ? x.site.type.lanes : x.site.args[1].type.lanes;
  int64_t bytes = int64_t(words) * 4;
  Tally::Addresses addresses(x.warp.block->tally);
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

// args: a text, a key, and of PTX the number of places that it writes, which follow.
void foreign(const Execution& x) {
  bool ptx = x.site.callee == &inline_ptx;
  size_t first = ptx ? 3 : 2, outputs = ptx ? size_t(x.value(2, 0).i) : 0;
  auto eval = find_foreign_eval(x.site.args[1].text);
  internal_check(eval != nullptr, "foreign code without a meaning");
  std::vector<DType> results;
  for (size_t i = first; i < first + outputs; i++) results.push_back(x.place(i).type);
  if (x.site.type != none_type) results.push_back(x.site.type);
  for_lanes(x.lanes, [&](int lane) {
    std::vector<ForeignValue> args;
    for (size_t i = first + outputs; i < x.site.args.size(); i++) {
      auto& a = x.site.args[i];
      ForeignValue& v = args.emplace_back(ForeignValue{.type = a.place >= 0 ? x.place(i).type : a.type});
      if (a.place >= 0) {
        v.data = x.operand(i, lane, v.type.bytes(), 1);
        v.elements = elements_left(x.warp, x.place(i), lane, x.value(i, lane).i);
      } else if (a.type.is_float()) {
        v.d = x.value(i, lane).d;
      } else {
        v.i = x.value(i, lane).i;
      }
    }
    auto given = (*eval)(args, results);
    for (size_t r = 0; r < results.size(); r++) {
      Scalar s = results[r].is_float() ? scalar(round_float(given[r].d, results[r])) : scalar(wrap_int(given[r].i, results[r]));
      if (r < outputs)
        element_access(results[r]).put(x.operand(first + r, lane, results[r].bytes(), 1), s);
      else
        x.give(lane, s);
    }
  });
}

}  // namespace

Semantics memory_semantics(const Callee& callee) {
  if (callee.atomic != Callee::Atomic::none) return atomic_access;
  if (&callee == &load_wide || &callee == &store_wide) return wide_access;
  return is_foreign(callee) ? foreign : nullptr;
}

}  // namespace tl::sim
