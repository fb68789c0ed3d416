// Arithmetic on registers: integers and bools as int64 wrapped to their type, floats as double rounded to
// theirs, so that every value is the reference's.
#include <functional>

#include "base/error.h"
#include "ir/build.h"
#include "sim/steps.h"
#include "sim/undefined.h"

namespace tl::sim {
namespace {

// One slot, or the lanes of each element of a vector, some at a time: a count that the compiler can see.
template <class F>
void each(const Operation& o, F f) {
  if (o.count == 1) return f(0);
  for (int32_t first = 0; first < o.count; first += lane_group)
    for (int32_t i = 0; i < lane_group; i++) f(first + i);
}
// The same with the element of the vector and the lane: f(slot, element, lane).
template <class F>
void each_element(const Warp& w, const Operation& o, F f) {
  for (int32_t e = 0, first = 0; first < o.count; e++)
    for (int32_t lane = 0; lane < w.lane_count(); lane += lane_group, first += lane_group)
      for (int32_t i = 0; i < lane_group; i++) f(first + i, e, lane + i);
}
template <class F>
void unary_lanes(Warp& w, const Operation& o, F f) {
  Scalar* __restrict to = w.slot(o.to);
  const Scalar* a = w.slot(o.a);
  each(o, [&](int32_t i) { to[i] = f(a[i]); });
}
template <class F>
void binary_lanes(Warp& w, const Operation& o, F f) {
  Scalar* __restrict to = w.slot(o.to);
  const Scalar *a = w.slot(o.a), *b = w.slot(o.b);
  each(o, [&](int32_t i) { to[i] = f(a[i], b[i]); });
}

// The same for every operation; its type says which, so that it is part of the loop.
template <class F>
Run by_lane(F) {
  return [](Warp& w, const Operation& o) { binary_lanes(w, o, F()); };
}

struct Exact {
  static double round(double v) { return v; }
};
struct Single {
  static double round(double v) { return double(float(v)); }
};
struct F16 {
  static double round(double v) { return round_float(v, f16); }
};
struct Bf16 {
  static double round(double v) { return round_float(v, bf16); }
};
struct Index {
  static int64_t wrap(uint64_t v) { return int64_t(v); }
};
struct Int {
  static int64_t wrap(uint64_t v) { return int32_t(uint32_t(v)); }
};

template <class R>
Run float_run(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
      return by_lane([](Scalar a, Scalar b) { return scalar(R::round(a.d + b.d)); });
    case BinaryOp::sub:
      return by_lane([](Scalar a, Scalar b) { return scalar(R::round(a.d - b.d)); });
    case BinaryOp::mul:
      return by_lane([](Scalar a, Scalar b) { return scalar(R::round(a.d * b.d)); });
    default:
      return by_lane([](Scalar a, Scalar b) { return scalar(R::round(a.d / b.d)); });
  }
}
Run float_run(BinaryOp op, DType type) {
  if (op == BinaryOp::min) return by_lane([](Scalar a, Scalar b) { return scalar(min_number(a.d, b.d)); });
  if (op == BinaryOp::max) return by_lane([](Scalar a, Scalar b) { return scalar(max_number(a.d, b.d)); });
  if (type.bits == 64) return float_run<Exact>(op);
  if (type.bits == 32) return float_run<Single>(op);
  return type == bf16 ? float_run<Bf16>(op) : float_run<F16>(op);
}

template <class Compare>
Run compare_run(bool is_float) {
  if (is_float) return by_lane([](Scalar a, Scalar b) { return scalar(int64_t(Compare()(a.d, b.d))); });
  return by_lane([](Scalar a, Scalar b) { return scalar(int64_t(Compare()(a.i, b.i))); });
}
Run compare_run(BinaryOp op, bool is_float) {
  switch (op) {
    case BinaryOp::eq:
      return compare_run<std::equal_to<>>(is_float);
    case BinaryOp::ne:
      return compare_run<std::not_equal_to<>>(is_float);
    case BinaryOp::lt:
      return compare_run<std::less<>>(is_float);
    case BinaryOp::le:
      return compare_run<std::less_equal<>>(is_float);
    case BinaryOp::gt:
      return compare_run<std::greater<>>(is_float);
    default:
      return compare_run<std::greater_equal<>>(is_float);
  }
}

// What index arithmetic is made of, without asking at each lane; null for the rest.
template <class W>
Run index_run(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
      return by_lane([](Scalar a, Scalar b) { return scalar(W::wrap(uint64_t(a.i) + uint64_t(b.i))); });
    case BinaryOp::sub:
      return by_lane([](Scalar a, Scalar b) { return scalar(W::wrap(uint64_t(a.i) - uint64_t(b.i))); });
    case BinaryOp::mul:
      return by_lane([](Scalar a, Scalar b) { return scalar(W::wrap(uint64_t(a.i) * uint64_t(b.i))); });
    case BinaryOp::bit_and:
    case BinaryOp::logical_and:
      return by_lane([](Scalar a, Scalar b) { return scalar(a.i & b.i); });
    case BinaryOp::bit_or:
    case BinaryOp::logical_or:
      return by_lane([](Scalar a, Scalar b) { return scalar(a.i | b.i); });
    case BinaryOp::bit_xor:
      return by_lane([](Scalar a, Scalar b) { return scalar(a.i ^ b.i); });
    case BinaryOp::shr:
      return by_lane([](Scalar a, Scalar b) { return scalar(a.i >> b.i); });
    default:
      return nullptr;
  }
}

