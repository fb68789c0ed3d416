// Names of element types: the compiler's, DLPack's numbers, Python's words; and which of them a tensor holds.
#include <fmt/format.h>

#include "runtime/args.h"

namespace tl {

// The types of DLPack that have a code of their own.  tf32 is stored as f32; pairs of 4 bits as bytes.
struct NarrowFloat {
  const char* name;
  DlType type;
};
static constexpr NarrowFloat narrow_floats[] = {
    {"e4m3", {10, 8}}, {"e5m2", {12, 8}}, {"e8m0", {14, 8}}, {"e2m1", {17, 4}}};

// Two elements of 4 bits to a byte: "i4x2", "u4x2", "e2m1x2".
static bool is_pairs(std::string_view name) { return name == "i4x2" || name == "u4x2" || name == "e2m1x2"; }

bool holds_elements(std::string_view name, const TensorView& t) {
  DlType type = dl_type(name);
  if (is_pairs(name))
    return t.lanes == 1 ? t.bits == 8 && t.code <= 1 : t.code == 17 && t.bits == 4 && t.lanes == 2;
  return t.code == type.code && t.bits == type.bits && t.lanes == 1;
}

std::string python_dtype(std::string_view name) {
  // clang-format off
  static constexpr std::pair<std::string_view, std::string_view> spelled[] = {
      {"i", "int"}, {"u", "uint"}, {"f", "float"},
      {"bf", "bfloat"}, {"tf", "tfloat"},
      {"e4m3", "float8_e4m3fn"}, {"e5m2", "float8_e5m2"},
      {"e8m0", "float8_e8m0fnu"}, {"e2m1", "float4_e2m1fn"}};
  // clang-format on
  for (auto [brief, whole] : spelled)
    if (name.starts_with(brief)) return fmt::format("{}{}", whole, name.substr(brief.size()));
  return std::string(name);
}

std::string dtype_name(uint8_t code, uint8_t bits, uint16_t lanes) {
  for (const NarrowFloat& n : narrow_floats)
    if (n.type.code == code) return lanes == 1 ? n.name : fmt::format("{}x{}", n.name, lanes);
  static const char* const prefixes[] = {"i", "u", "f", "handle", "bf", "complex", "bool"};
  std::string name = code < 7 ? prefixes[code] : fmt::format("dlpack{}_", code);
  if (code != 6) name += std::to_string(bits);
  if (lanes != 1) name += fmt::format("x{}", lanes);
  return name;
}

DlType dl_type(std::string_view name) {
  if (name == "bool") return {6, 8};
  if (name == "tf32") return {2, 32};
  if (is_pairs(name)) return {name[0] == 'i' ? uint8_t(0) : uint8_t(1), 8};
  for (const NarrowFloat& n : narrow_floats)
    if (name == n.name) return n.type;
  DlType type;
  size_t digits = name.starts_with("bf") ? 2 : 1;
  if (name.size() <= digits || name.size() > digits + 2) return type;
  int bits = 0;
  for (char c : name.substr(digits)) {
    if (c < '0' || c > '9') return type;
    bits = bits * 10 + (c - '0');
  }
  if (digits == 2)
    type.code = 4;
  else if (name[0] == 'i')
    type.code = 0;
  else if (name[0] == 'u')
    type.code = 1;
  else if (name[0] == 'f')
    type.code = 2;
  type.bits = uint8_t(bits);
  return type;
}

}  // namespace tl
