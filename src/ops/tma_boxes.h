// A part of a shared tile as the boxes that copies by the tensor memory accelerator (TMA) move.
#pragma once
#include "ops/regions.h"

namespace tl {

// A layout that boxes fill: rows of so many elements, one behind the other; the 16-byte pieces of each
// swizzled.
struct BoxLayout {
  Layout layout;
  int64_t swizzle = 0;                                               // bytes, of the pattern; 0: none
  int64_t width = 0;                                                 // elements
  int64_t alignment() const { return swizzle ? 8 * swizzle : 128; }  // bytes that divide a box's address
};
// All of a tile of this shape, the widest swizzle first; swizzled_panels, or row by row.
std::vector<BoxLayout> box_layouts(const std::vector<int64_t>& shape, int bits);

bool is_multiple(const Expr& e, int64_t of, const Facts& facts);  // for certain

// Of each dimension that moves: the box's extent, and how many boxes there are along it.
struct Boxes {
  std::vector<int64_t> extents, counts;
};
// Moves a region of a tile that lies so, `dims` of its dimensions moving.
struct BoxPlan {
  const BoxLayout& lies;
  const Region& tile;
  std::vector<int64_t> shape;  // of the whole tile
  int64_t element_bytes;
  Moving dims;
  Facts facts;

  // Nullopt, and why, where boxes cannot do it.
  std::optional<Boxes> boxes(std::string& why) const;
  // Where the box of these numbers begins, in elements.
  Expr offset(const Boxes& boxes, const std::vector<Expr>& numbers) const;

 private:
  size_t last() const { return shape.size() - 1; }
  int64_t columns() const { return shape.back(); }
  int64_t rows() const { return shape.size() > 1 ? shape[last() - 1] : 1; }
  int64_t stride(size_t d) const;  // elements; of the last dimension: from one panel to the next
  bool may_begin(size_t d, int64_t step) const;
  std::optional<int64_t> part(size_t d, int64_t extent) const;
  bool plan_row(Boxes& out, std::string& why) const;
  bool plan_others(Boxes& out, std::string& why) const;
};

// That a region of a tensor begins inside it, or behind its end, as a box must that is stored, and a loaded
// one need not: a coordinate, of 32 bits, below 0 is an illegal instruction. Null where that is certain.
Expr begins_inside(const Region& tensor, const Facts& facts);
// The one store where that holds, else the other.
Stmt where_inside(const Expr& inside, const Stmt& by_boxes, const Stmt& by_threads);

// The load of (tensor, tile, barrier) by the accelerator, or the store of (tile, tensor); why_not: "" where
// it is certain to do it, whatever the arguments are (tma_copy.cpp).
Stmt tma_copy_of(const Function& f, const Kernel& k, const Target& target,
                 const std::vector<Operand>& operands, Span span, std::string& why_not);

}  // namespace tl
