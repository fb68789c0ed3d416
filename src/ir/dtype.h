// The type of a value: a kind, a width in bits, and a number of lanes.
//
// Storage types (`is_storage`) exist in memory and in matrix instructions but not in arithmetic: values are
// cast to their `arithmetic_type` first.  tf32 is stored as an f32 whose last 13 bits are ignored. In tensors
// and shared memory types of four bits are packed two to a byte along the last dimension, the even element in
// the low half.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tl {

struct DType {
  enum class Kind : uint8_t {
    none,
    boolean,
    signed_int,
    unsigned_int,
    floating,
    bfloat,
    handle,
    tfloat,  // 32 bits: sign, 8 exponent, 10 mantissa, 13 that do not count
    e4m3,
    e5m2,
    e8m0,
    e2m1  // sign but for e8m0, exponent, mantissa; e4m3 and e2m1 have no infinity, e2m1 no NaN
  };
  Kind kind = Kind::none;
  uint8_t bits = 0;  // of one lane; a bool takes 8 bits in memory
  uint16_t lanes = 1;
  constexpr bool operator==(const DType&) const = default;

  constexpr bool is_signed() const { return kind == Kind::signed_int; }
  constexpr bool is_unsigned() const { return kind == Kind::unsigned_int; }
  constexpr bool is_int() const { return is_signed() || is_unsigned(); }
  constexpr bool is_bool() const { return kind == Kind::boolean; }
  constexpr bool is_float() const {
    return kind == Kind::floating || kind == Kind::bfloat || kind >= Kind::tfloat;
  }
  constexpr bool is_handle() const { return kind == Kind::handle; }
  constexpr bool is_packed() const { return bits != 0 && bits < 8; }
  constexpr bool is_storage() const { return kind >= Kind::tfloat || is_packed(); }
  constexpr int bytes() const { return (bits + 7) / 8; }  // of one lane in memory of its own
  constexpr DType with_lanes(int n) const { return {kind, bits, uint16_t(n)}; }
  constexpr DType scalar() const { return with_lanes(1); }
};

inline constexpr DType none_type{};
inline constexpr DType boolean{DType::Kind::boolean, 8};
inline constexpr DType i8{DType::Kind::signed_int, 8}, i16{DType::Kind::signed_int, 16};
inline constexpr DType i32{DType::Kind::signed_int, 32}, i64{DType::Kind::signed_int, 64};
inline constexpr DType u8{DType::Kind::unsigned_int, 8}, u16{DType::Kind::unsigned_int, 16};
inline constexpr DType u32{DType::Kind::unsigned_int, 32}, u64{DType::Kind::unsigned_int, 64};
inline constexpr DType f16{DType::Kind::floating, 16}, f32{DType::Kind::floating, 32};
inline constexpr DType f64{DType::Kind::floating, 64}, bf16{DType::Kind::bfloat, 16};
inline constexpr DType tf32{DType::Kind::tfloat, 32};
inline constexpr DType e4m3{DType::Kind::e4m3, 8}, e5m2{DType::Kind::e5m2, 8}, e8m0{DType::Kind::e8m0, 8};
inline constexpr DType e2m1{DType::Kind::e2m1, 4};
inline constexpr DType i4{DType::Kind::signed_int, 4}, u4{DType::Kind::unsigned_int, 4};
inline constexpr DType handle{DType::Kind::handle, 64};

// "f32", "i8", "bool", "f16x8"; "none" for a statement's value.
std::string to_string(DType type);
std::optional<DType> parse_dtype(std::string_view name);

// Wraps a number to the width of an integer type (two's complement); a bool becomes 0 or 1.
int64_t wrap_int(int64_t value, DType type);
// The type in which values of a storage type are computed with, of as many lanes; any other type is its own.
DType arithmetic_type(DType type);
// Bytes that `elements` of the type take in a tensor or a tile, two to a byte where they are packed.
constexpr int64_t bytes_of(int64_t elements, DType type) { return (elements * type.bits + 7) / 8; }

enum class Rounding : uint8_t { nearest_even, toward_zero, down, up, nearest_away };
// How a plain cast rounds: to nearest, ties to even; tf32 as the hardware does, ties away from zero; e8m0
// ties up.
constexpr Rounding default_rounding(DType type) {
  bool away = type.kind == DType::Kind::tfloat || type.kind == DType::Kind::e8m0;
  return away ? Rounding::nearest_away : Rounding::nearest_even;
}
// The bits of the float type that hold the value, rounded once, from the double.  A type of 8 or 4 bits
// saturates, its largest value standing for all that is larger and for infinity, or else overflows to its
// infinity, or NaN if it has none.  NaN is the positive quiet one; e2m1, which has none, takes its largest
// value.  e8m0 holds powers of two: what is negative is NaN, and so is zero unless it saturates, which gives
// 2^-127.
uint64_t float_bits(double value, DType type, Rounding rounding, bool saturate = true);
inline uint64_t float_bits(double value, DType type) {
  return float_bits(value, type, default_rounding(type));
}
// The value of an element, of which stored_bits makes the same bits again: a NaN, signalling or not, has its
// sign, and its mantissa at the top of the double's.
double float_value(uint64_t bits, DType type);
// The bits of an element that holds the value, which is one of the type's.
uint64_t stored_bits(double value, DType type);
// The value that the float type holds after a plain cast: a NaN becomes the usual quiet one, which from 16
// bits on keeps its sign.
double round_float(double value, DType type);
// The largest finite number of a float type of 16 bits or more.
double largest_number(DType type);
// a + b, with what a double cannot hold of it put into the last bit (rounding to odd): rounded once more, to
// 51 bits or fewer, that is a + b rounded once.
double sum_to_odd(double a, double b);
// An integer of type `from` (bits of an int64_t) as the float type `to` holds it, rounded once.
double float_of_int(int64_t value, DType from, DType to);
int64_t truncated(double value, DType type);        // the cast of a float to an integer type
bool fits_integer(double value, DType type);        // then that has a meaning
extern const std::string_view misfit_help;          // what mends it
std::string misfit_text(double value, DType type);  // "300 does not fit int8, which holds -128 to 127, …"
// The other operand where one is NaN, a signalling one too.
double min_number(double a, double b);
double max_number(double a, double b);

// Those of the 16-bit floats.
uint16_t f16_bits(double value);
double f16_value(uint16_t bits);
uint16_t bf16_bits(double value);
double bf16_value(uint16_t bits);

}  // namespace tl
