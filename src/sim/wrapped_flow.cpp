// From which operations a value comes to be an index: over the operations as they stand, the registers that
// hold it and the buffers of the block that may.
#include <algorithm>
#include <set>

#include "sim/steps.h"
#include "sim/wrapped.h"

namespace tl::sim {
namespace {

using Follow = Operation::Follow;
constexpr int passes = 3;  // around loops: through a variable that another one sets

bool is_kept(const Code& code, int32_t place) { return code.places[size_t(place)].scope != Scope::global; }
int32_t storage(const Code& code, int32_t place) { return code.places[size_t(place)].storage; }

// The first slot of each element of a value that has `count` slots.
template <class F>
void each_slot(const Code& code, int32_t first, int32_t count, F f) {
  for (int32_t e = 0; e < count; e += code.warp) f(first + e);
}

// The operands that its result is made of.
template <class F>
void each_source(const Code& code, const Operation& o, F f) {
  if (o.run == for_begin || o.run == lanes_begin) return f(o.a);
  if (o.follow == Follow::none || o.follow == Follow::compare || o.follow == Follow::logic) return;
  bool alone = o.follow == Follow::splat || o.follow == Follow::repeat;
  auto operand = [&](int32_t slot) {
    if (slot < 0) return;
    if (alone || o.follow == Follow::ramp) return f(slot);
    each_slot(code, slot, o.count, f);
  };
  if (o.follow != Follow::select) operand(o.a);
  operand(o.b);
  operand(o.c);
}

// The slots that name the place of an access.
template <class F>
void each_index(const Code& code, const Operation& o, F f) {
  if (o.quiet) return;
  if (o.effect == Operation::Effect::load || o.effect == Operation::Effect::store) return f(o.a);
  if (o.effect != Operation::Effect::call) return;
  for (auto& arg : code.calls[size_t(o.row)].args)
    if (arg.place >= 0) f(arg.slot);
}

struct Reached {
  const Code& code;
  Span from;
  std::set<int32_t> slots = {}, buffers = {};
  std::vector<bool> accesses = std::vector<bool>(code.operations.size());

  void result(const Operation& o, bool reached) {
    each_slot(code, o.to, o.count,
              [&](int32_t slot) { reached ? void(slots.insert(slot)) : void(slots.erase(slot)); });
  }
  void run() {
    for (size_t i = 0; i < code.operations.size(); i++) {
      const Operation& o = code.operations[i];
      each_index(code, o, [&](int32_t slot) { accesses[i] = accesses[i] || slots.contains(slot); });
      if (o.effect == Operation::Effect::store) {
        each_slot(code, o.c, o.count, [&](int32_t slot) {
          if (slots.contains(slot) && is_kept(code, o.row)) buffers.insert(storage(code, o.row));
        });
      } else if (o.effect == Operation::Effect::load) {
        result(o, is_kept(code, o.row) && buffers.contains(storage(code, o.row)));
      } else if (o.to >= 0) {
        bool reached = o.wraps && code.sites[size_t(o.site)].span == from;
        each_source(code, o, [&](int32_t slot) { reached |= slots.contains(slot); });
        result(o, reached);
      }
    }
  }
};

}  // namespace

std::vector<bool> reached_by(const Code& code, const Operation& origin) {
  Reached all{.code = code, .from = code.sites[size_t(origin.site)].span};
  for (int i = 0; i < passes; i++) all.run();
  return all.accesses;
}

void mark_wrapping(Code& code) {
  std::set<int32_t> slots, buffers;  // whose values become indices
  std::vector<bool> wanted(code.operations.size());
  for (int pass = 0; pass < passes; pass++)
    for (size_t i = code.operations.size(); i-- > 0;) {
      const Operation& o = code.operations[i];
      bool counts = false, stores = o.effect == Operation::Effect::store;
      if (o.to >= 0) each_slot(code, o.to, o.count, [&](int32_t slot) { counts |= slots.erase(slot) > 0; });
      if (counts && o.effect == Operation::Effect::load && is_kept(code, o.row))
        buffers.insert(storage(code, o.row));
      if (stores && is_kept(code, o.row) && buffers.contains(storage(code, o.row)))
        each_slot(code, o.c, o.count, [&](int32_t slot) { slots.insert(slot); });
      if (counts) {
        wanted[i] = true;
        each_source(code, o, [&](int32_t slot) { slots.insert(slot); });
      }
      each_index(code, o, [&](int32_t slot) { slots.insert(slot); });
    }
  std::vector<Span> indexed;  // the condition that guards an access computes its index once more
  for (size_t i = 0; i < code.operations.size(); i++)
    if (const Operation& o = code.operations[i]; o.wraps && wanted[i])
      indexed.push_back(code.sites[size_t(o.site)].span);
  for (size_t i = 0; i < code.operations.size(); i++) {
    Operation& o = code.operations[i];
    if (!o.wraps || wanted[i]) continue;
    const Span& here = code.sites[size_t(o.site)].span;
    o.wraps = std::ranges::any_of(indexed, [&](const Span& span) { return span == here; });
  }
}

}  // namespace tl::sim
