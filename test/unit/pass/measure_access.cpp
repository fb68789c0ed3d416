// What the report says of accesses whose cost is known by hand; conflicts planted where there should be some.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "ir/text.h"
#include "ops/op.h"
#include "pass/measure_access.h"

using namespace tl;

namespace {

// The notes on one statement of a block of 64 threads, S an f32 tile of 4096 elements.
std::string notes(const std::string& statement, const std::string& type = "f32",
                  const std::string& target = "sm_80") {
  std::string text = fmt::format(
      "func main(A: {0}[4096]):\n"
      "  kernel main grid(bx: 4) threads(64) thread(tx):\n"
      "    S = shared {0}[4096] layout((i) -> i) address(0) elements(4096)\n"
      "    R = local {0}[16] elements(16)\n"
      "{1}",
      type, statement);
  Function f = parse(text, "test", text_vocabulary());
  std::string all;
  for (auto& a : measure_access(f, *find_target(target)))
    all += f[a.buffer].name + ": " + to_string(a, f[a.buffer].scope) + "\n";
  return all;
}

}  // namespace

TEST_CASE("measure_access: strides of shared memory") {
  CHECK(notes("    S[tx] = 0.0\n") == "S: written 4 bytes a lane: 1 bank cycle, the least\n");
  CHECK(notes("    S[tx*2] = 0.0\n") == "S: written 4 bytes a lane: 2 bank cycles, at least 1\n");
  CHECK(notes("    S[tx*32] = 0.0\n") == "S: written 4 bytes a lane: 32 bank cycles, at least 1\n");
  CHECK(notes("    S[tx*33] = 0.0\n") == "S: written 4 bytes a lane: 1 bank cycle, the least\n");
  CHECK(notes("    R[0] = S[tx//32]\n") == "S: read 4 bytes a lane: 1 bank cycle, the least\n");
  CHECK(notes("    R[0] = S[(tx%8 ^ tx//8%4)*4 + tx//8*32]\n") ==
        "S: read 4 bytes a lane: 4 bank cycles, at least 1\n");
}

TEST_CASE("measure_access: vectors, and vectors that fall apart") {
  CHECK(notes("    S[ramp(tx*4, 1, 4)] = broadcast(0.0, 4)\n") ==
        "S: written 16 bytes a lane: 4 bank cycles, the least\n");
  CHECK(notes("    S[ramp(tx*16, 1, 4)] = broadcast(0.0, 4)\n") ==
        "S: written 16 bytes a lane: 16 bank cycles, at least 4\n");
  CHECK(notes("    S[ramp(tx*4, 4, 2)] = broadcast(0.0, 2)\n") ==
        "S: written 8 bytes a lane in 2 accesses: 8 bank cycles, at least 2\n");
}

TEST_CASE("measure_access: the worst of the points of a loop, and only the lanes that take part") {
  CHECK(notes("    for i in serial(4):\n      S[tx*(i + 1)] = 0.0\n") ==
        "S: written 4 bytes a lane: 4 bank cycles, at least 1\n");
  CHECK(notes("    if tx < 4:\n      S[tx*32] = 0.0\n") ==
        "S: written 4 bytes a lane: 4 bank cycles, at least 1\n");
  CHECK(notes("    S[tx*32] mask(tx%32 == 0) = 0.0\n") ==
        "S: written 4 bytes a lane: 1 bank cycle, the least\n");
}

TEST_CASE("measure_access: ldmatrix reads eight rows at a time") {
  auto x4 = [](const std::string& row) {
    return notes(fmt::format("    ldmatrix_x4(address_of(R[0]), address_of(S[{}]))\n", row), "f16");
  };
  CHECK(x4("tx%32*64") == "S: read by ldmatrix_x4: 32 bank cycles, at least 4\n");  // planted: one bank group
  CHECK(x4("tx%32*72") == "S: read by ldmatrix_x4: 4 bank cycles, the least\n");
  CHECK(x4("tx%32*64 + tx%8*8") == "S: read by ldmatrix_x4: 4 bank cycles, the least\n");
  CHECK(x4("tx%32*32 + tx%4*8") == "S: read by ldmatrix_x4: 8 bank cycles, at least 4\n");  // two rows meet
  CHECK(notes("    ldmatrix_x1(address_of(R[0]), address_of(S[tx%32*64]))\n", "f16") ==
        "S: read by ldmatrix_x1: 8 bank cycles, at least 1\n");
}

TEST_CASE("measure_access: sectors of global memory; what run-time values decide is left out") {
  CHECK(notes("    R[0] = A[bx*64 + tx]\n") == "A: read 4 bytes a lane: 4 sectors, the least\n");
  CHECK(notes("    R[0] = A[tx*8]\n") == "A: read 4 bytes a lane: 32 sectors, at least 4\n");
}

TEST_CASE("measure_access: addresses that data decide are said to be unknown") {
  CHECK(notes("    R[0] = S[cast<i64>(S[tx])]\n") ==
        "S: read 4 bytes a lane: its address is read from S\n"
        "S: read 4 bytes a lane: 1 bank cycle, the least\n");
}

TEST_CASE("measure_access: equal accesses of one line are one row, counted") {
  Function f = parse(
      "func main(A: f32[4096]):\n"
      "  kernel main grid(bx: 4) threads(64) thread(tx):\n"
      "    R = local f32[16] elements(16)\n"
      "    for i in serial(4):\n"
      "      R[i] = A[tx] + A[tx + 64]\n"
      "    for j in serial(bx):\n"
      "      R[j] = A[tx*2]\n",
      "test", text_vocabulary());
  auto rows = measure_access(f, *find_target("sm_80"));
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].sites == 2);
  CHECK(rows[0].times == 8);
  CHECK(rows[1].times == 0);  // the loop has no constant extent
  CHECK(rows[1].cost->count == 8);
  CHECK(rows[1].cost->least == 4);
}

TEST_CASE("measure_access: groups of threads look at their own warps") {
  CHECK(notes("    group(32 : +32):\n      S[(tx - 32)*32] = 0.0\n") ==
        "S: written 4 bytes a lane: 32 bank cycles, at least 1\n");
}

TEST_CASE("measure_access: without warps there are widths, and nothing to count") {
  CHECK(notes("    S[ramp(0, 1, 8)] = broadcast(0.0, 8)\n", "f32", "haswell") ==
        "S: written 32 bytes a lane\n");
}
