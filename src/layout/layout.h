// Where an element lives.  A Layout maps the indices of a tile to numbers: an offset in memory, or (Fragment)
// a thread and a register.  It always has the paper's form, output expressions over the inputs (IndexMap),
// and where one exists a *digit form*: each input split into mixed-radix digits, each digit sent to a stride
// of one output, possibly XORed with other digits.
//
//   row-major 8×32                  i: one digit of radix 8, stride 32;   j: radix 32, stride 1
//   the same, 16-byte chunks of     i: radix 8, stride 32;                j: radix 8 stride 1,
//   f16 XORed with the row          and (j / 8) % 4 ^ i % 4, stride 8
//   padded                          i: radix 8, stride 40
//
// Questions (equal? injective? inverse?) are answered from the digits, else from the table of all points:
// tile shapes are constants, so nothing is ever "proven".  The questions that users may ask are in
// layout/algebra.h; one without an answer is a CompileError without a position, which the front adds.
#pragma once
#include <memory>

#include "arith/simplify.h"
#include "base/product.h"
#include "ir/build.h"

namespace tl {

struct Digit {  // (x[input] / divisor) % radix
  int input = 0;
  int64_t divisor = 1, radix = 1;
  bool operator==(const Digit&) const = default;
};
struct Term {  // adds stride * (digit ^ xors…) to one output
  int output = 0;
  int64_t stride = 1;
  Digit digit;
  std::vector<Digit> xors = {};  // each of radix <= digit.radix, powers of two
  bool operator==(const Term&) const = default;
};

struct Layout {
  std::vector<int64_t> extents;                 // of the inputs
  std::vector<int64_t> ranges = {};             // of the outputs: one more than the largest value taken
  std::vector<Expr> vars = {};                  // one per input
  std::vector<Expr> outputs = {};               // over vars
  std::optional<std::vector<Term>> terms = {};  // the digit form
  // Of a layout without digits whose points were counted: the table.  Its outputs may then be empty (an
  // inverse that no expression says): such a layout answers questions, but code cannot be written with it.
  std::shared_ptr<const std::vector<int64_t>> points = nullptr;

  IndexMap map() const;  // CompileError if there are no expressions
  int64_t size() const;  // number of points
};

// ── makers ────────────────────────────────────────────────────────────────────────────────────────────
Layout from_terms(std::vector<int64_t> extents, int outputs, std::vector<Term> terms);
// Finds the digits, in the expressions or else in the table of all points.  CompileError if a point goes to a
// negative number, or an output is not integer arithmetic on the inputs.
Layout from_map(const IndexMap& map);
Layout from_points(std::vector<int64_t> extents, int outputs,
                   std::vector<int64_t> points);  // as `table` gives them
Layout row_major(std::vector<int64_t> extents);
Layout strided(std::vector<int64_t> extents, std::vector<int64_t> strides);
// Row-major, with the chunks of `chunk` elements of the last dimension XORed with the rows, such that 8 rows
// of one chunk column fall into different banks (the 128, 64, 32-byte patterns of the hardware).  Row-major
// itself where the row is one chunk, or is not a multiple of a chunk.
Layout swizzled(std::vector<int64_t> extents, int bits);

// One variable per input: i, j, k, …
std::vector<Expr> input_vars(size_t n);

// ── use ───────────────────────────────────────────────────────────────────────────────────────────────
std::vector<Expr> map_index(const Layout& l, const std::vector<Expr>& indices);
std::vector<int64_t> map_index(const Layout& l, const std::vector<int64_t>& indices);
// The same, for indices that a user gives: CompileError for a wrong rank or an index outside the extents.
std::vector<int64_t> locate(const Layout& l, const std::vector<int64_t>& indices);
void check_rank(const Layout& l, size_t indices);
// One row of outputs per point, points in row-major order.
std::vector<int64_t> table(const Layout& l);
bool equal(const Layout& a, const Layout& b);  // the same function
bool is_injective(const Layout& l);
std::string to_string(const Layout& l);                       // "(i, j) -> i*32 + j"
std::string tuple_text(const std::vector<int64_t>& numbers);  // "(3, 5)"

}  // namespace tl
