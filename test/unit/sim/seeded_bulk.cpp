// What goes wrong with copies by the asynchronous proxy.
#include "unit/sim/planted.h"

using namespace tl;

namespace {

constexpr Planted bulk_copies[] = {
    {"more bytes are expected than copied", R"(
      M = shared u64[1] address(0) elements(1)
      S = shared f32[64] address(16) elements(64)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 1)
        fence_mbarrier_init()
      sync_threads()
      if tx == 0:
-       mbarrier_arrive_expect_tx(address_of(M[0]), 512)  # deadlock
+       mbarrier_arrive_expect_tx(address_of(M[0]), 256)
        cp_async_bulk_load(address_of(S[0]), address_of(X[0]), 256, address_of(M[0]))
      while not mbarrier_try_wait(address_of(M[0]), 0):  # deadlock
        pass
      Y[tx] = S[tx]
)",
     1, "sm_90"},
    {"fewer bytes are expected than copied", R"(
      M = shared u64[1] address(0) elements(1)
      S = shared f32[64] address(16) elements(64)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 1)
        fence_mbarrier_init()
      sync_threads()
      if tx == 0:
-       mbarrier_arrive_expect_tx(address_of(M[0]), 128)
+       mbarrier_arrive_expect_tx(address_of(M[0]), 256)
        cp_async_bulk_load(address_of(S[0]), address_of(X[0]), 256, address_of(M[0]))  # race
      while not mbarrier_try_wait(address_of(M[0]), 0):
        pass
      Y[tx] = S[tx]  # race
)",
     1, "sm_90"},
    {"no bytes are expected", R"(
      M = shared u64[1] address(0) elements(1)
      S = shared f32[64] address(16) elements(64)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 1)
        fence_mbarrier_init()
      sync_threads()
      if tx == 0:
        cp_async_bulk_load(address_of(S[0]), address_of(X[0]), 256, address_of(M[0]))  # race
-       mbarrier_arrive(address_of(M[0]))  # deadlock
+       mbarrier_arrive_expect_tx(address_of(M[0]), 256)
      while not mbarrier_try_wait(address_of(M[0]), 0):  # deadlock
        pass
      Y[tx] = S[tx]  # race
)",
     1, "sm_90"},
    {"all threads arrive where one is counted", R"(
      M = shared u64[1] address(0) elements(1)
      S = shared f32[64] address(16) elements(64)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 1)
        fence_mbarrier_init()
      sync_threads()
-     mbarrier_arrive_expect_tx(address_of(M[0]), 256)  # barrier
+     if tx == 0:
+       mbarrier_arrive_expect_tx(address_of(M[0]), 256)
      if tx == 0:
        cp_async_bulk_load(address_of(S[0]), address_of(X[0]), 256, address_of(M[0]))
      while not mbarrier_try_wait(address_of(M[0]), 0):
        pass
      Y[tx] = S[tx]
)",
     1, "sm_90"},
    {"a wait for the other tile's barrier", R"(
      M = shared u64[2] address(0) elements(2)
      S = shared f32[128] address(16) elements(128)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 1)
        mbarrier_init(address_of(M[1]), 1)
        fence_mbarrier_init()
      sync_threads()
      if tx == 0:
        mbarrier_arrive_expect_tx(address_of(M[0]), 256)
        cp_async_bulk_load(address_of(S[0]), address_of(X[0]), 256, address_of(M[0]))
        mbarrier_arrive_expect_tx(address_of(M[1]), 256)
        cp_async_bulk_load(address_of(S[64]), address_of(Y[0]), 256, address_of(M[1]))  # race
      while not mbarrier_try_wait(address_of(M[0]), 0):
        pass
-     Z[tx] = S[tx + 64]  # race
      while not mbarrier_try_wait(address_of(M[1]), 0):
        pass
