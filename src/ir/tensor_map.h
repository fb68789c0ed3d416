// A tensor as the asynchronous proxy accesses it: in boxes, each named by its first element.
#pragma once
#include <string>

#include "ir/node.h"

namespace tl {

struct Function;

// Shapes, strides, boxes and coordinates are in row-major order, like all of the IR; the chip counts
// dimensions from the last one.
struct TensorMap {
  std::string name;
  BufferId tensor;
  std::vector<Expr> shape = {},
                    strides = {};  // i64, in elements; empty: the tensor's own, or of a shape row-major
  std::vector<int64_t> box = {};   // what one instruction moves
  // Bytes of a row of the swizzle of 16-byte pieces in shared memory: 32, 64, 128; 0: none. The piece of
  // address x is at x ^ (x / 128 % (swizzle / 16)) * 16.
  int64_t swizzle = 0;
  // Bytes that the L2 cache reads of memory at once where a box needs any of them: 64, 128, 256; 0: as it
  // sees fit.
  int64_t fetch = 0;
  Span span = {};

  int64_t box_elements() const;
};

const TensorMap* find_tensor_map(const Function& f, std::string_view name);
std::vector<Expr> shape_of(const Function& f, const TensorMap& map);
std::vector<Expr> strides_of(const Function& f, const TensorMap& map);
// The rule of the hardware that the map breaks whatever the arguments are, in a sentence; "" if none is known
// to be.
std::string broken_rule(const Function& f, const TensorMap& map);

}  // namespace tl
