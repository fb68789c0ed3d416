// What goes on beside the threads, as CUDA: each row is one asm statement.
#include <doctest/doctest.h>

#include "unit/codegen/ptx.h"

using namespace tl;

namespace {

// A kernel that executes every such row of a chip once, in no order that makes sense.
Function each_row(const Target& target) {
  Machine m("rows");
  BufferId s = m.on_chip("S", Scope::shared, f32, 1024, 128), b = m.on_chip("M", Scope::shared, u64, 1, 0);
  BufferId x = m.tensor("X", f32, {imm(1024)}), y = m.tensor("Y", i32, {imm(1024)});
  std::vector<Stmt> stmts = {alloc(s), alloc(b)};
  std::vector<BufferId> boxed;  // a tensor of each rank, and a map of it
  for (size_t rank = 1; rank <= 5; rank++) {
    boxed.push_back(m.tensor(fmt::format("T{}", rank), f16, std::vector<Expr>(rank, imm(16))));
    m.f.maps.push_back(
        {.name = fmt::format("M{}", rank), .tensor = boxed.back(), .box = std::vector<int64_t>(rank, 8)});
  }
  for (auto& row : target.async) {
    bool of_barrier = row.bytes == 8 && row.intrinsic.name.find("mbarrier") != row.intrinsic.name.npos;
    bool has_mask = row.does == AsyncInstr::AsyncKind::tensor_multicast,
         stores = row.operands.starts_with('m');
    auto rank = size_t(std::ranges::count(row.operands, 'r') - has_mask);  // of a copy of a box
    std::vector<Expr> args;
    for (size_t i = 0; i < row.operands.size(); i++) {
      char kind = row.operands[i];
      bool barrier = kind == 's' && (of_barrier || i >= 3) && !stores;
      args.push_back(kind == 'g'   ? m.address(x, m.k.thread * 4)
                     : kind == 'm' ? string_imm(fmt::format("M{}", rank))
                     : kind == 't' ? m.address(boxed[rank - 1], imm(0))
                     : barrier     ? m.address(b, imm(0))
                     : kind == 's' ? m.address(s, m.k.thread * 4)
                     : kind == 'n' ? imm(int64_t(i) + 1, i32)
                     : kind == 'q' ? cast(u64, m.k.thread)
                                   : cast(u32, m.k.thread));
    }
    Expr e = call(row.intrinsic, args);
    stmts.push_back(e->dtype == none_type ? eval(e) : put(y, m.k.thread, cast(i32, e)));
  }
  return m.body(std::move(stmts)).f;
}

}  // namespace

TEST_CASE("cuda: every row that goes on beside the threads compiles to its instruction") {
  for (auto chip : {"sm_80", "sm_90", "sm_100", "sm_120"}) {
    CAPTURE(chip);
    const Target& target = *find_target(chip);
    Function f = each_row(target);
    compiles(f, {chip});
    Program p = print_cuda(f, target);
    std::string ptx = find_nvrtc() ? ptx_of(p) : "";
    for (auto& row : target.async) {
      CAPTURE(row.intrinsic.name);
      CHECK(contains(p.text, fmt::format("tl_{}", row.intrinsic.name)));
      size_t last = row.ptx.rfind(';', row.ptx.rfind(';') - 1);  // of several statements
      size_t begin = row.ptx.starts_with('{') ? last + 2 : 0;
      std::string_view mnemonic = row.ptx.substr(begin, row.ptx.find_first_of(" ;", begin) - begin);
      if (!ptx.empty()) CHECK_GE(count(ptx, mnemonic), 1);
    }
  }
  CHECK_EQ(find_target("sm_80")->async.back().intrinsic.name, "cp_async_mbarrier_arrive_noinc");
}

TEST_CASE("cuda: a tensor map is a parameter of its own, and coordinates count from the last dimension") {
  Program p = print_cuda(each_row(*find_target("sm_90")), *find_target("sm_90"));
  CHECK(contains(p.text, R"(
TL_DEVICE void tl_cp_async_bulk_tensor_3d_load(void* a, const tensor_map* b, u32 d, u32 e, u32 f, void* g) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%4, %3, %2}], [%5];" :  : "r"(u32(__cvta_generic_to_shared(a))), "l"(b), "r"(d), "r"(e), "r"(f), "r"(u32(__cvta_generic_to_shared(g))) : "memory");
}
)"));
  CHECK(contains(p.text, "const __grid_constant__ tensor_map M3"));
  CHECK(contains(p.text,
                 "tl_cp_async_bulk_tensor_3d_load(&S[i64(tx) * 4], &M3, u32(tx), u32(tx), u32(tx), &M[0]);"));
  REQUIRE_EQ(p.maps.size(), 5);
  CHECK_EQ(p.maps[2].shape.size(), 3);
  CHECK_EQ(evaluate(p.maps[2].strides[0], {}), 256);
}

TEST_CASE(
    "cuda: addresses are those of their window, a constant is part of the name, a predicate is a bool") {
  Program p = print_cuda(each_row(*find_target("sm_90")), *find_target("sm_90"));
  CHECK(contains(p.text, R"(
TL_DEVICE void tl_cp_async_16_zfill(void* a, const void* b, u32 c) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :  : "r"(u32(__cvta_generic_to_shared(a))), "l"(__cvta_generic_to_global(b)), "r"(c) : "memory");
}
)"));
  CHECK(contains(p.text, R"(
template <int a> TL_DEVICE void tl_cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" :  : "n"(a) : "memory");
}
)"));
  CHECK(contains(p.text, "  tl_cp_async_wait_group<1>();\n"));
  CHECK(contains(p.text, R"(
TL_DEVICE bool tl_mbarrier_try_wait(const void* a, u32 b) {
  u32 out;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(out) : "r"(u32(__cvta_generic_to_shared(a))), "r"(b) : "memory");
  return out;
}
)"));
}
