// Matrix instructions with random fragments: what T.gemm makes of them, executed thread by thread, is the
// product.
#include <doctest/doctest.h>

#include <random>

#include "api/kernel.h"
#include "api/user.h"
#include "base/error.h"
#include "sim/reference.h"
#include "sim/run.h"

using namespace tl;

namespace {

using Random = std::mt19937;

int log2_of(int64_t n) {
  int bits = 0;
  while (n >> bits > 1) bits++;
  return bits;
}

// Every bit of the row and the column goes to some bit of the lane or the register.
Placement random_placement(int64_t rows, int64_t cols, Random& random) {
  int row_bits = log2_of(rows), bits = row_bits + log2_of(cols);
  std::vector<int> place(size_t(bits), 0);
  for (int i = 0; i < bits; i++) place[size_t(i)] = i;
  std::shuffle(place.begin(), place.end(), random);
  Placement p{.extents = {rows, cols, 1}, .points = {}};
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++) {
      int64_t from = i | j << row_bits, to = 0;
      for (int b = 0; b < bits; b++) to |= (from >> b & 1) << place[size_t(b)];
      p.points.push_back(to % 32);
      p.points.push_back(to / 32);
    }
  return p;
}

// The product of 2×2 blocks of 2×3 instruction tiles each, over two steps of two instructions' k.
std::string program(const UserMatrix& u, bool trans_a, bool trans_b, int pad) {
  int64_t m = u.shape[0] * 2, n = u.shape[1] * 3, k = u.shape[2] * 2;
  auto matrix = [](int64_t rows, int64_t cols, bool transposed) {
    return transposed ? std::pair{cols, rows} : std::pair{rows, cols};
  };
  auto [ar, ac] = matrix(m, k, trans_a);
  auto [br, bc] = matrix(k, n, trans_b);
  std::string ab = to_string(u.a_type), c = to_string(u.c_type);
  return fmt::format(
      "func main(A: {0}[{1}, {2}], B: {0}[{3}, {4}], C: {5}[{6}, {7}]):\n"
      "  kernel main grid(bx: 1) threads(64):\n"
      "    As = shared {0}[{1}, {2}]{8}\n"
      "    Bs = shared {0}[{3}, {4}]\n"
      "    Cl = fragment {5}[{6}, {7}]\n"
      "    copy(A, As)\n    copy(B, Bs)\n"
      "    gemm(As, Bs, Cl) {{clear_accum=1, trans_a={9}, trans_b={10}}}\n"
      "    copy(Cl, C)\n",
      ab, ar, ac, br, bc, c, m, n, pad ? fmt::format(" layout((i, j) -> i*{} + j)", ac + pad) : "",
      int(trans_a), int(trans_b));
}

struct Tensors {
  std::vector<std::vector<std::byte>> memory;
  std::vector<HostArg> args;
  explicit Tensors(const Function& f) {
    Random random(1);
    for (size_t i = 0; i < f.params.size(); i++) {
      const BufferInfo& b = f[f.params[i].buffer];
      int64_t size = *as_int(b.shape[0]) * *as_int(b.shape[1]);
      auto& bytes = memory.emplace_back(size_t(size * b.dtype.bytes()));
      for (int64_t k = 0; k < size; k++) {
        int64_t v = int64_t(random() % 7) - (b.dtype.is_unsigned() ? 0 : 3);
        element_access(b.dtype).put(bytes.data() + k * b.dtype.bytes(),
                                    b.dtype.is_float() ? scalar(double(v)) : scalar(v));
      }
      args.push_back({.data = bytes.data()});
    }
  }
};

// Compiles and runs it; the notes about the gemm.
std::string check_program(const std::string& text, const Target& target) {
  CAPTURE(text);
  Function f = parse_text(text, "test.ir");
  Compiled compiled = compile(f, target);
  Tensors expected(f), got(f);
  run_reference(f, expected.args);
  run_simulation(*prepare_simulation(compiled.function, target), got.args);
  CHECK(expected.memory[2] == got.memory[2]);
  std::string notes;
  for (auto& n : compiled.function.notes) notes += n.subject + " " + n.text + "\n";
  return notes;
}

}  // namespace

