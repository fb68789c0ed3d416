// Random tile programs as text: every tile operator, loops, conditions and dtype, over tiles of any shape
// that fit a block by the count of their bytes, of tensors that need not be their multiples.  Values stay
// small integers, so that every order of arithmetic gives the same result; those that went through inexact
// functions are marked, decide nothing, and are compared within the bound of their types.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tl::fuzz {

struct Program {
  std::string text = {};
  std::map<std::string, double> given = {};  // extents and scalars that a call brings
  double tolerance = 0;                      // 0: what each type explains
  std::vector<std::string> skip = {};        // passes
  std::string fault = {};                    // the line that is to be refused
};

// What a seed gives; the same on every machine.  Teams are of whole warps.
Program random_program(uint64_t seed, int64_t shared_limit, int64_t register_limit, int64_t warp = 32);
// Programs that only move values, on any bits.
Program random_moves(uint64_t seed, int64_t shared_limit, int64_t register_limit);
// Tiles that move by the tensor memory accelerator (boxes.cpp).
Program random_boxes(uint64_t seed);
// The same as random_program, with one fault, which is to be refused at its line.
Program faulty_program(uint64_t seed, int64_t shared_limit, int64_t register_limit);

}  // namespace tl::fuzz
