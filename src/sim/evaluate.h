// Expressions as closures: a tree is walked once, into calls that no longer ask what each node is.  Integers
// and bools are computed as int64 and wrapped, floats as double and rounded to their type at each operation.
#pragma once
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>

#include "ir/intrinsic.h"
#include "ir/kernel.h"

namespace tl {

inline Scalar scalar(int64_t i) { return {.i = i}; }
inline Scalar scalar(double d) { return {.d = d}; }

// How one element stands in memory.
struct ElementAccess {
  Scalar (*get)(const std::byte* at);
  void (*put)(std::byte* at, Scalar value);
};
const ElementAccess& element_access(DType type);

// Those of a buffer, by their offset: of four bits two to a byte in shared memory, so that a view of another
// type finds its bits; elsewhere one to a byte at least.
struct BufferAccess {
  ElementAccess element;
  int64_t bytes;
  bool pairs;
  Scalar get(const std::byte* data, int64_t offset) const {
    if (!pairs) return element.get(data + offset * bytes);
    std::byte half = data[offset / 2] >> (offset % 2 * 4) & std::byte(15);
    return element.get(&half);
  }
  void put(std::byte* data, int64_t offset, Scalar value) const {
    if (!pairs) return element.put(data + offset * bytes, value);
    std::byte half{}, &byte = data[offset / 2];
    element.put(&half, value);
    byte = (byte & std::byte(offset % 2 ? 15 : 240)) | (half & std::byte(15)) << (offset % 2 * 4);
  }
};
BufferAccess buffer_access(const BufferInfo& b);

int64_t truncated(double value, DType type);   // the cast of a float to an integer
Scalar safe_scalar(const BufferInfo& tensor);  // what a read outside of it gives

// A buffer while it exists.
struct Memory {
  std::byte* data = nullptr;
  std::vector<int64_t> shape, strides;  // in elements
  std::vector<std::byte> owned = {};    // of tiles and workspaces
};

// A float that was cast to an integer which cannot hold it: whose value has no meaning, wherever it is used.
struct Misfit {
  double value = 0;
  DType type = {};
  Span span = {};
  [[noreturn]] void refuse(std::string_view how, const std::string& where) const;
};

// What running code sees.  `flow`: a jump was taken, and what is left of the loop or the block does not run.
enum class Flow : uint8_t { on, broken, continued, returned };
struct Frame {
  std::vector<Scalar> vars;     // by slot
  std::vector<Memory> buffers;  // by id
  std::string where;            // "block (1, 0) of main", for messages
  Flow flow = Flow::on;
  // Of the operands of a division: a 0 that was read outside of its tensor is no divisor.
  bool read_outside = false;
  std::set<size_t> named_outside = {};  // the variables whose values were made of such
  // What an expression has met of that kind; the variables that hold it, and elements of tiles, by their
  // addresses.
  std::optional<Misfit> misfit = {};
  std::unordered_map<size_t, Misfit> named_misfits = {};
  std::unordered_map<const std::byte*, Misfit> held_misfits = {};
  void find_misfit(const std::byte* at) {
    if (auto held = held_misfits.find(at); held != held_misfits.end()) misfit = held->second;
  }
  void refuse_misfit(std::string_view how) const {
    if (misfit) misfit->refuse(how, where);
  }
};

// At the end of an iteration after a jump: does it leave the loop?
inline bool leaves(Frame& x) {
  Flow flow = x.flow;
  if (flow != Flow::returned) x.flow = Flow::on;
  return flow != Flow::continued;
}

using Code = std::function<Scalar(Frame&)>;

struct ExprCompiler {
  const Function& f;
  std::unordered_map<const ExprNode*, size_t> slots = {};
  std::set<size_t> reads_outside = {};  // slots of names whose values load from tensors
  std::set<size_t> misfits = {};        // of names whose values may hold a Misfit
  Span statement = {};                  // for an expression that has no place of its own
  // What a call does that only its executor knows; null where it is no such call.
  std::function<Code(const Call&, Span)> instruction = {};

  size_t slot_of(const Expr& var);  // the same for the same variable
  Code operator()(const Expr& e);
  // The offset in elements.  Outside a tensor it is `outside` (a load gives 0, a store is dropped); outside a
  // tile it is the user's error, at `span`.
  static constexpr int64_t outside = INT64_MIN;
  std::function<int64_t(Frame&)> offset(BufferId buffer, const std::vector<Expr>& index, Span span);

 private:
  Code named(const Var& n);
};

// evaluate_memory.cpp
Code atomic_code(ExprCompiler& compile, const Call& n, Span span);
Code foreign_code(ExprCompiler& compile, const Call& n, Span span);

[[noreturn]] void refuse_thread_level(Span span, std::string_view what);

}  // namespace tl
