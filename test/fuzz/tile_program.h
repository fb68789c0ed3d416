// Random tile programs as text: chains of copy, elementwise loops, reductions, scans, transposes, reshapes and gemm over
// tiles of any shape, that fit a block by the count of their bytes.  All values stay small integers, so that every order of arithmetic gives
// the same result.
#pragma once
#include <map>
#include <random>
#include <string>
#include <vector>

namespace tl::fuzz {

struct Tile {
  std::string name, scope;
  std::string type;
  std::vector<int64_t> shape;
  std::string storage = name;   // of the tile whose memory it is
  int64_t size() const;
};

struct Program {
  std::string text = {};
  std::map<std::string, double> given = {};   // extents and scalars that a call brings
  double tolerance = 0;
  int64_t threads = 0, shared_bytes = 0, registers = 0;   // registers: 32-bit ones of fragments, per thread
  struct Tensor {
    std::string name, type;
    std::vector<int64_t> shape;
    bool output = false;
  };
  std::vector<Tensor> tensors;
};

// What a seed gives; the same on every machine.
Program random_program(uint64_t seed, int64_t shared_limit, int64_t register_limit);

}  // namespace tl::fuzz
