// What is said where tiles do not fit into a block's memory, and what the compiler can do about it by itself.
#pragma once
#include "base/error.h"
#include "ir/kernel.h"
#include "target/target.h"

namespace tl {

// A tile of those that lie one above the other up to the end of what is needed.
struct PlacedTile {
  BufferId buffer;
  std::string name;
  int64_t bytes, elements_bytes;  // with padding, and without
  Span span;
  std::vector<Expr> shape;  // with its slots, if it has some
};

struct Shortage {
  size_t kernel = 0;              // its place in the Function
  int64_t needed = 0, given = 0;  // bytes
  std::string chip;               // that gives them
  std::vector<PlacedTile> tiles = {};
  size_t others = 0;          // that take the same memory at other times
  bool padding = false;       // the tiles would fit if the compiler padded none
  bool is_padded() const;     // one of these tiles is
  bool second_slots = false;  // assign_roles has given some to tiles beside loops
};

// given: the function as it was before all passes; buffers that it does not have are the compiler's.
CompileError too_large(const Shortage& s, const Function* given);

struct TilesTooLarge : CompileError {
  Shortage shortage;
  explicit TilesTooLarge(Shortage s) : CompileError(too_large(s, nullptr)), shortage(std::move(s)) {}
};

}  // namespace tl
