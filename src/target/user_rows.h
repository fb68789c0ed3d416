// Matrix instructions that a user adds while the process runs.  Each is checked when it is added, as the
// built-in rows are by the tests; a compilation uses those that exist when it begins (with_user_rows).
#pragma once
#include <functional>
#include <memory>

#include "target/target.h"

namespace tl {

// What an instruction means, on row-major tiles: (A, B, C) -> D.
using MatrixEval = std::function<std::vector<double>(std::span<const double> a, std::span<const double> b,
                                                     std::span<const double> c)>;

// Where the elements of an operand lie: for each (row, column, copy), in row-major order, its lane and
// register.
struct Placement {
  std::vector<int64_t> extents;  // rows, columns, copies
  std::vector<int64_t> points;
};

struct UserMatrix {
  std::vector<int64_t> shape;  // m, n, k
  DType a_type, b_type, c_type;
  Placement a, b, c;  // m×k, k×n, m×n
  std::string ptx;    // the mnemonic
  MatrixEval eval;    // null: A · B + C
  int warp = 32;      // lanes that execute it together
};

// CompileError (no place) naming the element at which an operand does not lie once in the registers of a
// warp's lanes, or at which `eval` is not A · B + C.  A row that is there already becomes the latest, with
// the new `eval`.
const MatrixInstr& register_matrix(const UserMatrix& made);
// Compilations from now on do not take it.  CompileError (no place) if there is none of that name.
void unregister_matrix(std::string_view name);

// The target with the rows added so far before its own, the latest first, if they are for it.
Target with_user_rows(Target target);
const MatrixInstr* find_user_row(std::string_view name);
std::shared_ptr<const MatrixEval> eval_of(const MatrixInstr& row);  // null: A · B + C
// All that a binary can depend on of those rows of a target that multiply tiles of types among these.
std::string user_rows_text(const Target& target, const std::vector<DType>& types);

}  // namespace tl
