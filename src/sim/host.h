// The arguments of a call, for both executors: tensors and scalars of the caller, the values of the variables
// that they determine, the resulting shapes and strides.
#pragma once
#include <span>

#include "ops/op.h"
#include "sim/evaluate.h"

namespace tl {

struct HostArg {
  void* data = nullptr;             // a tensor's first element, or a scalar's value in its own type
  std::vector<int64_t> shape = {};  // of a tensor; may be left out where no extent is known only at run time
  std::vector<int64_t> strides = {};              // in elements; the same where no stride is
  std::pair<std::byte*, std::byte*> memory = {};  // a tensor's first byte, and the end; also of a pointer's
  bool fresh = false;                             // a tensor that was allocated for this call: unwritten
};

struct Host {
  const Function& f;
  ExprCompiler compile;
  Frame frame = {};
  std::unordered_map<const ExprNode*, std::pair<Expr, Code>> cache = {};  // of expressions asked for again
  std::vector<std::pair<std::byte*, std::byte*>> fresh = {};  // memory that is unwritten before the call
  std::vector<std::pair<std::byte*, std::byte*>> arguments =
      {};  // the memory of the call's tensors: first byte, end

  explicit Host(const Function& f);
  Host(const Host&) = delete;

  Scalar run(const Expr& e);  // over variables that have a value
  int64_t integer(const Expr& e);
  Array value(const Expr& e);  // of one element
  void set(const Expr& var, Scalar value);
  // One argument per parameter; CompileError where they do not fit the function.
  void bind(std::span<const HostArg> args);
  void shape_of(Memory& m, const BufferInfo& b);
  // Allocates a buffer, poisoned: floats are NaN, all else bytes 0xAA.
  void begin(BufferId id);
  // A tensor made from an address, which must lie in an argument.
  void begin_at(BufferId id, int64_t address, Span span);

 private:
  void bind_variables(std::span<const HostArg> args);
  void agree(const std::string& name, std::string_view what, const Memory& m,
             const std::vector<int64_t>& wanted, const std::vector<int64_t>& given) const;
};

}  // namespace tl