+     Z[tx] = S[tx + 64]
)",
     1, "sm_90"},
    {"the next tile is fetched before all have read this one", R"(
      M = shared u64[2] address(0) elements(2)
      S = shared f32[64] address(16) elements(64)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 1)
        mbarrier_init(address_of(M[1]), 64)
        fence_mbarrier_init()
      sync_threads()
      for k in serial(3):
        if tx == 0:
+         while not mbarrier_try_wait(address_of(M[1]), (k + 1)%2):
+           pass
          mbarrier_arrive_expect_tx(address_of(M[0]), 256)
          cp_async_bulk_load(address_of(S[0]), address_of(X[0]), 256, address_of(M[0]))  # race
        while not mbarrier_try_wait(address_of(M[0]), k%2):
          pass
        Y[tx] = S[63 - tx]  # race
        mbarrier_arrive(address_of(M[1]))
)",
     1, "sm_90"},
    {"a barrier that the asynchronous proxy has not seen made", R"(
      M = shared u64[1] address(0) elements(1)
      S = shared f32[64] address(16) elements(64)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 1)
+       fence_mbarrier_init()
      sync_threads()
      if tx == 0:
        mbarrier_arrive_expect_tx(address_of(M[0]), 256)
        cp_async_bulk_load(address_of(S[0]), address_of(X[0]), 256, address_of(M[0]))  # fence
      while not mbarrier_try_wait(address_of(M[0]), 0):
        pass
)",
     1, "sm_90"},
    {"a bulk load that nobody waits for, at the end of a block", R"(
      M = shared u64[2] address(0) elements(2)
      S = shared f32[128] address(16) elements(128)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 1)
        mbarrier_init(address_of(M[1]), 1)
        fence_mbarrier_init()
        for k in serial(2):
          mbarrier_arrive_expect_tx(address_of(M[k]), 256)
          cp_async_bulk_load(address_of(S[k*64]), address_of(X[0]), 256, address_of(M[k]))  # race
      sync_threads()
      while not mbarrier_try_wait(address_of(M[0]), 0):
        pass
