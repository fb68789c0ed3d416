// A tile of C = A · Bᵀ on tensor cores, written out by hand at level machine, from swizzled shared memory.
#include "unit/codegen/ptx.h"

using namespace tl;

namespace {

constexpr int64_t block_m = 128, block_n = 128, block_k = 32, warps_m = 2;

Expr div(Expr a, int64_t b) { return floordiv(std::move(a), b); }
Expr mod(Expr a, int64_t b) { return floormod(std::move(a), b); }

// 128×128 of C by 4 warps of 64×32 … in k steps of 32.
struct Gemm : Machine {
  const Target& target = *find_target("sm_80");
  DType in;
  BufferId a, b, c, a_shared, b_shared, acc, a_regs, b_regs;
  Expr tx = i32_of(k.thread), lane = mod(tx, 32), warp = div(tx, 32), k_step = var("k");

  explicit Gemm(DType in) : Machine("gemm"), in(in) {
    a = tensor("A", in, {imm(block_m), imm(1024)});
    b = tensor("B", in, {imm(block_n), imm(1024)});
    c = tensor("C", in, {imm(block_m), imm(block_n)});
    a_shared = on_chip("A_shared", Scope::shared, in, block_m * block_k, 0);
    b_shared = on_chip("B_shared", Scope::shared, in, block_n * block_k, block_m * block_k * 2);
    acc = on_chip("C_local", Scope::fragment, f32, 128);
    a_regs = on_chip("A_regs", Scope::local, in, 32);
    b_regs = on_chip("B_regs", Scope::local, in, 32);
    k.thread = k.thread;
    Expr kk = var("kk"), r = var("r");
    Stmt inner =
        for_loop(kk, 2, Loop::unrolled, tl::block({load_a(i32_of(kk)), load_b(i32_of(kk)), multiply()}));
    Stmt loop = for_loop(k_step, 32, Loop::serial,
                         tl::block({barrier(), copy(a, a_shared, "i"), copy(b, b_shared, "j"), barrier(),
                                    alloc(a_regs), alloc(b_regs), inner}));
    body({alloc(a_shared), alloc(b_shared), alloc(acc),
          for_loop(r, 128, Loop::unrolled, put(acc, i32_of(r), zero(f32))), loop, write()});
  }
  static Stmt barrier() { return eval(call(sync_threads, {})); }
  // Chunks of 8 elements, XORed so that 8 rows of a chunk column fall into different banks.
  static Expr swizzled(const Expr& row, Expr chunk) {
    return row * block_k + binary(BinaryOp::bit_xor, std::move(chunk), mod(div(row, 2), 4)) * 8;
  }
  Stmt copy(BufferId from, BufferId to, const char* name) {
    Expr i = var(name), row = i32_of(i) * 32 + div(tx, 4), chunk = mod(tx, 4);
    Expr at = row * 1024 + i32_of(k_step) * block_k + chunk * 8;
    return for_loop(i, 4, Loop::unrolled,
                    put(to, range_from(swizzled(row, chunk), 8), this->at(from, range_from(at, 8))));
  }
  Stmt ldmatrix(Expr to, Expr from) {
    return eval(call(target.copy_named("ldmatrix_x4")->intrinsic, {to, from}));
  }
  Stmt load_a(const Expr& kk) {
    Expr i = var("mi"), row = mod(warp, warps_m) * 64 + i32_of(i) * 16 + mod(lane, 16);
    return for_loop(
        i, 4, Loop::unrolled,
        ldmatrix(address(a_regs, i32_of(i) * 8), address(a_shared, swizzled(row, kk * 2 + div(lane, 16)))));
  }
  Stmt load_b(const Expr& kk) {
    Expr j = var("nj"), row = div(warp, warps_m) * 64 + i32_of(j) * 16 + mod(lane, 8) + div(lane, 16) * 8;
    return for_loop(j, 4, Loop::unrolled,
                    ldmatrix(address(b_regs, i32_of(j) * 8),
                             address(b_shared, swizzled(row, kk * 2 + mod(div(lane, 8), 2)))));
  }
  Stmt multiply() {
    Expr i = var("mi"), j = var("ni");
    Expr mma = call(target.matrix_for(in, in, f32)->intrinsic,
                    {address(acc, (i32_of(i) * 8 + i32_of(j)) * 4), address(a_regs, i32_of(i) * 8),
                     address(b_regs, i32_of(j) * 4)});
    return for_loop(i, 4, Loop::unrolled, for_loop(j, 8, Loop::unrolled, eval(mma)));
  }
  Stmt write() {  // two neighbouring columns at a time
    Expr i = var("mi"), j = var("ni"), h = var("half");
    Expr row = mod(warp, warps_m) * 64 + i32_of(i) * 16 + i32_of(h) * 8 + div(lane, 4);
    Expr col = div(warp, warps_m) * 64 + i32_of(j) * 8 + mod(lane, 4) * 2;
    Expr from = (i32_of(i) * 8 + i32_of(j)) * 4 + i32_of(h) * 2;
    Stmt s = put(c, range_from(row * block_n + col, 2), cast(in.with_lanes(2), at(acc, range_from(from, 2))));
    return for_loop(i, 4, Loop::unrolled, for_loop(j, 8, Loop::unrolled, for_loop(h, 2, Loop::unrolled, s)));
  }
};

}  // namespace

