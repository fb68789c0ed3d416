// Work of numbers alone, which visits no program, ends when it is told to, too.
#include <doctest/doctest.h>

#include "arith/simplify.h"
#include "base/interrupt.h"
#include "layout/banks.h"

using namespace tl;

namespace {

// For a task that has been told to end.
template <class F>
void check_ends(F work) {
  Task task;
  task.ended = true;
  Working here(&task, false);
  CHECK_THROWS_AS(work(), Interrupted);
}

}  // namespace

TEST_CASE("enumerating a layout can be interrupted, by digits and by expressions") {
  Layout rows = row_major({64, 64});
  REQUIRE(bool(rows.terms));
  check_ends([&] { table(rows); });
  Expr i = var("i");
  Layout squares{.extents = {64}, .ranges = {64}, .vars = {i}, .outputs = {floormod(i * i, 64)}};
  check_ends([&] { table(squares); });
}

TEST_CASE("simplifying, and weighing layouts by their banks, can be interrupted") {
  Expr i = var("i");
  check_ends([&] { simplify(i + i, {}); });
  std::vector<Layout> family = bank_family({32, 32}, 32);
  std::vector<WarpAccess> accesses{{.lanes = {{0, 0}, {1, 0}}}};
  check_ends([&] { fewest_bank_cycles(family, accesses, 32, 2048, {}); });
}
