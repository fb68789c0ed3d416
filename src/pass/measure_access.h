// What every access to shared and global memory costs, statement by statement: an analysis of a Function at
// machine level, made when a report is asked for and at no other time.
#pragma once
#include <optional>

#include "layout/banks.h"
#include "target/target.h"

namespace tl {

// All accesses of one kernel that are alike: one line of the user's, one buffer, one width, one cost.
struct AccessCost {
  size_t kernel = 0;  // of Function::kernels
  BufferId buffer = {};
  Span span = {};
  bool writes = false;
  std::string_view instruction = {};  // "ldmatrix_x4"; empty for ordinary loads and stores
  int bytes = 0;                      // that one thread moves at once; by ldmatrix: the row it points to
  int parts = 1;      // accesses that this one falls into, because its elements are not consecutive
  int64_t sites = 1;  // places in the code
  int64_t times = 1;  // how often a thread gets there, all sites; 0: known only at run time
  // Of one warp, all parts, at worst; nothing on a target without warps, or where `unknown` says why.
  std::optional<WarpCost> cost = {};
  std::string unknown = {};
};

// In the order of the text.  Extents that are known only at a call are taken to be `usual_extent`.
std::vector<AccessCost> measure_access(const Function& machine, const Target& target);
constexpr int64_t usual_extent = 1024;

// "written 16 bytes a lane: 4 bank cycles, the least"
std::string to_string(const AccessCost& a, Scope scope);

}  // namespace tl
