// The arguments of a call, and the one place where they are checked.  A call that passes has every fact that
// the generated text relies on: counts, types, shapes, strides, device, alignment, no aliasing of what is
// written.
#pragma once
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/product.h"
#include "codegen/program.h"

namespace tl {

// A borrowed tensor.  Codes and device types are those of DLPack.
struct TensorView {
  void* data = nullptr;
  uint8_t code = 2, bits = 32;  // 0 int, 1 uint, 2 float, 4 bfloat, 6 bool
  uint16_t lanes = 1;
  int ndim = 0;
  const int64_t* shape = nullptr;
  const int64_t* strides = nullptr;  // in elements; null means row-major
  int device_type = 1, device_id = 0;
  bool readonly = false;
  bool fresh = false;  // allocated for this call: unwritten
};

// In elements; where none are given, as in row-major order.
inline int64_t stride_of(const TensorView& t, int d) {
  return t.strides ? t.strides[d] : product({t.shape + d + 1, size_t(t.ndim - d - 1)});
}

// Nothing means None; a whole number from 2^63 on is a uint64_t.
using Argument = std::variant<std::monostate, TensorView, int64_t, double, uint64_t>;

// A call that does not fit its function: the caller's fault.
struct ArgumentError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Packed {
  std::vector<uint64_t> slots;    // one per parameter: an address, or the bits of a scalar
  std::vector<int64_t> integers;  // Program::integers
  int device_id = -1;             // of the tensors; -1 if there are none
};

// Throws ArgumentError.  Allocates nothing when `out` is used again.
void check_and_pack(const Program& program, std::span<const Argument> arguments, int device_type,
                    Packed& out);

// The largest power of two (at most 256) that divides every tensor's address.  Below Program::alignment the
// call needs another variant of the function.
int common_alignment(std::span<const Argument> arguments);

// The shape of one tensor parameter, from the arguments that are given (the others are nothing).
std::vector<int64_t> infer_shape(const Program& program, std::span<const Argument> arguments, size_t param);

// Whether a tensor holds what a parameter of that type asks for.
bool holds_elements(std::string_view name, const TensorView& t);
// As Python spells it: "float32" for "f32".
std::string python_dtype(std::string_view name);
// "f32" from DLPack's numbers, and back; code 255 for a name that no tensor can have.
std::string dtype_name(uint8_t code, uint8_t bits, uint16_t lanes = 1);
struct DlType {
  uint8_t code = 255, bits = 0;
};
DlType dl_type(std::string_view name);

}  // namespace tl
