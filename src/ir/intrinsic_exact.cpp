// Scalar functions whose values are given exactly: bit patterns, counts of bits, IEEE operations with a
// rounding mode, and the random generator Philox4x32-10.  constexpr rows; find_intrinsic may be asked before
// main.
#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>

#include "ir/intrinsic.h"

namespace tl {
namespace {

using Result = Intrinsic::Result;
using ArgDomain = Intrinsic::ArgDomain;

constexpr Scalar whole(int64_t i) { return {.i = i}; }
constexpr Scalar real(double d) { return {.d = d}; }

// ── bits ──────────────────────────────────────────────────────────────────────────────────────────────
uint64_t bits_of(Scalar v, DType t) {
  if (!t.is_float()) return t.bits == 64 ? uint64_t(v.i) : uint64_t(v.i) & ((uint64_t(1) << t.bits) - 1);
  return stored_bits(v.d, t);
}

Scalar from_bits(uint64_t bits, DType t) {
  return t.is_float() ? real(float_value(bits, t)) : whole(wrap_int(int64_t(bits), t));
}

Scalar reinterpret(const Scalar* a, const DType* types, DType result) {
  return from_bits(bits_of(a[0], types[0].scalar()), result.scalar());
}
Scalar population(const Scalar* a, const DType* types, DType) {
  return whole(std::popcount(bits_of(a[0], types[0].scalar())));
}
Scalar leading_zeros(const Scalar* a, const DType* types, DType) {
  return whole(std::countl_zero(bits_of(a[0], types[0].scalar())) - (64 - types[0].bits));
}

// ── neighbours and powers of two ──────────────────────────────────────────────────────────────────────
Scalar next_after(const Scalar* a, const DType* types, DType) {
  DType t = types[0].scalar();
  double x = a[0].d, y = a[1].d;
  if (std::isnan(x) || std::isnan(y)) return real(std::nan(""));
  if (x == y) return a[1];
  uint64_t sign = uint64_t(1) << (t.bits - 1), bits = stored_bits(x, t);
  if (x == 0) return real(float_value((std::signbit(y) ? sign : 0) | 1, t));
  bool outwards = (x < y) == (x > 0);  // bits grow away from zero
  return real(float_value(outwards ? bits + 1 : bits - 1, t));
}

// A double holds every result of the narrower floats, which are rounded once here.
Scalar scaled(const Scalar* a, const DType*, DType result) {
  double y = std::ldexp(a[0].d, int(std::clamp<int64_t>(a[1].i, -3000, 3000)));
  return real(round_float(y, result.scalar()));
}

// ── IEEE operations ───────────────────────────────────────────────────────────────────────────────────
// The operands are volatile, so that nothing is computed while another mode holds.
template <int mode, class F>
auto in_mode(F compute) {
  int before = std::fegetround();
  std::fesetround(mode);
  volatile auto result = compute();
  std::fesetround(before);
  return result;
}

struct Add {
  template <class T>
  static T of(const volatile T* x) {
    return x[0] + x[1];
  }
};
struct Sub {
  template <class T>
  static T of(const volatile T* x) {
    return x[0] - x[1];
  }
};
struct Mul {
  template <class T>
  static T of(const volatile T* x) {
    return x[0] * x[1];
  }
};
struct Div {
  template <class T>
  static T of(const volatile T* x) {
    return x[0] / x[1];
  }
};
struct Rcp {
  template <class T>
  static T of(const volatile T* x) {
    return 1 / x[0];
  }
};
struct Fma {
  template <class T>
  static T of(const volatile T* x) {
    return std::fma(T(x[0]), T(x[1]), T(x[2]));
  }
};
struct Sqrt {
  template <class T>
  static T of(const volatile T* x) {
    return std::sqrt(T(x[0]));
  }
};

template <class Op, int mode, int arity>
Scalar ieee(const Scalar* a, const DType* types, DType) {
  auto run = [&]<class T>(T) {
    volatile T x[3] = {};
    for (int i = 0; i < arity; i++) x[i] = T(a[i].d);
    return real(double(in_mode<mode>([&] { return Op::template of<T>(x); })));
  };
  return types[0].bits == 64 ? run(double()) : run(float());
}

// 1/sqrt(x) of a float, to nearest: in 64 bits of mantissa no f32 result lies near enough to a tie to be
// missed.
Scalar reciprocal_root(const Scalar* a, const DType*, DType) {
  return real(double(float(1 / std::sqrt(static_cast<long double>(a[0].d)))));
}

// ── random numbers ────────────────────────────────────────────────────────────────────────────────────
// Philox4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).  The key is
// the seed; the counter's low half counts groups of four numbers, its high half is the sequence.
Scalar philox(const Scalar* a, const DType*, DType) {
  uint64_t seed = uint64_t(a[0].i), sequence = uint64_t(a[1].i), group = uint64_t(a[2].i) >> 2;
  uint32_t c[4] = {uint32_t(group), uint32_t(group >> 32), uint32_t(sequence), uint32_t(sequence >> 32)};
  uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
  for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    uint64_t p = uint64_t(0xD2511F53u) * c[0], q = uint64_t(0xCD9E8D57u) * c[2];
    uint32_t next[4] = {uint32_t(q >> 32) ^ c[1] ^ k0, uint32_t(q), uint32_t(p >> 32) ^ c[3] ^ k1,
                        uint32_t(p)};
    std::memcpy(c, next, sizeof c);
  }
  return whole(int64_t(c[a[2].i & 3]));
}

// ── pairs ─────────────────────────────────────────────────────────────────────────────────────────────
// Two 16-bit floats in a word, the first in its lower half; each lane is rounded once.
enum class PairOp { add, sub, mul, fma, max, min, abs };
template <PairOp op>
double lane_value(const double* x) {
  switch (op) {
    case PairOp::add:
      return x[0] + x[1];
    case PairOp::sub:
      return x[0] - x[1];
    case PairOp::mul:
      return x[0] * x[1];
    case PairOp::fma:
      return sum_to_odd(x[0] * x[1], x[2]);
    case PairOp::max:
      return max_number(x[0], x[1]);
    case PairOp::min:
      return min_number(x[0], x[1]);
    case PairOp::abs:
      break;
  }
  return std::fabs(x[0]);
}
template <PairOp op, int arity, double (*value)(uint16_t), uint16_t (*bits)(double)>
Scalar pair(const Scalar* a, const DType*, DType) {
  uint32_t word = 0;
  for (int lane = 0; lane < 2; lane++) {
    double x[3] = {};
    for (int i = 0; i < arity; i++) x[i] = value(uint16_t(uint64_t(a[i].i) >> 16 * lane));
    word |= uint32_t(bits(lane_value<op>(x))) << 16 * lane;
  }
  return whole(int64_t(word));
}

Scalar first_argument(const Scalar* a, const DType*, DType) { return a[0]; }
Scalar yes(const Scalar*, const DType*, DType) { return whole(1); }

// clang-format off
constexpr auto floats = Intrinsic::ArgDomain::floats, integers = Intrinsic::ArgDomain::integers;
#define TL_IEEE(NAME, OP, ARITY)                                                                            \
    {.name = "ieee_" NAME "_rn", .arity = ARITY, .exact = ieee<OP, FE_TONEAREST, ARITY>, .takes = floats},  \
    {.name = "ieee_" NAME "_rz", .arity = ARITY, .exact = ieee<OP, FE_TOWARDZERO, ARITY>, .takes = floats}, \
    {.name = "ieee_" NAME "_ru", .arity = ARITY, .exact = ieee<OP, FE_UPWARD, ARITY>, .takes = floats},     \
    {.name = "ieee_" NAME "_rd", .arity = ARITY, .exact = ieee<OP, FE_DOWNWARD, ARITY>, .takes = floats}

#define TL_PAIR(NAME, OP, ARITY)                                                                            \
    {.name = NAME "_f16", .arity = ARITY, .exact = pair<PairOp::OP, ARITY, f16_value, f16_bits>,            \
     .takes = integers},                                                                                    \
    {.name = NAME "_bf16", .arity = ARITY, .exact = pair<PairOp::OP, ARITY, bf16_value, bf16_bits>,         \
     .takes = integers}

constexpr Intrinsic exact_rows[] = {
    TL_PAIR("add2", add, 2), TL_PAIR("sub2", sub, 2), TL_PAIR("mul2", mul, 2), TL_PAIR("fma2", fma, 3),
    TL_PAIR("max2", max, 2), TL_PAIR("min2", min, 2), TL_PAIR("abs2", abs, 1),
    {.name = "reinterpret", .result = Result::given, .exact = reinterpret},
    {.name = "popcount", .exact = population, .takes = integers,
     .help = "How many bits of the integer x are 1; in its dtype."},
    {.name = "clz", .result = Result::i32, .exact = leading_zeros, .takes = integers,
     .help = "How many of the upper bits of the integer x are 0; an int32."},
    {.name = "nextafter", .arity = 2, .exact = next_after, .takes = ArgDomain::reals,
     .help = "The next number of the dtype after x1 on the way to x2; x2 where they are equal.", .params = "x1, x2"},
    {.name = "ldexp", .arity = 2, .exact = scaled, .takes = ArgDomain::scaled,
     .help = "x1 * 2**x2 for an integer x2, rounded once.", .params = "x1, x2"},
    TL_IEEE("add", Add, 2), TL_IEEE("sub", Sub, 2), TL_IEEE("mul", Mul, 2), TL_IEEE("fdiv", Div, 2),
    TL_IEEE("frcp", Rcp, 1), TL_IEEE("fsqrt", Sqrt, 1), TL_IEEE("fmaf", Fma, 3),
    {.name = "ieee_frsqrt_rn", .exact = reciprocal_root, .takes = ArgDomain::singles},
    {.name = "philox", .arity = 3, .result = Result::u32, .exact = philox, .takes = ArgDomain::counters},
    {.name = "random_sequence", .exact = first_argument, .takes = ArgDomain::counters},
    // x itself, the first value of a variable that a generator keeps; canonicalize drops the call
    {.name = "random_state", .exact = first_argument, .takes = ArgDomain::counters},
    {.name = "elected", .result = Result::boolean, .exact = yes, .takes = ArgDomain::counters},
};
// clang-format on

}  // namespace

std::span<const Intrinsic> exact_functions() { return exact_rows; }

}  // namespace tl
