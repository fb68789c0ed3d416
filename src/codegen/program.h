// What the runtime may know of a compiled function: text to build, entries to launch, arguments to check.
// Nothing here refers to the IR; this file is the whole border between the compiler and the runtime.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tl {

// An integer formula over the integer arguments of a call, as a postfix program.  A constant has one step.
struct Formula {
  enum class Op : uint8_t {
    constant,
    integer,
    add,
    sub,
    mul,
    floordiv,
    floormod,
    min,
    max,
    eq,
    ne,
    lt,
    le,
    both,
    either
  };
  struct Step {
    Op op = Op::constant;
    int64_t value = 0;  // constant: the number; integer: an index into Program::integers
    bool operator==(const Step&) const = default;
  };
  std::vector<Step> steps;
  static Formula constant(int64_t value) { return {{{Op::constant, value}}}; }
  bool operator==(const Formula&) const = default;
};
// Throws std::range_error on division by zero and where the result does not fit.
int64_t evaluate(const Formula& formula, std::span<const int64_t> integers);
bool names_integer(const Formula& formula, size_t integer);
struct IntegerSource;
// "(M + 127) // 128", with the names of the integers.
std::string formula_text(const Formula& formula, std::span<const IntegerSource> integers);

// One argument of a call, in the order of the function's signature.
struct ParamSpec {
  std::string name;
  bool is_tensor = true;
  std::string dtype;                  // "f32", "bf16", "i8", …; of the element, or of the scalar
  int bits = 0;                       // of one element
  std::vector<Formula> shape = {};    // tensor: one per dimension
  std::vector<Formula> strides = {};  // tensor: in elements, row-major where the user gave none
  bool is_written = false;            // some kernel stores to it
  bool is_used = true;                // some kernel names it; a tensor that none does may be None
  bool may_overlap = false;           // others of a call, in all kernels that name it
  bool operator==(const ParamSpec&) const = default;
};

// Where an integer argument's value comes from: a scalar parameter, or one extent or stride of a tensor,
// which is factor times the integer plus offset.
struct IntegerSource {
  std::string name = {};
  int param = 0;
  enum class From : uint8_t { value, extent, stride } from = From::value;
  int dim = 0;
  int64_t factor = 1, offset = 0;

  bool is_whole() const { return factor == 1 && offset == 0; }
  // Its value where `read` stands; one that does not solve it fails the check of the shape.
  int64_t solve(int64_t read) const {
    return is_whole() ? read : read < offset ? 0 : (read - offset) / factor;
  }
  bool operator==(const IntegerSource&) const = default;
};

// A buffer that the runtime allocates for the time of the call.
struct Workspace {
  std::string name;
  Formula bytes;
  bool zeroed = false;  // all bytes are 0 when the call begins; else they are anything
  bool operator==(const Workspace&) const = default;
};

// How a GPU's copy engine sees a tensor: made for each call, and passed by value.  In row-major order.
struct TensorMapSpec {
  std::string name;
  bool of_workspace = false;
  int index = 0;      // of the parameter or the workspace
  std::string dtype;  // of an element
  int bits = 0;
  std::vector<Formula> shape = {}, strides = {};  // in elements
  std::vector<int64_t> box;
  int swizzle = 0;  // bytes; 0, 32, 64, 128
  int fetch = 0;    // of memory by L2, bytes; 0, 64, 128, 256
  bool operator==(const TensorMapSpec&) const = default;
};

// One kernel of the function.  A launch passes 8-byte slots: `args` name them, in order.
struct EntrySpec {
  std::string name;           // the symbol in the text
  std::vector<Formula> grid;  // 1 to 3 block counts, x first
  int threads[3] = {1, 1, 1};
  int64_t shared_bytes = 0;  // GPU: dynamic shared memory of a block
  int64_t arena_bytes = 0;   // CPU: private memory of a block, 64-byte aligned
  bool cooperative = false;  // GPU: its blocks wait for one another, so all must run at once
  bool dependent = false;  // GPU: it waits itself for the kernel before (pdl_sync), and so may begin earlier
  struct Arg {
    enum class From : uint8_t { param, workspace, integer, map } from = From::param;
    int index = 0;  // tensor: its address; scalar: its bits; integer: an i64; map: the address of its bytes
    bool operator==(const Arg&) const = default;
  };
  std::vector<Arg> args;
  bool operator==(const EntrySpec&) const = default;
};

// What must hold for the integers of a call before anything is launched.
struct CheckSpec {
  Formula holds;     // 0: it does not
  std::string text;  // what is said then
  bool operator==(const CheckSpec&) const = default;
};

// A compiled function.  CPU entries have the C signature
//   void entry(const uint64_t* slots, int64_t bx, int64_t by, int64_t bz, void* arena)
// and GPU entries take the slots as kernel parameters, but of a tensor map, the last ones, what the slot
// points to.
struct Program {
  std::string name;
  std::string language;  // the name of its row in target/languages.cpp
  std::string chip;      // "sm_80" …; for llvm the CPU name that LLVM knows ("haswell")
  std::string described =
      {};            // the chip that the text is written for, where it is an earlier one than `chip`
  std::string text;  // the source, complete
  std::vector<std::string> flags;  // for the device compiler
  std::vector<ParamSpec> params;
  std::vector<IntegerSource> integers;
  std::vector<Workspace> workspaces;
  std::vector<TensorMapSpec> maps;
  std::vector<EntrySpec> entries;
  std::vector<CheckSpec> checks = {};
  std::vector<std::string> warnings = {};  // for whoever compiles it
  int alignment = 16;  // every tensor argument's address must be divisible by this (a fact the text uses); 0:
                       // by the size of its element
  bool operator==(const Program&) const = default;
};

// What is said of the first check that does not hold for these integers; "" if all do.
std::string broken_check(const Program& program, std::span<const int64_t> integers);

// As bytes for the disk cache, and back; nothing if the bytes are not exactly one Program.
std::string serialize(const Program& program);
std::optional<Program> deserialize_program(std::string_view bytes);

}  // namespace tl
