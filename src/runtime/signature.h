// A function's signature laid out for checking: what check_and_pack computes from texts and formulas at every
// call is here numbers in flat arrays. `bind` either accepts or cannot tell: errors and rare cases are left
// to check_and_pack, which words the message.
#pragma once
#include <array>

#include "runtime/args.h"

namespace tl {

// What a call passes on: fixed arrays, so that it lives on the stack.
struct Bound {
  static constexpr size_t most_params = 64, most_integers = 32;
  std::array<uint64_t, most_params> slots;      // one per parameter: an address, or the bits of a scalar
  std::array<int64_t, most_integers> integers;  // Program::integers
  int device_id = -1;
};

class Signature {
 public:
  Signature(const Program& program, int device_type);  // `program` outlives this
  // True: the arguments have every fact that the text relies on, and are packed.  Allocates nothing.
  bool bind(std::span<const Argument> arguments, Bound& out) const;

 private:
  struct Extent {
    enum class From : uint8_t { constant, integer, formula } from = From::constant;
    int64_t value = 0;
    const Formula* formula = nullptr;
  };
  struct Param {
    bool is_tensor = true, is_written = false, is_used = true;
    uint8_t code = 255, bits = 0;
    int ndim = 0;
    uintptr_t alignment = 1;
    size_t first = 0;  // in `extents`: ndim of the shape, then ndim of the strides
  };
  struct Range {  // of a tensor's memory
    uintptr_t begin, end;
  };
  bool usable = true;
  int device_type, written = 0;
  const Program& program;
  std::vector<Param> params;
  std::vector<Extent> extents;

  void add(const Formula& formula);
  bool holds(const Extent& extent, int64_t value, const Bound& bound) const;
  bool bind_scalar(const Param& param, const Argument& argument, uint64_t& slot) const;
  bool has_type(const Param& param, const TensorView& t, int& device_id) const;
  bool has_form(const Param& param, const TensorView& t, const Bound& bound, Range& range) const;
  bool read_integers(std::span<const Argument> arguments, Bound& out) const;
};

}  // namespace tl
