// The CPU's gemm: the layout it asks for, and its numbers for shapes, types and operands of every kind.
#include "ops/gemm.h"

#include <cmath>

#include "compile/compile.h"
#include "ir/rewrite.h"
#include "unit/codegen/llvm_run.h"

using namespace tl;

namespace {

// C = C0 + op(A) · op(B), one block; tiles are whole tensors unless `slices` cuts them out of larger buffers.
struct Case {
  int64_t m, n, k;
  DType in = f32, sum = f32;
  bool trans_a = false, trans_b = false, clear = false;
  Scope a_scope = Scope::shared, b_scope = Scope::shared;
  int64_t slice = 0;  // the tiles of A and B begin at this row and column of their buffers
};

std::string text_of(const Case& c) {
  return fmt::format("{}x{}x{} {} -> {}{}{}{} slice {}", c.m, c.n, c.k, to_string(c.in), to_string(c.sum),
                     c.trans_a ? " trans_a" : "", c.trans_b ? " trans_b" : "", c.clear ? " clear" : "",
                     c.slice);
}

Function function_of(const Case& c) {
  Function f;
  f.name = "tile";
  auto add = [&](const char* name, DType t, std::vector<int64_t> shape, Scope scope) {
    BufferInfo info{
        .name = name, .dtype = t, .shape = {}, .strides = {}, .scope = scope, .span = {}, .layout = {}};
    for (int64_t e : shape) info.shape.push_back(imm(e));
    return f.add(std::move(info));
  };
  std::vector<int64_t> a_shape{c.trans_a ? c.k : c.m, c.trans_a ? c.m : c.k};
  std::vector<int64_t> b_shape{c.trans_b ? c.n : c.k, c.trans_b ? c.k : c.n};
  for (auto* shape : {&a_shape, &b_shape})
    for (int64_t& e : *shape) e += c.slice;
  BufferId A = add("A", c.in, a_shape, Scope::global), B = add("B", c.in, b_shape, Scope::global);
  BufferId C = add("C", c.sum, {c.m, c.n}, Scope::global);
  BufferId As = add("As", c.in, a_shape, c.a_scope), Bs = add("Bs", c.in, b_shape, c.b_scope);
  BufferId Cl = add("Cl", c.sum, {c.m, c.n}, Scope::fragment);
  f.params = {{"A", A, {}}, {"B", B, {}}, {"C", C, {}}};
  auto part = [&](BufferId b) {
    Region r = whole(f, b);
    for (auto& range : r.ranges)
      range = {.min = imm(c.slice), .extent = imm(*as_int(range.extent) - c.slice)};
    return r;
  };
  auto copy = [&](BufferId from, BufferId to) {
    return make_tile(f, *find_op("copy"), {whole(f, from), whole(f, to)}, {}, {});
  };
  Attrs attrs;
  if (c.trans_a) attrs.entries["trans_a"] = int64_t(1);
  if (c.trans_b) attrs.entries["trans_b"] = int64_t(1);
  if (c.clear) attrs.entries["clear_accum"] = int64_t(1);
  Stmt gemm = make_tile(f, *find_op("gemm"), {part(As), part(Bs), whole(f, Cl)}, attrs, {});
  Kernel k;
  k.name = "tile";
  k.grid_vars = {var("bx")};
  k.grid = {imm(1)};
  k.body = block({alloc(As), alloc(Bs), alloc(Cl), copy(A, As), copy(B, Bs), copy(C, Cl), gemm, copy(Cl, C)});
  f.kernels = {k};
  return f;
}

struct Matrix {
  DType type;
  int64_t rows, cols;
  std::vector<char> bytes;
  Matrix(DType t, int64_t r, int64_t c, uint64_t seed, bool extreme = false) : type(t), rows(r), cols(c) {
    bytes.resize(size_t(r * c * t.bytes() + 8));
    Numbers random{seed};
    for (size_t i = 0; i < size_t(r * c); i++)
      put_number(t, bytes.data(), i, random.between(-1, 1),
                 extreme ? (t.is_signed() ? -128 : 255) : whole(t, int64_t(random.next() % 65536)));
  }
  static int64_t whole(DType t, int64_t x) {
    return t.bits <= 16 ? wrap_int(x, t) : t.is_signed() ? x - 32768 : x;
  }
  double at(int64_t i, int64_t j) const { return get_number(type, bytes.data(), size_t(i * cols + j)); }
};

// Runs the case and compares every element of C with sums in double.
void check_case(const Case& c, const Target& target, bool extreme = false) {
  CAPTURE(text_of(c));
  CAPTURE(target.name);
  Function f = function_of(c);
  Matrix a(c.in, *as_int(f.buffers[0].shape[0]), *as_int(f.buffers[0].shape[1]), 3, extreme);
  Matrix b(c.in, *as_int(f.buffers[1].shape[0]), *as_int(f.buffers[1].shape[1]), 5, extreme);
  Matrix out(c.sum, c.m, c.n, 7), before = out;
  Program p = compile(f, target).program;
  Module module = cpu_device().load(p, build(p));
  std::vector<uint64_t> slots{uint64_t(a.bytes.data()), uint64_t(b.bytes.data()), uint64_t(out.bytes.data())};
  cpu_device().launch(module, 0, slots, {1, 1, 1}, 0);
  double wrong = 0, norm = 0;
  for (int64_t i = 0; i < c.m; i++)
    for (int64_t j = 0; j < c.n; j++) {
      double want = c.clear ? 0 : before.at(i, j);
      for (int64_t k = 0; k < c.k; k++)
        want += (c.trans_a ? a.at(k + c.slice, i + c.slice) : a.at(i + c.slice, k + c.slice)) *
                (c.trans_b ? b.at(j + c.slice, k + c.slice) : b.at(k + c.slice, j + c.slice));
      if (c.sum.is_int()) want = double(wrap_int(int64_t(want), c.sum));
      wrong += (out.at(i, j) - want) * (out.at(i, j) - want);
      norm += want * want;
    }
  double most = c.sum.is_int() ? 0 : c.sum == f64 ? 1e-14 : c.sum == f32 ? 1e-6 : c.sum == f16 ? 1e-3 : 8e-3;
  CHECK_LE(std::sqrt(wrong), most * std::sqrt(norm));
}

}  // namespace