// As the reference computes it, one lane at a time.
void folded(Warp& w, const Operation& o) {
  binary_lanes(w, o, [&](Scalar a, Scalar b) { return scalar(fold_int(o.op, a.i, b.i, o.type)); });
}

}  // namespace

// ── any value ─────────────────────────────────────────────────────────────────────────────────────────
void constant(Warp& w, const Operation& o) { *w.slot(o.to) = o.value; }
void splat(Warp& w, const Operation& o) {
  Scalar v = *w.slot(o.a), *to = w.slot(o.to);
  each(o, [&](int32_t i) { to[i] = v; });
}
void copy(Warp& w, const Operation& o) {
  unary_lanes(w, o, [](Scalar a) { return a; });
}
void repeat(Warp& w, const Operation& o) {
  const Scalar* a = w.slot(o.a);
  Scalar* to = w.slot(o.to);
  each_element(w, o, [&](int32_t i, int32_t, int32_t lane) { to[i] = a[lane]; });
}
void ramp(Warp& w, const Operation& o) {
  const Scalar *a = w.slot(o.a), *b = w.slot(o.b);
  Scalar* to = w.slot(o.to);
  each_element(w, o, [&](int32_t i, int32_t e, int32_t lane) {
    to[i] = scalar(wrap_int(int64_t(uint64_t(a[lane].i) + uint64_t(e) * uint64_t(b[lane].i)), o.type));
  });
}
void select(Warp& w, const Operation& o) {
  Scalar* __restrict to = w.slot(o.to);
  const Scalar *cond = w.slot(o.a), *a = w.slot(o.b), *b = w.slot(o.c);
  each(o, [&](int32_t i) { to[i] = cond[i].i ? a[i] : b[i]; });
}

// ── operators ─────────────────────────────────────────────────────────────────────────────────────────
Run unary_run(UnaryOp op, DType type) {
  if (op == UnaryOp::logical_not)
    return [](Warp& w, const Operation& o) {
      unary_lanes(w, o, [](Scalar a) { return scalar(int64_t(!a.i)); });
    };
  if (op == UnaryOp::bit_not)
    return [](Warp& w, const Operation& o) {
      unary_lanes(w, o, [&](Scalar a) { return scalar(wrap_int(~a.i, o.type)); });
    };
  if (type.is_float())
    return [](Warp& w, const Operation& o) { unary_lanes(w, o, [](Scalar a) { return scalar(-a.d); }); };
  return [](Warp& w, const Operation& o) {
    unary_lanes(w, o, [&](Scalar a) { return scalar(wrap_int(int64_t(0 - uint64_t(a.i)), o.type)); });
  };
}

Run binary_run(BinaryOp op, DType type) {
  if (is_comparison(op) && type != u64) return compare_run(op, type.is_float());
  if (type.is_float()) return float_run(op, type);
  bool sums = op == BinaryOp::add || op == BinaryOp::sub || op == BinaryOp::mul;
  if (type == i64 || (type.is_bool() && !sums))
    if (Run run = index_run<Index>(op)) return run;
  if (type == i32)
    if (Run run = index_run<Int>(op)) return run;
  return folded;
}

Run fma_run(DType type) {
  // The product of two floats of at most 24 bits is exact in double.
  if (type == f32)
    return [](Warp& w, const Operation& o) {
      const Scalar *a = w.slot(o.a), *b = w.slot(o.b), *c = w.slot(o.c);
      Scalar* __restrict to = w.slot(o.to);
      each(o, [&](int32_t i) { to[i] = scalar(Single::round(sum_to_odd(a[i].d * b[i].d, c[i].d))); });
    };
  return nullptr;
}

