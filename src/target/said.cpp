#include "target/said.h"

namespace tl {

SaidInstr said(const Intrinsic& row) {
  constexpr std::string_view products =
                                 "T.gemm uses the matrix instructions of each chip, and waits for them",
                             copies = "T.copy uses what each chip has, and waits for it";
  // By the beginning of the name, the more special first.
  // clang-format off
  static constexpr SaidInstr names[] = {
      {"wgmma_wait_group",           "T.wait_wgmma",              products},
      {"wgmma_fence",                "T.warpgroup_arrive",        products},
      {"wgmma_commit_group",         "T.warpgroup_commit_batch",  products},
      {"wgmma_",                     "a product of warpgroups (wgmma)", products},
      {"setmaxnreg_",                "T.set_max_nreg",            "without it, all threads have as many registers"},
      {"mma_",                       "",                          products},
      {"ldmatrix_",                  "",                          copies},
      {"stmatrix_",                  "",                          copies},
      {"cp_async_commit_group",      "T.ptx_commit_group",        copies},
      {"cp_async_wait",              "T.ptx_wait_group",          copies},
      {"cp_async_bulk_commit_group", "T.tma_store_arrive",        copies},
      {"cp_async_bulk_wait_group",   "T.tma_store_wait",          copies},
      {"cp_async_bulk",              "a copy by TMA (T.tma_copy)", copies},
      {"cp_async_",                  "T.ptx_cp_async",            copies},
      {"mbarrier_init",              "T.alloc_barrier",           "T.sync_threads is a barrier of all threads of a block"},
      {"mbarrier_arrive_expect_tx_state", "T.mbarrier_arrive_state(tx=)", "leave tx= out, where no bytes are to be counted"},
      {"mbarrier_arrive_expect",     "T.mbarrier_arrive_expect_tx", ""},
      {"mbarrier_arrive_state",      "T.mbarrier_arrive_state",   ""},
      {"mbarrier_arrive",            "T.barrier_arrive",          ""},
      {"mbarrier_expect",            "T.mbarrier_expect_tx",      ""},
      {"mbarrier_t",                 "T.barrier_wait",            ""},
      {"sync_threads",               "T.sync_threads",            ""},
      {"cluster_",                   "a barrier of a cluster (T.cluster_sync)", "T.sync_threads is one of a block"},
  };
  // clang-format on
  for (auto& n : names)
    if (row.name.starts_with(n.row)) return {row.name, n.name.empty() ? row.name : n.name, n.instead};
  return {row.name, row.name, ""};
}

}  // namespace tl
