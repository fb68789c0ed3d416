// What goes wrong between the blocks of a cluster where no front places the barriers at the two ends.
#include "unit/sim/planted.h"

using namespace tl;

namespace {

constexpr Planted between_blocks[] = {
    {"an arrival at a block that may have ended", R"(
      M = shared u64[1] address(0) elements(1)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 64)
        fence_mbarrier_init()
      sync_threads()
      cluster_arrive()
      cluster_wait()
      mbarrier_arrive_remote(address_of(M[0]), cast<i32>(1 - b))  # race, fault
+     cluster_arrive()
+     cluster_wait()
)",
     2, "sm_90", 2},
    {"a store to a block that may have ended", R"(
      S = shared f32[64] address(0) elements(64)
      D = shared f32[64] address(256) elements(64)
      S[tx] = X[tx]
      cluster_arrive()
      cluster_wait()
      cluster_store_4(address_of(D[tx]), address_of(S[tx]), cast<i32>(1 - b))  # race, fault
+     cluster_arrive()
+     cluster_wait()
)",
     2, "sm_90", 2},
    {"an arrival before the other block has initialised its barrier", R"(
      M = shared u64[1] address(0) elements(1)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 64)  # race
        fence_mbarrier_init()
      sync_threads()
+     cluster_arrive()
+     cluster_wait()
      mbarrier_arrive_remote(address_of(M[0]), cast<i32>(1 - b))  # race, unwritten
      cluster_arrive()
      cluster_wait()
)",
     2, "sm_90", 2},
    {"a block ends while its memory is still being sent", R"(
      M = shared u64[1] address(0) elements(1)
      S = shared f32[64] address(128) elements(64)
      D = shared f32[64] address(384) elements(64)
      S[tx] = X[tx]
      fence_proxy_async_shared()
      if tx == 0:
        mbarrier_init(address_of(M[0]), 1)
        fence_mbarrier_init()
      sync_threads()
      cluster_arrive()
      cluster_wait()
      if b == 0:
        if tx == 0:
          cp_async_bulk_cluster(address_of(D[0]), address_of(S[0]), 256, 1, address_of(M[0]))  # race
      else:
        if tx == 0:
          mbarrier_arrive_expect_tx(address_of(M[0]), 256)
        while not mbarrier_try_wait(address_of(M[0]), 0):
          pass
        Y[tx] = D[tx]
+     cluster_arrive()
+     cluster_wait()
)",
     2, "sm_90", 2},
    {"threads of one block wait at two barriers", R"(
-     if tx < 32:
-       cluster_arrive()
-       cluster_wait()  # deadlock
-     else:
-       sync_threads()  # deadlock
+     cluster_arrive()
+     cluster_wait()
      if b == 0:
        Y[tx] = X[tx]
)",
     2, "sm_90", 2},
    {"the rank of a block that is not in the cluster", R"(
      M = shared u64[1] address(0) elements(1)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 64)
        fence_mbarrier_init()
      sync_threads()
      cluster_arrive()
      cluster_wait()
-     mbarrier_arrive_remote(address_of(M[0]), cast<i32>(2 - b))  # fault
+     mbarrier_arrive_remote(address_of(M[0]), cast<i32>(1 - b))
      cluster_arrive()
      cluster_wait()
)",
     2, "sm_90", 2},
};

TEST_CASE("faults between the blocks of a cluster are found") { check_planted(between_blocks); }

}  // namespace