TEST_CASE("gemm_mma: any fragments that are permutations of bits") {
  Random random(7);
  struct Types {
    DType ab, c;
  };
  int by_elements = 0;
  for (auto [ab, c] :
       {Types{i8, i32}, {u8, u32}, {f16, f32}, {bf16, f32}, {f32, f32}, {f64, f64}, {i16, i32}})
    for (int trial = 0; trial < 6; trial++) {
      int64_t m = 8 << random() % 2, n = 8 << random() % 2, k = (ab.bits == 8 ? 16 : 8) << random() % 2;
      UserMatrix u{.shape = {m, n, k},
                   .a_type = ab,
                   .b_type = ab,
                   .c_type = c,
                   .a = random_placement(m, k, random),
                   .b = random_placement(k, n, random),
                   .c = random_placement(m, n, random),
                   .ptx = fmt::format("test.m{}n{}k{}.row", m, n, k),
                   .eval = nullptr};
      const MatrixInstr& row = register_matrix(u);
      Target target = with_user_rows(*find_target("sm_80"));
      CHECK(target.matrix.front() == &row);
      CHECK(target.matrix_for(ab, ab, c) == &row);
      for (int trans = 0; trans < 4; trans++) {
        std::string notes = check_program(program(u, trans & 1, trans & 2, int(random() % 3)), target);
        CHECK(notes.find("mma.sync: " + std::string(row.intrinsic.name) + " by 2 warps") != notes.npos);
        by_elements += notes.find("element by element") != notes.npos;
      }
      unregister_matrix(row.intrinsic.name);
      CHECK(with_user_rows(*find_target("sm_80")).matrix.front() != &row);
    }
  CHECK(by_elements > 100);
}

TEST_CASE("gemm_mma: fragments of blocks that ldmatrix delivers, in any order of the blocks") {
  // 16×32 bytes of A: lane 4g + q holds four along k from 4q, of rows g and g + 8, at k and k + 16.
  for (bool rows_first : {true, false}) {
    UserMatrix u{.shape = {16, 8, 32},
                 .a_type = i8,
                 .b_type = i8,
                 .c_type = i32,
                 .a = {{16, 32, 1}, {}},
                 .b = {{32, 8, 1}, {}},
                 .c = {{16, 8, 1}, {}},
                 .ptx = "test.m16n8k32.blocks",
                 .eval = nullptr};
    auto put = [](Placement& p, int64_t lane, int64_t reg) { p.points.insert(p.points.end(), {lane, reg}); };
    for (int64_t i = 0; i < 16; i++)
      for (int64_t k = 0; k < 32; k++)
        put(u.a, i % 8 * 4 + k % 16 / 4,
            k % 4 + i / 8 * (rows_first ? 4 : 8) + k / 16 * (rows_first ? 8 : 4));
    for (int64_t k = 0; k < 32; k++)
      for (int64_t j = 0; j < 8; j++) put(u.b, j * 4 + k % 16 / 4, k % 4 + k / 16 * 4);
    for (int64_t i = 0; i < 16; i++)
      for (int64_t j = 0; j < 8; j++) put(u.c, i % 8 * 4 + j / 2, j % 2 + i / 8 * 2);
    const MatrixInstr& row = register_matrix(u);
    Target target = with_user_rows(*find_target("sm_80"));
    std::string notes = check_program(program(u, false, true, 0), target);
    CHECK(notes.find("element by element") == notes.npos);
    CHECK(notes.find("A_s") == notes.npos);
    notes = check_program(program(u, true, true, 0), target);
    CHECK(notes.find("As is loaded element by element, not by ldmatrix: k is not along its rows") !=
          notes.npos);
    unregister_matrix(row.intrinsic.name);
  }
}

TEST_CASE("the rows are in the key of the cache by what they are, where their types occur") {
  UserMatrix u{.shape = {8, 8, 8},
               .a_type = i16,
               .b_type = i16,
               .c_type = i32,
               .a = {},
               .b = {},
               .c = {},
               .ptx = "test.key",
               .eval = nullptr};
  Random random(3);
  u.a = random_placement(8, 8, random);
  u.b = random_placement(8, 8, random);
  u.c = random_placement(8, 8, random);
  const MatrixInstr& row = register_matrix(u);
  const Target& plain = *find_target("sm_80");
  std::string text = user_rows_text(with_user_rows(plain), {i16, i32});
  CHECK(text.starts_with("test.key i16 i16 i32 | 8×8 "));
  CHECK(user_rows_text(plain, {i16, i32}).empty());
  CHECK(user_rows_text(with_user_rows(plain), {i16, f32}).empty());
  CHECK(&register_matrix(u) == &row);
  std::swap(u.a, u.b);
  const MatrixInstr& other = register_matrix(u);
  CHECK(&other != &row);
  CHECK(std::string(other.intrinsic.name) == "test_key_2");
  CHECK(user_rows_text(with_user_rows(plain), {i16, i32}) != text);
  unregister_matrix(other.intrinsic.name);
  CHECK(user_rows_text(with_user_rows(plain), {i16, i32}) == text);
  unregister_matrix(row.intrinsic.name);
}
