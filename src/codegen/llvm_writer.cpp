// Types, constants and instructions of LLVM IR as text.
#include "codegen/llvm_writer.h"

#include <fmt/format.h>

#include <bit>
#include <cctype>
#include <cmath>

namespace tl::llvm {
namespace {

std::string lane_text(DType t) {
  if (t.is_bool()) return "i1";
  if (t.is_int() || is_half(t)) return fmt::format("i{}", t.bits);
  if (t.is_float()) return t.bits == 64 ? "double" : "float";
  internal_check(t.is_handle(), "an LLVM type for " + to_string(t));
  return "ptr";
}

std::string with_lanes(const std::string& lane, int lanes) {
  return lanes == 1 ? lane : fmt::format("<{} x {}>", lanes, lane);
}

}  // namespace

std::string type_text(DType t) { return with_lanes(lane_text(t), t.lanes); }
std::string memory_text(DType t) { return with_lanes(t.is_bool() ? "i8" : lane_text(t), t.lanes); }

std::string mangled(DType t) {
  bool real = t.is_float() && !is_half(t);
  std::string lane = t.is_bool() ? "i1" : fmt::format("{}{}", real ? "f" : "i", t.bits);
  return t.lanes == 1 ? lane : fmt::format("v{}{}", t.lanes, lane);
}

Value splat_constant(const Value& lane, const std::string& lane_type, int lanes) {
  if (lanes == 1) return lane;
  if (lane == "0" || lane == "0.0" || lane == "false") return "zeroinitializer";
  std::string s = "<";
  for (int i = 0; i < lanes; i++) s += fmt::format("{}{} {}", i ? ", " : "", lane_type, lane);
  return s + ">";
}

Value int_constant(int64_t value, DType t) {
  Value lane = t.is_bool() ? (value ? "true" : "false") : fmt::format("{}", wrap_int(value, t.scalar()));
  return splat_constant(lane, lane_text(t), t.lanes);
}

Value float_constant(double value, DType t) {
  Value lane;
  if (is_half(t))
    lane = fmt::format("{}", stored_bits(round_float(value, t.scalar()), t.scalar()));
  else if (value == std::floor(value) && std::fabs(value) < 1e6 && !std::signbit(value))
    lane = fmt::format("{:.1f}", value);
  else
    lane = fmt::format("0x{:016X}", std::bit_cast<uint64_t>(round_float(value, t.scalar())));
  return splat_constant(lane, lane_text(t), t.lanes);
}

void Writer::begin_function() {
  text.clear();
  allocas.clear();
  block = "entry";
  registers = labels = 0;
  names.clear();
  scopes.assign(1, {});
}

Value Writer::name(const std::string& hint) {
  std::string clean;
  for (char c : hint) clean += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (clean.empty() || std::isdigit(static_cast<unsigned char>(clean[0]))) clean = "x" + clean;
  int n = names[clean]++;
  return n ? fmt::format("%{}.{}", clean, n) : "%" + clean;
}

void Writer::line(std::string_view instruction) {
  text += "  ";
  text += instruction;
  text += '\n';
}

Value Writer::fresh(std::string_view instruction) {
  Value name = fmt::format("%.{}", registers++);
  text += fmt::format("  {} = {}\n", name, instruction);
  return name;
}

Value Writer::pure(std::string instruction) {
  for (auto& scope : scopes)
    if (auto it = scope.find(instruction); it != scope.end()) return it->second;
  Value name = fresh(instruction);
  scopes.back().emplace(std::move(instruction), name);
  return name;
}

bool Writer::is_first(std::string check) {
  for (auto& scope : scopes)
    if (scope.contains(check)) return false;
  return scopes.back().emplace(std::move(check), "").second;
}

std::string Writer::new_label(std::string_view hint) { return fmt::format("{}.L{}", hint, labels++); }

void Writer::label(const std::string& name) {
  text += name;
  text += ":\n";
  block = name;
}
void Writer::jump(const std::string& to) { line(fmt::format("br label %{}", to)); }
void Writer::branch(const Value& cond, const std::string& yes, const std::string& no) {
  line(fmt::format("br i1 {}, label %{}, label %{}", cond, yes, no));
}

Value Writer::op(std::string_view opcode, DType t, const Value& a, const Value& b) {
  return pure(fmt::format("{} {} {}, {}", opcode, type_text(t), a, b));
}
Value Writer::compare(std::string_view opcode, DType t, const Value& a, const Value& b) {
  return op(opcode, t, a, b);
}
Value Writer::convert(std::string_view opcode, DType from, const Value& a, DType to) {
  return pure(fmt::format("{} {} {} to {}", opcode, type_text(from), a, type_text(to)));
}
Value Writer::select(DType t, int cond_lanes, const Value& cond, const Value& a, const Value& b) {
  std::string type = type_text(t);
  return pure(fmt::format("select {} {}, {} {}, {} {}", type_text(boolean.with_lanes(cond_lanes)), cond, type,
                          a, type, b));
}

Value Writer::splat(DType scalar, const Value& a, int lanes) {
  if (lanes == 1) return a;
  std::string lane = type_text(scalar);
  if (a[0] != '%' && a[0] != '@') return splat_constant(a, lane, lanes);
  std::string vector = with_lanes(lane, lanes);
  Value first = pure(fmt::format("insertelement {} poison, {} {}, i64 0", vector, lane, a));
  return pure(fmt::format("shufflevector {} {}, {} poison, <{} x i32> zeroinitializer", vector, first, vector,
                          lanes));
}

Value Writer::llvm_intrinsic(std::string_view name, DType t, const std::vector<Value>& args) {
  std::string type = type_text(t), types, values;
  for (auto& a : args) {
    types += (types.empty() ? "" : ", ") + type;
    values += fmt::format("{}{} {}", values.empty() ? "" : ", ", type, a);
  }
  std::string symbol = fmt::format("@{}.{}", name, mangled(t));
  declarations.insert(fmt::format("declare {} {}({})", type, symbol, types));
  return pure(fmt::format("call {} {}({})", type, symbol, values));
}

Value Writer::libm(std::string_view name, DType t, const std::vector<Value>& args) {
  std::string lane = lane_text(t), vector = type_text(t), types;
  std::string symbol = fmt::format("@{}{}", name, t.bits == 32 ? "f" : "");
  for (size_t i = 0; i < args.size(); i++) types += (i ? ", " : "") + lane;
  declarations.insert(fmt::format("declare {} {}({}) nounwind willreturn memory(none)", lane, symbol, types));
  Value result = "poison";
  for (int l = 0; l < t.lanes; l++) {
    std::string values;
    for (auto& a : args) {
      Value x = t.lanes == 1 ? a : pure(fmt::format("extractelement {} {}, i64 {}", vector, a, l));
      values += fmt::format("{}{} {}", values.empty() ? "" : ", ", lane, x);
    }
    Value y = pure(fmt::format("call {} {}({})", lane, symbol, values));
    result = t.lanes == 1
                 ? y
                 : pure(fmt::format("insertelement {} {}, {} {}, i64 {}", vector, result, lane, y, l));
  }
  return result;
}

}  // namespace tl::llvm
