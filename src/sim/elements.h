// How one element of each type is stored, with the type known at compile time: for the loops that decide an
// executor's speed.  evaluate.h has the same behind pointers.
#pragma once
#include <array>
#include <cstring>

#include "base/error.h"
#include "sim/evaluate.h"

namespace tl::sim {

template <class T>
T bits_at(const std::byte* at) {
  T v;
  std::memcpy(&v, at, sizeof v);
  return v;
}
template <class T>
void put_bits(std::byte* at, T v) {
  std::memcpy(at, &v, sizeof v);
}

template <class T>
struct IntElement {
  static constexpr int bytes = sizeof(T);
  static Scalar get(const std::byte* at) { return scalar(int64_t(bits_at<T>(at))); }
  static void put(std::byte* at, Scalar v) { put_bits(at, T(v.i)); }
};
template <class T>
struct FloatElement {
  static constexpr int bytes = sizeof(T);
  static Scalar get(const std::byte* at) {
    T v = bits_at<T>(at);
    if (std::is_same_v<T, float> && v != v) return scalar(float_value(bits_at<uint32_t>(at), f32));
    return scalar(double(v));
  }
  static void put(std::byte* at, Scalar v) {
    if (std::is_same_v<T, float> && v.d != v.d) return put_bits(at, uint32_t(stored_bits(v.d, f32)));
    put_bits(at, T(v.d));
  }
};
struct BoolElement {
  static constexpr int bytes = 1;
  static Scalar get(const std::byte* at) { return scalar(int64_t(*at != std::byte(0))); }
  static void put(std::byte* at, Scalar v) { *at = std::byte(v.i != 0); }
};
struct F16Element {
  static constexpr int bytes = 2;
  // The exponent moves to its place in an f32, which a product then mends; infinities keep theirs.
  static Scalar get(const std::byte* at) {
    uint32_t h = bits_at<uint16_t>(at), bits = (h & 0x7fff) << 13;
    if ((h & 0x7fff) > 0x7c00) return scalar(float_value(h, f16));
    float v;
    std::memcpy(&v, &bits, sizeof v);
    v *= 0x1p112f;
    std::memcpy(&bits, &v, sizeof v);
    if ((h & 0x7c00) == 0x7c00) bits |= 0x7f800000;
    bits |= (h & 0x8000) << 16;
    std::memcpy(&v, &bits, sizeof v);
    return scalar(double(v));
  }
  static void put(std::byte* at, Scalar v) { put_bits(at, uint16_t(stored_bits(v.d, f16))); }
};
struct Bf16Element {
  static constexpr int bytes = 2;
  static Scalar get(const std::byte* at) {
    uint32_t bits = uint32_t(bits_at<uint16_t>(at)) << 16;
    if ((bits & 0x7fffffff) > 0x7f800000) return scalar(float_value(bits >> 16, bf16));
    float v;
    std::memcpy(&v, &bits, sizeof v);
    return scalar(double(v));
  }
  static void put(std::byte* at, Scalar v) { put_bits(at, uint16_t(stored_bits(v.d, bf16))); }
};

// Floats of 8 and 4 bits: one to a byte, where a program accesses them (pairs are taken apart before).
template <DType::Kind kind, int bits>
struct NarrowElement {
  static constexpr int bytes = 1;
  static constexpr DType type{kind, bits};
  static Scalar get(const std::byte* at) {
    static const auto values = [] {
      std::array<double, 256> all;
      for (size_t i = 0; i < 256; i++) all[i] = float_value(i & ((1 << bits) - 1), type);
      return all;
    }();
    return scalar(values[size_t(*at)]);
  }
  // Rounded it is already, perhaps to infinity.
  static void put(std::byte* at, Scalar v) { *at = std::byte(stored_bits(v.d, type)); }
};
template <bool is_signed>
struct NibbleElement {
  static constexpr int bytes = 1;
  static constexpr DType type = is_signed ? i4 : u4;
  static Scalar get(const std::byte* at) { return scalar(wrap_int(int64_t(*at), type)); }
  static void put(std::byte* at, Scalar v) { *at = std::byte(v.i & 15); }
};

// f(IntElement<int8_t>()) and so on: that of the type.
template <class F>
decltype(auto) with_element(DType type, F f) {
  if (type.is_bool()) return f(BoolElement());
  if (type == bf16) return f(Bf16Element());
  switch (type.kind) {
    case DType::Kind::e4m3:
      return f(NarrowElement<DType::Kind::e4m3, 8>());
    case DType::Kind::e5m2:
      return f(NarrowElement<DType::Kind::e5m2, 8>());
    case DType::Kind::e8m0:
      return f(NarrowElement<DType::Kind::e8m0, 8>());
    case DType::Kind::e2m1:
      return f(NarrowElement<DType::Kind::e2m1, 4>());
    default:
      break;
  }
  if (type.is_float() && type.bits == 16) return f(F16Element());
  if (type.is_float()) return type.bits == 32 ? f(FloatElement<float>()) : f(FloatElement<double>());
  if (type.is_handle()) return f(IntElement<int64_t>());
  internal_check(type.is_int(), "an element of type " + to_string(type));
  switch (type.bits) {
    case 4:
      return type.is_signed() ? f(NibbleElement<true>()) : f(NibbleElement<false>());
    case 8:
      return type.is_signed() ? f(IntElement<int8_t>()) : f(IntElement<uint8_t>());
    case 16:
      return type.is_signed() ? f(IntElement<int16_t>()) : f(IntElement<uint16_t>());
    case 32:
      return type.is_signed() ? f(IntElement<int32_t>()) : f(IntElement<uint32_t>());
    default:
      return f(IntElement<int64_t>());
  }
}

}  // namespace tl::sim