TEST_CASE("gemm_simd: any shape of tile") {
  int64_t turn = 0;
  for (auto [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1},
                         {17, 17, 17},
                         {6, 16, 4},
                         {7, 15, 5},
                         {5, 100, 3},
                         {100, 7, 33},
                         {31, 64, 64},
                         {64, 33, 70},
                         {400, 40, 100}})
    for (auto* target : cpu_targets_in_turn(turn++))
      check_case({m, n, k, f32, f32, false, false, m == 17 || m == 31}, *target);
}

TEST_CASE("gemm_simd: transposed operands") {
  int64_t turn = 0;
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      for (auto* target : cpu_targets_in_turn(turn++)) check_case({24, 32, 16, f32, f32, ta, tb}, *target);
      for (auto* target : cpu_targets_in_turn(turn)) check_case({13, 40, 11, f16, f32, ta, tb}, *target);
    }
}

TEST_CASE("gemm_simd: types of operands and sums") {
  constexpr std::pair<DType, DType> types[] = {{f64, f64}, {f16, f32}, {bf16, f32}, {f16, f16}, {bf16, bf16},
                                               {f32, f64}, {i8, i32},  {u8, i32},   {i8, i8},   {i16, i32},
                                               {i32, i32}, {i64, i64}, {u8, u32},   {u16, u64}};
  int64_t turn = 0;
  for (auto [in, sum] : types)
    for (auto* target : cpu_targets_in_turn(turn++)) check_case({12, 35, 23, in, sum}, *target);
}

TEST_CASE("gemm_simd: sums of 8-bit products stay exact beyond 2^24") {
  for (auto* target : cpu_targets()) {
    check_case({3, 5, 1500, i8, i32, false, false, true}, *target, true);
    check_case({3, 5, 1500, i8, i32}, *target, true);
    check_case({3, 5, 700, u8, u32, false, true, true}, *target, true);
  }
}

TEST_CASE("gemm_simd: operands in fragments, and slices that no panel begins at") {
  constexpr Scope fragment = Scope::fragment, shared = Scope::shared;
  int64_t turn = 0;
  for (auto& c : {Case{12, 40, 9, f32, f32, false, false, false, fragment, shared, 0},
                  Case{12, 40, 9, f32, f32, false, false, false, shared, fragment, 0},
                  Case{12, 40, 9, f16, f32, true, true, false, fragment, fragment, 0},
                  Case{12, 40, 9, f32, f32, false, false, false, shared, shared, 5},
                  Case{12, 40, 9, f32, f32, true, true, false, shared, shared, 5},
                  Case{12, 40, 9, f32, f32, false, false, false, shared, shared, 32},
                  Case{12, 40, 9, f32, f32, true, true, false, shared, shared, 32}})
    for (auto* target : cpu_targets_in_turn(turn++)) check_case(c, *target);
}

TEST_CASE("gemm_simd: B is wanted in panels, padded to whole ones, each element in one place") {
  for (auto chip : {"x86-64", "haswell", "skylake-avx512"})
    for (int64_t n : {3, 16, 40, 64})
      for (bool tb : {false, true}) {
        const Target& target = *find_target(chip);
        Function f = function_of({12, n, 10, f32, f32, false, tb});
        const Tile* gemm = nullptr;
        visit(f.kernels[0].body, [&](const Tile& t) { gemm = t.op->name == "gemm" ? &t : gemm; });
        LayoutDecisions known;
        LayoutDecisions wanted = gemm_simd.infer_layout(
            read_gemm(*gemm, f), {f, f.kernels[0], target, {0, 1}, known}, Strictness::strict);
        REQUIRE_EQ(wanted.shared.size(), tb ? 0 : 1);  // a transposed B is turned when it is multiplied
        if (tb) continue;
        const Layout& l = wanted.shared.begin()->second;
        int64_t lanes = target.vector_bytes / 4, width = n <= lanes ? lanes : 2 * lanes;
        CHECK(is_injective(l));
        CHECK(l.terms.has_value());
        CHECK_EQ(l.ranges[0], (n + width - 1) / width * width * 10);
        auto place = [&](int64_t k, int64_t j) { return map_index(l, {k, j})[0]; };
        CHECK_EQ(place(0, 0), 0);
        CHECK_EQ(place(1, 0), width);
        CHECK_EQ(place(3, n - 1), (n - 1) / width * width * 10 + 3 * width + (n - 1) % width);
      }
}