bool needs_check(BinaryOp op, const Expr& right) {
  auto value = as_int(right);
  if (is_division(op)) return !value || *value == 0;
  if (op == BinaryOp::shl || op == BinaryOp::shr) return !value || *value < 0 || *value >= right->dtype.bits;
  return false;
}

void checked_binary(Warp& w, const Operation& o) {
  Span span = w.code->sites[size_t(o.site)].span;
  bool uniform = o.count == 1;
  for (int32_t first = 0; first < o.count; first += w.lane_count())
    for_lanes(uniform ? w.active & -w.active : w.active, [&](int lane) {
      int32_t i = uniform ? 0 : first + lane;
      int64_t a = w.slot(o.a)[i].i, b = w.slot(o.b)[i].i;
      if (is_division(o.op) && b == 0)
        fail(span, "division by zero: {} {} 0 in {}; {}", a, symbol(o.op), describe_thread(w, lane),
             divisor_help);
      if (!is_division(o.op) && (b < 0 || b >= o.type.bits))
        fail(span, "a shift of {} by {} in {}; the amount must lie in [0, {})", to_string(o.type), b,
             describe_thread(w, lane), o.type.bits);
      w.slot(o.to)[i] = scalar(fold_int(o.op, a, b, o.type));
    });
}

void to_integer(Warp& w, const Operation& o) {
  bool fit = true;
  unary_lanes(w, o, [&](Scalar a) {
    fit &= fits_integer(a.d, o.type);
    return scalar(truncated(a.d, o.type));
  });
  if (!fit && w.block->watch) follow_undefined(w, o, w.active);
}

Run cast_run(DType from, DType to) {
  if (to.is_bool() && from.is_float())
    return [](Warp& w, const Operation& o) {
      unary_lanes(w, o, [](Scalar a) { return scalar(int64_t(a.d != 0)); });
    };
  if (from.is_float() && to.is_float()) {
    if (to == f32 || to == f64)  // but for a NaN without a call
      return [](Warp& w, const Operation& o) {
        bool single = o.type.bits == 32;
        unary_lanes(w, o, [&](Scalar a) {
          return scalar(a.d != a.d ? round_float(a.d, o.type) : single ? Single::round(a.d) : a.d);
        });
      };
    return [](Warp& w, const Operation& o) {
      unary_lanes(w, o, [&](Scalar a) { return scalar(round_float(a.d, o.type)); });
    };
  }
  if (from.is_float()) return to_integer;
  if (!to.is_float()) {
    if (to == i64 || (to == i32 && from.bits <= 32 && from != u32)) return copy;
    return [](Warp& w, const Operation& o) {
      unary_lanes(w, o, [&](Scalar a) { return scalar(wrap_int(a.i, o.type)); });
    };
  }
  if (from.bits == 64 && from.is_unsigned())
    return [](Warp& w, const Operation& o) {
      unary_lanes(w, o, [&](Scalar a) { return scalar(float_of_int(a.i, u64, o.type)); });
    };
  if (from.bits == 64)
    return [](Warp& w, const Operation& o) {
      unary_lanes(w, o, [&](Scalar a) { return scalar(float_of_int(a.i, i64, o.type)); });
    };
  return [](Warp& w, const Operation& o) {
    unary_lanes(w, o, [&](Scalar a) { return scalar(round_float(double(a.i), o.type)); });
  };
}

// ── scalar functions ──────────────────────────────────────────────────────────────────────────────────
void scalar_call(Warp& w, const Operation& o) {
  const CallSite& site = w.code->calls[size_t(o.row)];
  constexpr size_t most = 8;
  size_t count = site.args.size();
  bool from_float = o.value.i != 0, to_float = o.type.is_float();
  const Scalar* args[most];
  for (size_t k = 0; k < count; k++) args[k] = w.slot(site.args[k].slot);
  Scalar* to = w.slot(o.to);
  if (auto exact = site.intrinsic->exact) {
    DType types[most];
    for (size_t k = 0; k < count; k++) types[k] = site.args[k].type;
    return each(o, [&](int32_t i) {
      Scalar values[most];
      for (size_t k = 0; k < count; k++) values[k] = args[k][i];
      to[i] = exact(values, types, o.type);
    });
  }
  each(o, [&](int32_t i) {
    double values[most];
    for (size_t k = 0; k < count; k++) values[k] = from_float ? args[k][i].d : double(args[k][i].i);
    double v = site.intrinsic->eval(values);
    to[i] = to_float ? scalar(round_float(v, o.type)) : scalar(truncated(v, o.type));
  });
}

}  // namespace tl::sim
