// Consistency checks of instruction rows: run over all targets by the unit tests.
#pragma once
#include <utility>

#include "target/target.h"

namespace tl {

std::pair<int, int> element_of(const OperandFragment& f, int lane, int reg);  // (row, col)
void check_row(const MatrixInstr& row, int warp);  // InternalError naming the element
void check_target(const Target& target);

}  // namespace tl
