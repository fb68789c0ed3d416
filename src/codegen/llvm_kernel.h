// One kernel being written as an LLVM function: what its variables and buffers are called, and what is known.
#pragma once
#include <optional>

#include "arith/analysis.h"
#include "arith/facts.h"
#include "codegen/llvm_writer.h"
#include "target/target.h"

namespace tl::llvm {

struct KernelWriter;
// Tiles, and local arrays too large for the stack.
inline bool is_in_arena(const BufferInfo& b) {
  return b.scope == Scope::shared || b.scope == Scope::fragment ||
         (b.scope == Scope::local && b.address >= 0);
}
Value narrow_call(KernelWriter& k, const Call& n);  // llvm_narrow.cpp: to_X, from_X

struct KernelWriter {
  const Function& f;
  const Target& target;
  Writer& w;
  Facts facts;
  bool has_half;                     // the chip converts 16-bit floats
  std::set<BufferId> streamed = {};  // large tensors that the function only writes
  std::map<const ExprNode*, Value> vars = {};
  std::map<BufferId, Value> pointers = {};  // of global and local buffers
  struct LoopLabels {
    std::string next, done;  // where `continue` and `break` of the innermost loop go
  } loop = {};
  Value predicate = {};  // of the arm of a vector select being written; empty: none
  int predicate_lanes = 0;
  Span statement = {};                 // for an expression that has no place of its own
  std::optional<Analysis> known = {};  // under the facts of the statement
  std::unordered_map<const ExprNode*, std::pair<Expr, bool>> fails = {};  // `may_fail`, of the same

  // llvm_expr.cpp
  Value expr(const Expr& e);
  Value binary(BinaryOp op, DType t, const Value& a, const Value& b, const Binary* node);
  Value float_extreme(bool is_min, DType t, const Value& a, const Value& b, const Binary* node);
  Value select(const Select& n);
  Value predicate_of(int lanes);  // the arm's condition, for a value of so many lanes of it
  Value phi_of(DType t, const Value& a, const std::string& from_a, const Value& b, const std::string& from_b);
  Interval range(const Expr& e);
  bool is_nonnegative(const Expr& e);
  bool never_wraps(const Expr& e);      // an i64 that is made of indices, or proven to fit
  bool may_run_untaken(const Expr& e);  // its loads are in bounds and its divisors not zero whatever holds
  bool needs_condition(
      const Expr& e);  // one before it, or a mask: for a quotient, or a load that may lie outside

  // llvm_divide.cpp
  Value divide(const Binary& n, const Value& a, const Value& b);
  bool may_fail(const Expr& e);  // does it divide by what may be 0?

  // llvm_memory.cpp
  Value load(const Load& n);
  void store(const Store& n);
  void store_where(const Store& n);                   // its value is computed under its mask only
  Value address(BufferId buffer, const Expr& index);  // of a scalar or vector index
  bool is_inside(const Load& n);

  // llvm_foreign.cpp
  Value memory_call(const Call& n);

  // llvm.cpp
  void stmt(const Stmt& s);
};

// llvm_exact.cpp
Value exact_call(KernelWriter& k, const Call& n);  // of a row with `exact`
// Unless it holds the block ends, and the call fails.
void require(KernelWriter& k, const Value& holds, const std::string& otherwise);
bool write_message(KernelWriter& k,
                   const Call& n);  // a print, an assertion, an assumption; false: it is none

}  // namespace tl::llvm