+     while not mbarrier_try_wait(address_of(M[1]), 0):
+       pass
      Y[tx] = S[63 - tx]
)",
     1, "sm_90"},
    {"a bulk store of what threads have written, without a fence", R"(
      S = shared f32[64] address(0) elements(64)
      S[tx] = X[tx]  # fence
+     fence_proxy_async_shared()
      sync_threads()
      if tx == 0:
        cp_async_bulk_store(address_of(Y[0]), address_of(S[0]), 256)  # fence
        cp_async_bulk_commit_group()
        cp_async_bulk_wait_group(0)
)",
     1, "sm_90"},
    {"the fence is for shared memory, and the bulk copy reads a tensor", R"(
      S = shared f32[64] address(0) elements(64)
      M = shared u64[1] address(256) elements(1)
      Y[tx] = X[tx]  # fence
-     fence_proxy_async_shared()
+     fence_proxy_async()
      if tx == 0:
        mbarrier_init(address_of(M[0]), 1)
        fence_mbarrier_init()
      sync_threads()
      if tx == 0:
        mbarrier_arrive_expect_tx(address_of(M[0]), 256)
        cp_async_bulk_load(address_of(S[0]), address_of(Y[0]), 256, address_of(M[0]))  # fence
      while not mbarrier_try_wait(address_of(M[0]), 0):
        pass
)",
     1, "sm_90"},
    {"only the thread that copies has passed a fence", R"(
      S = shared f32[64] address(0) elements(64)
      S[tx] = X[tx]  # fence
+     fence_proxy_async()
      sync_threads()
      if tx == 0:
-       fence_proxy_async()
        cp_async_bulk_store(address_of(Y[0]), address_of(S[0]), 256)  # fence
        cp_async_bulk_commit_group()
        cp_async_bulk_wait_group(0)
)",
     1, "sm_90"},
    {"the fence stands before the store that it is for", R"(
      S = shared f32[64] address(0) elements(64)
-     fence_proxy_async()
      S[tx] = X[tx]  # fence
+     fence_proxy_async()
      sync_threads()
      if tx == 0:
        cp_async_bulk_store(address_of(Y[0]), address_of(S[0]), 256)  # fence
        cp_async_bulk_commit_group()
        cp_async_bulk_wait_group(0)
)",
     1, "sm_90"},
    {"cp.async data go out by a bulk store, without a fence", R"(
      S = shared f32[64] address(0) elements(64)
      cp_async_4(address_of(S[tx]), address_of(X[tx]))  # fence
-     fence_proxy_async()
      cp_async_wait_all()
+     fence_proxy_async()
      sync_threads()
      if tx == 0:
        cp_async_bulk_store(address_of(Y[0]), address_of(S[0]), 256)  # fence
        cp_async_bulk_commit_group()
        cp_async_bulk_wait_group(0)
)",
     1, "sm_90"},
    {"a bulk load into what threads have written, without a fence", R"(
      M = shared u64[1] address(0) elements(1)
      S = shared f32[64] address(16) elements(64)
      S[tx] = X[tx]  # fence
      if tx == 0:
        mbarrier_init(address_of(M[0]), 1)
        fence_mbarrier_init()
+     fence_proxy_async()
      sync_threads()
      if tx == 0:
        mbarrier_arrive_expect_tx(address_of(M[0]), 256)
        cp_async_bulk_load(address_of(S[0]), address_of(X[0]), 256, address_of(M[0]))  # fence
      while not mbarrier_try_wait(address_of(M[0]), 0):
        pass
      Y[tx] = S[tx]
)",
     1, "sm_90"},
    {"the source of a bulk store is filled again before it was read", R"(
      S = shared f32[64] address(0) elements(64)
      S[tx] = X[tx]
      fence_proxy_async()
      sync_threads()
      if tx == 0:
        cp_async_bulk_store(address_of(Y[0]), address_of(S[0]), 256)  # race
        cp_async_bulk_commit_group()
-       cp_async_bulk_wait_group_read(1)
+       cp_async_bulk_wait_group_read(0)
      sync_threads()
      S[tx] = 2.0  # race
      if tx == 0:
        cp_async_bulk_wait_group(0)
)",
     1, "sm_90"},
    {"what a bulk store has written is read when only its source was", R"(
      S = shared f32[64] address(0) elements(64)
      S[tx] = X[tx]
      fence_proxy_async()
      sync_threads()
      if tx == 0:
        cp_async_bulk_store(address_of(Y[0]), address_of(S[0]), 256)  # race
        cp_async_bulk_commit_group()
-       cp_async_bulk_wait_group_read(0)
+       cp_async_bulk_wait_group(0)
      sync_threads()
      Z[tx] = Y[tx]  # race
)",
     1, "sm_90"},
    {"the block ends before its bulk store has read", R"(
      S = shared f32[64] address(0) elements(64)
      S[tx] = X[tx]
      fence_proxy_async()
      sync_threads()
      if tx == 0:
        cp_async_bulk_store(address_of(Y[0]), address_of(S[0]), 256)  # race
        cp_async_bulk_commit_group()
+       cp_async_bulk_wait_group_read(0)
)",
     1, "sm_90"},
    {"a bulk copy of a number of bytes that 16 does not divide", R"(
      S = shared f32[64] address(0) elements(64)
      S[tx] = X[tx]
      fence_proxy_async()
      sync_threads()
      if tx == 0:
-       cp_async_bulk_store(address_of(Y[0]), address_of(S[0]), 248)  # misaligned
+       cp_async_bulk_store(address_of(Y[0]), address_of(S[0]), 240)
        cp_async_bulk_commit_group()
        cp_async_bulk_wait_group(0)
)",
     1, "sm_90"},
};

}  // namespace

TEST_CASE("planted bugs of bulk copies are found, and their twins are clean") { check_planted(bulk_copies); }
