// Buffers, loads and stores.
#include <algorithm>

#include "base/round.h"
#include "ir/build.h"
#include "ir/rewrite.h"
#include "sim/steps.h"
#include "sim/translate.h"

namespace tl::sim {

namespace {

// Of a store of an element of 4 bits: the half of the byte that it writes back, as in S[i] = S[i] & 15 | x
// << 4. That half counts as written then, as bytes are the least that is watched.
const ExprNode* half_that_stays(const Function& f, const Store& n) {
  if (!f[n.buffer].holds.is_packed()) return nullptr;
  auto stays = [&](const Expr& e) {
    auto* part = e.as<Binary>();
    auto* old = part && part->op == BinaryOp::bit_and ? part->a.as<Load>() : nullptr;
    return old && old->buffer == n.buffer &&
           std::ranges::equal(old->index, n.index, [](auto& a, auto& b) { return equal(a, b); });
  };
  if (stays(n.value)) return n.value.get();
  auto* both = n.value.as<Binary>();
  if (!both || both->op != BinaryOp::bit_or) return nullptr;
  return stays(both->a) ? both->a.get() : stays(both->b) ? both->b.get() : nullptr;
}

}  // namespace

// As the user knows it.
std::string name_of(const Function& f, BufferId id) {
  return f[f[id].stands_for ? f[id].stands_for : id].name;
}

int Translator::place_of(BufferId id) {
  auto it = places.find(id);
  if (it != places.end()) return it->second;
  const BufferInfo& b = f[id];
  Place p{.name = name_of(f, id),
          .scope = b.scope,
          .type = b.dtype,
          .elements = 0,
          .address = 0,
          .id = size_t(id.value)};
  if (b.scope != Scope::global) {
    p.elements = b.elements >= 0 ? b.elements : element_count(b);
    int64_t bytes = p.elements * b.dtype.bytes();
    if (b.scope == tl::Scope::shared) {
      p.address = b.address;
      code.shared_bytes = std::max(code.shared_bytes, p.address + bytes);
    } else {
      p.address = code.lane_bytes;
      code.lane_bytes = round_up(code.lane_bytes + bytes, 16);
    }
  }
  p.number = p.storage = int32_t(code.places.size());
  code.places.push_back(std::move(p));
  int32_t number = places[id] = int(code.places.size()) - 1;
  if (b.alias_of) {
    int32_t storage = place_of(b.alias_of);
    code.places[size_t(number)].storage = code.places[size_t(storage)].storage;
  }
  return number;
}

// An access to a place, of so many bytes by a thread.
void Translator::touch(Place& p, int64_t bytes, bool writes) {
  int64_t width = int64_t(1) << __builtin_ctzll(uint64_t(std::max<int64_t>(bytes, 1)));  // divides it
  int64_t& unit = p.scope == Scope::shared   ? code.shared_unit
                  : p.scope == Scope::global ? code.global_unit
                                             : code.register_unit;
  unit =
      std::min(unit, p.scope == Scope::shared || p.scope == Scope::global ? width : int64_t(p.type.bytes()));
  p.written |= writes;
}

// A scalar, or a run of elements; in memory of type `as`.
Value Translator::load_value(const Load& n, DType as) {
  Span outer = span;
  if (n.span) span = n.span;
  Value result = in_place(n.dtype.lanes);
  Operation o{.count = code.warp * result.width, .row = place_of(n.buffer)};
  Expr index = n.index.empty() ? imm(0) : result.width > 1 ? contiguous_base(n.buffer, n.index) : n.index[0];
  Expr mask = shared_scalar(n.mask);
  if (mask) o.b = spread(value(mask)).slot;
  claim(n.claim, o.b, o.row, result.width, nullptr, false);
  bool apart = mask && !is_safe(index);
  size_t narrowed = apart ? begin_narrow(o.b, code.warp) : 0;
  Value at = value(index);
  if (apart) end_narrow(narrowed);
  o.a = at.slot;
  o.run = load_run(as, at.uniform);
  o.effect = Operation::Effect::load;
  o.uniform_index = at.uniform;
  touch(code.places[size_t(o.row)], int64_t(result.width) * as.bytes(), false);
  result.slot = o.to = temporary_slot(o.count);
  emit(o);
  span = outer;
  return result;
}

void Translator::store_statement(const Store& n) {
  int lanes = n.value->dtype.lanes;
  Expr base = contiguous_base(n.buffer, n.index), mask = shared_scalar(n.mask);
  if (lanes > 1 && (!base || (n.mask && !mask))) return store_elements(n);
  Expr index = n.index.empty() ? imm(0) : base ? base : n.index[0];
  Operation o{.count = code.warp * lanes, .row = place_of(n.buffer)};
  bool apart = mask && !(is_safe(n.value) && is_safe(index));
  size_t narrowed = 0;
  if (mask) o.b = spread(value(mask)).slot;
  claim(n.claim, o.b, o.row, lanes, nullptr, true);
  if (mask) {
    if (apart) narrowed = begin_narrow(o.b, code.warp);
  }
  DType as = f[n.buffer].dtype;
  auto* moved = as.is_bool() ? nullptr : n.value.as<Load>();
  if (moved && (lanes == 1 || is_wide(*moved))) {  // bits: no conversion there and back
    as = DType{DType::Kind::unsigned_int, as.bits};
    o.c = load_value(*moved, as).slot;
  } else {
    written_back = half_that_stays(f, n);
    o.c = spread(value(n.value)).slot;
    written_back = nullptr;
  }
  Value at = value(index);
  o.a = at.slot;
  o.run = store_run(as, at.uniform);
  o.effect = Operation::Effect::store;
  o.uniform_index = at.uniform;
  touch(code.places[size_t(o.row)], int64_t(lanes) * as.bytes(), true);
  emit(o);
  if (apart) end_narrow(narrowed);
}

// Element by element: all values first, as one of them may be another's place.
void Translator::store_elements(const Store& n) {
  int lanes = n.value->dtype.lanes;
  std::vector<int32_t> values, masks;
  auto under_mask = [&](int k, auto work) {
    size_t narrowed = n.mask ? begin_narrow(masks[size_t(k)], code.warp) : 0;
    work();
    if (n.mask) end_narrow(narrowed);
  };
  for (int k = 0; k < lanes; k++) {
    if (n.mask) masks.push_back(spread(value(element(n.mask, k))).slot);
    claim(element(n.claim, k), n.mask ? masks.back() : -1, place_of(n.buffer), 1, nullptr, true);
    under_mask(k, [&] { values.push_back(spread(value(element(n.value, k))).slot); });
  }
  for (int k = 0; k < lanes; k++)
    under_mask(k, [&] {
      Value at = value(element(n.index.at(0), k));
      touch(code.places[size_t(place_of(n.buffer))], f[n.buffer].dtype.bytes(), true);
      emit({.run = store_run(f[n.buffer].dtype, at.uniform),
            .a = at.slot,
            .c = values[size_t(k)],
            .count = code.warp,
            .row = place_of(n.buffer),
            .effect = Operation::Effect::store,
            .uniform_index = at.uniform});
    });
}

}  // namespace tl::sim
