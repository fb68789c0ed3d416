// Checks a matrix row: each operand's fragment covers its tile exactly once, with the number of registers
// that it declares.
#include <set>

#include "target/check.h"

#include "base/error.h"

namespace tl {
namespace {

void check_operand(const MatrixInstr& row, std::string_view operand, const OperandFragment& f, int rows,
                   int cols, int warp) {
  auto where = [&] { return fmt::format("{}, operand {}", row.intrinsic.name, operand); };
  internal_check(f.rows == rows && f.cols == cols,
                 where() + ": the fragment's extents are not the instruction's");
  internal_check(rows * cols == warp * f.registers, where() + ": elements and registers disagree");
  std::set<std::pair<int, int>> seen;
  for (int lane = 0; lane < warp; lane++)
    for (int reg = 0; reg < f.registers; reg++) {
      auto [i, j] = element_of(f, lane, reg);
      internal_check(
          i >= 0 && i < rows && j >= 0 && j < cols,
          fmt::format("{}: lane {} register {} is ({}, {}), outside the tile", where(), lane, reg, i, j));
      internal_check(seen.insert({i, j}).second,
                     fmt::format("{}: element ({}, {}) is held twice", where(), i, j));
    }
}

}  // namespace

std::pair<int, int> element_of(const OperandFragment& f, int lane, int reg) {
  int i = 0, j = 0;
  for (auto& d : f.digits) {
    int v = (d.from == FragmentDigit::From::lane ? lane : reg) / d.divisor % d.radix;
    i += v * d.row;
    j += v * d.col;
  }
  return {i, j};
}

void check_row(const MatrixInstr& row, int warp) {
  check_operand(row, "A", row.a, row.m, row.k, warp);
  check_operand(row, "B", row.b, row.k, row.n, warp);
  check_operand(row, "C", row.c, row.m, row.n, warp);
}

void check_target(const Target& target) {
  for (auto* row : target.matrix) check_row(*row, target.warp);
  internal_check(
      target.shared_bytes > 0 && target.vector_bytes > 0 && target.default_threads <= target.max_threads,
      fmt::format("{}: numbers that do not fit together", target.name));
}

}  // namespace tl