TEST_CASE("cuda: a tensor-core tile keeps its fragments in registers") {
  for (DType in : {f16, bf16}) {
    Gemm g(in);
    compiles_cleanly(g.f, in == f16 ? every_chip : Chips{"sm_80", "sm_121"});
    has_instructions(g.f, {{"mma.sync", 64},
                           {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", 16},
                           {"ld.global.nc.v4", 8},
                           {"ld.global", 8},
                           {in == f16 ? "cvt.rn.f16x2.f32" : "cvt.rn.bf16x2.f32", 64},
                           {"cvt.rn", 64},
                           {"st.global", 64},
                           {"prmt", 0},
                           {"bar.sync", 2}});
    if (!find_nvrtc()) continue;
    // NVRTC 13.5 writes one of the eight as four words, which ptxas joins again.
    std::string ptx = ptx_of(print_cuda(g.f, *find_target("sm_80")));
    int wide = count(ptx, "st.shared.v4.u32"), words = count(ptx, "st.shared.u32");
    CHECK_GE(wide, 7);
    CHECK_EQ(wide * 4 + words, 8 * 4);
    CHECK_EQ(wide + words, count(ptx, "st.shared"));
  }
}

TEST_CASE("cuda: an instruction's function is made from its row") {
  Program p = print_cuda(Gemm(f16).f, *find_target("sm_90"));
  CHECK(contains(p.text, R"(
// d += a · b over a warp, 16×8×16.
TL_DEVICE void tl_mma_m16n8k16_f16_f32(void* d_, const void* a_, const void* b_) {
  float* d = (float*)d_;
  const u32* a = (const u32*)a_;
  const u32* b = (const u32*)b_;
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
                 "r"(b[0]), "r"(b[1]));
}
)"));
  CHECK(contains(p.text, R"(
  for (int k = 0; k < 32; ++k) {
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
      const vec<half_t, 8> A_v = tl_load<8>(&A[(i * 32 + tx / 4) * 1024 + k * 32 + tx % 4 * 8]);
      tl_store(&A_shared[(i * 32 + tx / 4) * 32 + ((tx % 4) ^ ((i * 32 + tx / 4) / 2 % 4)) * 8], A_v);
    }
)"));
  CHECK(contains(p.text, R"(
          tl_mma_m16n8k16_f16_f32(&C_local[(mi * 8 + ni) * 4], &A_regs[mi * 8], &B_regs[ni * 4]);
)"));
  CHECK_EQ(p.entries[0].shared_bytes, 2 * 128 * 32 * 2);
  CHECK(!contains(p.text, "bf16_t"));
  CHECK(!contains(p.text, "tl_floordiv"));
}

// Rows of other shapes than the targets have yet: what their registers are called.
TEST_CASE("cuda: integer, double and half accumulators, and stores of matrices") {
  struct Case {
    DType ab, c;
    int a, b, d, m, n, k;
    std::string_view ptx;
    const char* chip;
  };
  const Case cases[] = {
      {i8, i32, 16, 8, 4, 16, 8, 32, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", "sm_80"},
      {f64, f64, 1, 1, 2, 8, 8, 4, "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", "sm_80"},
      {f16, f16, 8, 4, 4, 16, 8, 16, "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", "sm_80"},
      {f32, f32, 4, 2, 4, 16, 8, 8, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "sm_80"}};
  for (auto& t : cases) {
    MatrixInstr row{.intrinsic = {.name = "mma_case",
                                  .arity = 3,
                                  .result = Intrinsic::Result::none,
                                  .effect = Intrinsic::Effect::memory,
                                  .access = "xrr"},
                    .m = t.m,
                    .n = t.n,
                    .k = t.k,
                    .a_type = t.ab,
                    .b_type = t.ab,
                    .c_type = t.c,
                    .a = {t.m, t.k, t.a, {}},
                    .b = {t.k, t.n, t.b, {}},
                    .c = {t.m, t.n, t.d, {}},
                    .ptx = t.ptx};
    Target target = *find_target(t.chip);
    target.matrix = {&row};
    Machine m("one");
    BufferId x = m.tensor("X", t.ab, {imm(1024)}), out = m.tensor("C", t.c, {imm(1024)});
    BufferId a = m.on_chip("a", Scope::local, t.ab, t.a), b = m.on_chip("b", Scope::local, t.ab, t.b);
    BufferId d = m.on_chip("d", Scope::local, t.c, t.d);
    Expr i = var("i"), j = var("j"), z = var("z"), o = var("o"), zero_index = imm(0);
    auto fill = [&](BufferId r, const Expr& v, int n) {
      return for_loop(v, n, Loop::unrolled, put(r, v, m.at(x, m.k.thread * n + v)));
    };
    m.body({alloc(a), alloc(b), alloc(d), fill(a, i, t.a), fill(b, j, t.b),
            for_loop(z, t.d, Loop::unrolled, put(d, z, zero(t.c))),
            eval(call(row.intrinsic,
                      {m.address(d, zero_index), m.address(a, zero_index), m.address(b, zero_index)})),
            for_loop(o, t.d, Loop::unrolled, put(out, m.k.thread * t.d + o, m.at(d, o)))});
    Program p = print_cuda(m.f, target);
    CAPTURE(p.text);
    std::string ptx = find_nvrtc() ? ptx_of(p) : "";
    if (ptx.empty()) continue;
    CHECK_EQ(count(ptx, t.ptx), 1);
    CHECK_EQ(count(ptx, ".local"), 0);
  }
}

TEST_CASE("cuda: a copy instruction that reads registers stores them") {
  const Target& target = *find_target("sm_90");
  const CopyInstr& row = *target.copy_named("stmatrix_x4");
  Machine m("spread");
  BufferId s = m.on_chip("S", Scope::shared, f16, 1024, 128), r = m.on_chip("r", Scope::local, f16, 8);
  BufferId c = m.tensor("C", f16, {imm(1024)});
  Expr i = var("i");
  m.body({alloc(s), alloc(r), for_loop(i, 8, Loop::unrolled, put(r, i, cast(f16, i))),
          eval(call(row.intrinsic, {m.address(r, imm(0)), m.address(s, m.k.thread * 8)})),
          eval(call(sync_threads, {})), put(c, m.k.thread, m.at(s, m.k.thread))});
  Program p = print_cuda(m.f, target);
  CHECK(contains(p.text, R"(TL_DEVICE void tl_stmatrix_x4(const void* r_, void* p) {
  const u32* r = (const u32*)r_;
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               : 
               : "r"(u32(__cvta_generic_to_shared(p))), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}
)"));
  CHECK_EQ(p.entries[0].shared_bytes, 128 + 2048);
  std::string ptx = find_nvrtc() ? ptx_of(p) : "";
  if (!ptx.empty()) CHECK_EQ(count(ptx, row.ptx), 1);
}
