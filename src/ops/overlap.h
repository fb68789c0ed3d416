// Do two regions overlap, whatever shapes and types their storage is viewed in?
#pragma once
#include "ops/op.h"

namespace tl {

enum class Meeting : uint8_t {
  apart,    // no byte in common
  same,     // the same elements in the same order
  meets,    // some byte in common
  unknown,  // depends on where they begin, known only at run time
};
Meeting meeting_of(const Function& f, const Region& a, const Region& b, const Facts& facts = {});

// Calls visit with the numbers of each operand that the operator reads and each that it writes to.
void for_each_exchange(const Tile& t, const std::function<void(size_t read, size_t written)>& visit);

// CompileError where an operator would overwrite what it has still to read.
void check_overlap(const Tile& t, const Function& f);

}  // namespace tl
