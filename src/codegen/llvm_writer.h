// The text of one LLVM function while it is written.  Registers are `%.7` or, where a hint is known, `%k` or
// `%k.1`, labels `for.L2`: the three never meet.  A pure instruction that was written before, in a place that
// dominates this one, is not written again: control flow is structured, so "dominates" means "in this scope
// or one around it".
//
// How our types look in LLVM: a bool is i1 in a register and i8 in memory; f16 and bf16 are i16 everywhere
// and are computed on as float (LLVM 16 to 22 disagree on half and bfloat where the chip has no
// instructions).
#pragma once
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "ir/dtype.h"

namespace tl::llvm {

using Value = std::string;  // a register or a constant, as it stands in the text

std::string type_text(DType type);    // "<8 x float>", "i1"
std::string memory_text(DType type);  // the same with i8 for bool
std::string mangled(DType type);      // "v8f32", as intrinsics are suffixed; of the register type
Value int_constant(int64_t value, DType type);
Value float_constant(double value, DType type);
Value splat_constant(const Value& lane, const std::string& lane_type, int lanes);
inline bool is_half(DType t) { return t.is_float() && t.bits == 16; }

struct Writer {
  std::string text;                    // instructions so far
  std::string allocas;                 // of the entry block
  std::string block = "entry";         // the label that the next instruction is under
  std::set<std::string> declarations;  // shared by the functions of a module
  int registers = 0, labels = 0;
  bool fast = false;  // quick forms will do: denormals are 0, a quotient may be a product with the reciprocal
  bool has_scale = false;  // the chip multiplies vectors by powers of two
  std::vector<std::unordered_map<std::string, Value>> scopes{1};

  std::unordered_map<std::string, int> names;  // hints taken, and how often

  void begin_function();
  Value name(const std::string& hint);  // a register called like this, or nearly
  void open_scope() { scopes.emplace_back(); }
  void close_scope() { scopes.pop_back(); }

  void line(std::string_view instruction);
  // Without effects and not a load: the register of an equal instruction, or a new one.
  Value pure(std::string instruction);
  Value fresh(std::string_view instruction);
  bool is_first(std::string check);  // and no equal check dominates this place
  std::string new_label(std::string_view hint);
  void label(const std::string& name);
  void jump(const std::string& to);
  void branch(const Value& cond, const std::string& yes, const std::string& no);

  // Shorthands for pure instructions.  `t` is the type of the operands.
  Value op(std::string_view opcode, DType t, const Value& a, const Value& b);
  Value compare(std::string_view opcode_and_predicate, DType t, const Value& a, const Value& b);
  Value convert(std::string_view opcode, DType from, const Value& a, DType to);
  Value select(DType t, int cond_lanes, const Value& cond, const Value& a, const Value& b);
  Value splat(DType scalar, const Value& a, int lanes);
  // An intrinsic whose result and operands are all of type t; `name` without the suffix: "llvm.sqrt".
  Value llvm_intrinsic(std::string_view name, DType t, const std::vector<Value>& args);
  // A function of the C library, lane by lane.
  Value libm(std::string_view name, DType t, const std::vector<Value>& args);
};

// llvm_math.cpp: conversions between any two types, and the scalar functions.
Value convert(Writer& w, DType from, const Value& a, DType to, bool has_half);
Value call_function(Writer& w, std::string_view name, DType t, const std::vector<Value>& args, bool has_half);

}  // namespace tl::llvm
