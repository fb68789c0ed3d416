// One kernel being written as an LLVM function: what its variables and buffers are called, and what is known.
#pragma once
#include "arith/facts.h"
#include "codegen/llvm_writer.h"
#include "target/target.h"

namespace tl::llvm {

struct KernelWriter;
Value narrow_call(KernelWriter& k, const Call& n);  // llvm_narrow.cpp: to_X, from_X

struct KernelWriter {
  const Function& f;
  const Target& target;
  Writer& w;
  Facts facts;
  bool has_half;  // the chip converts 16-bit floats
  std::set<BufferId> streamed = {};  // large tensors that the function only writes
  std::map<const ExprNode*, Value> vars = {};
  std::map<BufferId, Value> pointers = {};  // of global and local buffers
  struct LoopLabels {
    std::string next, done;  // where `continue` and `break` of the innermost loop go
  } loop = {};
  Value predicate = {};                     // of the arm of a vector select being written; empty: none
  int predicate_lanes = 0;

  // llvm_expr.cpp
  Value expr(const Expr& e);
  Value binary(BinaryOp op, DType t, const Value& a, const Value& b, const Binary* node);
  Value select(const Select& n);
  Value phi_of(DType t, const Value& a, const std::string& from_a, const Value& b, const std::string& from_b);
  bool is_nonnegative(const Expr& e) const;
  bool may_run_untaken(
      const Expr& e) const;  // its loads are in bounds and its divisors not zero whatever holds

  // llvm_memory.cpp
  Value load(const Load& n);
  void store(const Store& n);
  Value address(BufferId buffer, const Expr& index);  // of a scalar or vector index
  bool is_inside(const Load& n) const;

  // llvm_foreign.cpp
  Value memory_call(const Call& n);

  // llvm.cpp
  void stmt(const Stmt& s);
};

// llvm_exact.cpp
Value exact_call(KernelWriter& k, const Call& n);     // of a row with `exact`
bool write_message(KernelWriter& k, const Call& n);  // a print, an assertion, an assumption; false: it is none

}  // namespace tl::llvm
