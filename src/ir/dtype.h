// The type of a value: a kind, a width in bits, and a number of lanes.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tl {

struct DType {
  enum class Kind : uint8_t { none, boolean, signed_int, unsigned_int, floating, bfloat, handle };
  Kind kind = Kind::none;
  uint8_t bits = 0;    // of one lane; a bool takes 8 bits in memory
  uint16_t lanes = 1;
  constexpr bool operator==(const DType&) const = default;

  constexpr bool is_signed() const { return kind == Kind::signed_int; }
  constexpr bool is_unsigned() const { return kind == Kind::unsigned_int; }
  constexpr bool is_int() const { return is_signed() || is_unsigned(); }
  constexpr bool is_bool() const { return kind == Kind::boolean; }
  constexpr bool is_float() const { return kind == Kind::floating || kind == Kind::bfloat; }
  constexpr bool is_handle() const { return kind == Kind::handle; }
  constexpr int bytes() const { return bits / 8; }  // of one lane in memory
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
inline constexpr DType handle{DType::Kind::handle, 64};

// "f32", "i8", "bool", "f16x8"; "none" for a statement's value.
std::string to_string(DType type);
std::optional<DType> parse_dtype(std::string_view name);

// Wraps a number to the width of an integer type (two's complement); a bool becomes 0 or 1.
int64_t wrap_int(int64_t value, DType type);
// Rounds to the nearest value that the float type holds, ties to even.
double round_float(double value, DType type);

// Exact conversions of the 16-bit floats; to 16 bits they round to nearest even, once, from the double.
uint16_t f16_bits(double value);
double f16_value(uint16_t bits);
uint16_t bf16_bits(double value);
double bf16_value(uint16_t bits);

}  // namespace tl
