// Programs of a producer warp and its consumers, and of copies in the background, written from
// docs/simulator.md alone before the simulator was read.
#include "unit/sim/planted.h"

using namespace tl;

namespace {

constexpr Planted cold[] = {
    {"a stage is given back before it is read", R"(
      S = shared f16[1536] address(0) elements(1536)
      M = shared u64[6] address(3072) elements(6)
      if tx == 0:
        for s in serial(3):
          mbarrier_init(address_of(M[s]), 1)
          mbarrier_init(address_of(M[s + 3]), 32)
        fence_mbarrier_init()
      sync_threads()
      if tx < 32:
        for k in serial(8):
          while not mbarrier_try_wait(address_of(M[k % 3 + 3]), (k // 3 + 1) % 2):
            pass
          if tx == 0:
            mbarrier_arrive_expect_tx(address_of(M[k % 3]), 1024)
            cp_async_bulk_load(address_of(S[k % 3 * 512]), address_of(A[k * 512]), 1024, address_of(M[k % 3]))  # race
          sync_warp(4294967295:u32)
      else:
        for k in serial(8):
          while not mbarrier_try_wait(address_of(M[k % 3]), k // 3 % 2):
            pass
-         mbarrier_arrive(address_of(M[k % 3 + 3]))
          for i in serial(16):
            B[k * 512 + i * 32 + tx - 32] = S[k % 3 * 512 + i * 32 + tx - 32]  # race
+         mbarrier_arrive(address_of(M[k % 3 + 3]))
)",
     1, "sm_90"},
    {"the producer's first wait is for the phase that no consumer has begun", R"(
      S = shared f16[1536] address(0) elements(1536)
      M = shared u64[6] address(3072) elements(6)
      if tx == 0:
        for s in serial(3):
          mbarrier_init(address_of(M[s]), 1)
          mbarrier_init(address_of(M[s + 3]), 32)
        fence_mbarrier_init()
      sync_threads()
      if tx < 32:
        for k in serial(8):
-         while not mbarrier_try_wait(address_of(M[k % 3 + 3]), k // 3 % 2):  # deadlock
+         while not mbarrier_try_wait(address_of(M[k % 3 + 3]), (k // 3 + 1) % 2):
            pass
          if tx == 0:
            mbarrier_arrive_expect_tx(address_of(M[k % 3]), 1024)
            cp_async_bulk_load(address_of(S[k % 3 * 512]), address_of(A[k * 512]), 1024, address_of(M[k % 3]))
          sync_warp(4294967295:u32)
      else:
        for k in serial(8):
          while not mbarrier_try_wait(address_of(M[k % 3]), k // 3 % 2):
            pass
          for i in serial(16):
            B[k * 512 + i * 32 + tx - 32] = S[k % 3 * 512 + i * 32 + tx - 32]
          mbarrier_arrive(address_of(M[k % 3 + 3]))
)",
     1, "sm_90"},
    {"each tile begins with the parities of the first one", R"(
      S = shared f16[1536] address(0) elements(1536)
      M = shared u64[6] address(3072) elements(6)
      if tx == 0:
        for s in serial(3):
          mbarrier_init(address_of(M[s]), 1)
          mbarrier_init(address_of(M[s + 3]), 32)
        fence_mbarrier_init()
      sync_threads()
      for t in serial(2):
        for k in serial(4):
-         n = k
+         n = t * 4 + k
          if tx < 32:
            while not mbarrier_try_wait(address_of(M[n % 3 + 3]), (n // 3 + 1) % 2):
              pass
            if tx == 0:
              mbarrier_arrive_expect_tx(address_of(M[n % 3]), 1024)
              cp_async_bulk_load(address_of(S[n % 3 * 512]), address_of(A[t * 2048 + k * 512]), 1024, address_of(M[n % 3]))  # race
            sync_warp(4294967295:u32)
          else:
            while not mbarrier_try_wait(address_of(M[n % 3]), n // 3 % 2):
              pass
            for i in serial(16):
              B[t * 2048 + k * 512 + i * 32 + tx - 32] = S[n % 3 * 512 + i * 32 + tx - 32]
            mbarrier_arrive(address_of(M[n % 3 + 3]))
)",
     1, "sm_90"},
    {"one consumer gives a stage back only where it has work", R"(
      S = shared f16[512] address(0) elements(512)
      M = shared u64[2] address(1024) elements(2)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 1)
        mbarrier_init(address_of(M[1]), 32)
        fence_mbarrier_init()
      sync_threads()
      if tx < 32:
        if tx == 0:
          for k in serial(8):
            while not mbarrier_try_wait(address_of(M[1]), (k + 1) % 2):  # deadlock
              pass
            mbarrier_arrive_expect_tx(address_of(M[0]), 1024)
            cp_async_bulk_load(address_of(S[0]), address_of(A[k * 512]), 1024, address_of(M[0]))
      else:
        for k in serial(8):
          while not mbarrier_try_wait(address_of(M[0]), k % 2):
            pass
          if k * 512 + (tx - 32) * 16 < 3000:
            for i in serial(16):
              B[k * 512 + (tx - 32) * 16 + i] = S[(tx - 32) * 16 + i]
-           mbarrier_arrive(address_of(M[1]))  # deadlock
+         mbarrier_arrive(address_of(M[1]))
)",
     1, "sm_90"},
    {"two stages of a bulk store, of which the wait leaves both under way", R"(
      S = shared f16[1024] address(0) elements(1024)
      for k in serial(8):
        if tx == 0:
-         cp_async_bulk_wait_group_read(2)
+         cp_async_bulk_wait_group_read(1)
        sync_threads()
        for i in serial(8):
          S[k % 2 * 512 + i * 64 + tx] = A[k * 512 + i * 64 + tx]  # race
        fence_proxy_async()
        sync_threads()
        if tx == 0:
          cp_async_bulk_store(address_of(B[k * 512]), address_of(S[k % 2 * 512]), 1024)  # race
          cp_async_bulk_commit_group()
      if tx == 0:
        cp_async_bulk_wait_group_read(0)
)",
     1, "sm_90"},
    {"a wait that leaves the newer group of copies under way", R"(
      S = shared f32[128] address(0) elements(128)
      cp_async_4(address_of(S[tx]), address_of(X[tx]))
      cp_async_commit_group()
      cp_async_4(address_of(S[tx + 64]), address_of(X[63 - tx]))  # race
      cp_async_commit_group()
-     cp_async_wait_group(1)
+     cp_async_wait_group(0)
      Y[tx] = S[tx] + S[tx + 64]  # race
)"},
    {"two mbarriers in turn, waited for by the parity of one", R"(
      S = shared f16[1024] address(0) elements(1024)
      M = shared u64[2] address(2048) elements(2)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 1)
        mbarrier_init(address_of(M[1]), 1)
        fence_mbarrier_init()
      sync_threads()
      for k in serial(8):
        if tx == 0:
          mbarrier_arrive_expect_tx(address_of(M[k%2]), 1024)
          cp_async_bulk_load(address_of(S[k%2*512]), address_of(A[k*512]), 1024, address_of(M[k%2]))  # race
-       while not mbarrier_try_wait(address_of(M[k%2]), k%2):  # deadlock
+       while not mbarrier_try_wait(address_of(M[k%2]), k//2%2):
          pass
        for i in serial(8):
          B[k*512 + i*64 + tx] = S[k%2*512 + i*64 + tx]  # race
        sync_threads()
)",
     1, "sm_90"},
    {"the next bulk load begins while others still read", R"(
      S = shared f16[512] address(0) elements(512)
      M = shared u64[1] address(1024) elements(1)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 1)
        fence_mbarrier_init()
      sync_threads()
      for k in serial(8):
        if tx == 0:
          mbarrier_arrive_expect_tx(address_of(M[0]), 1024)
          cp_async_bulk_load(address_of(S[0]), address_of(A[k*512]), 1024, address_of(M[0]))  # race
        while not mbarrier_try_wait(address_of(M[0]), k%2):
          pass
        for i in serial(8):
          B[k*512 + i*64 + tx] = S[i*64 + 63 - tx]  # race
+       sync_threads()
)",
     1, "sm_90"},
    {"a bulk store of what threads wrote, without a fence", R"(
      S = shared f32[64] address(0) elements(64)
      S[tx] = X[tx] + 1.0  # fence
+     fence_proxy_async()
      sync_threads()
      if tx == 0:
        cp_async_bulk_store(address_of(Y[0]), address_of(S[0]), 256)  # fence
        cp_async_bulk_commit_group()
        cp_async_bulk_wait_group(0)
)",
     1, "sm_90"},
    {"an mbarrier that expects all threads, of which one warp comes", R"(
      S = shared f32[32] address(0) elements(32)
      M = shared u64[1] address(128) elements(1)
      if tx == 0:
-       mbarrier_init(address_of(M[0]), 64)
+       mbarrier_init(address_of(M[0]), 32)
      sync_threads()
      if tx < 32:
        S[tx] = X[tx]
        mbarrier_arrive(address_of(M[0]))  # deadlock
      else:
        while not mbarrier_test_wait(address_of(M[0]), 0):  # deadlock
          pass
        Y[tx - 32] = S[63 - tx]
)",
     1, "sm_90"},
};

}  // namespace

TEST_CASE("planted bugs of pipelines by hand are found, and their twins are clean") { check_planted(cold); }

TEST_CASE("seeded: a deadlock of mbarriers names what each of those lacks who wait") {
  std::string text = told(R"(
      S = shared f16[512] address(0) elements(512)
      M = shared u64[2] address(1024) elements(2)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 1)
        mbarrier_init(address_of(M[1]), 32)
        fence_mbarrier_init()
      sync_threads()
      if tx < 32:
        if tx == 0:
          mbarrier_arrive_expect_tx(address_of(M[0]), 2048)
          cp_async_bulk_load(address_of(S[0]), address_of(A[0]), 1024, address_of(M[0]))
        while not mbarrier_try_wait(address_of(M[1]), 0):
          pass
      else:
        while not mbarrier_try_wait(address_of(M[0]), 0):
          pass
        mbarrier_arrive(address_of(M[1]))
)");
  CAPTURE(text);
  CHECK(
      text.starts_with("thread 32 of block (0) of main waits for phase 0 of M[0] (parity 0), and no other "
                       "thread can go on; missing: 1024 bytes that were expected"));
  CHECK(contains(text,
                 "; thread 0 waits for phase 0 of M[1] (parity 0) on line 14, missing: 32 of 32 arrivals"));
}

TEST_CASE("seeded: too few bytes expected, and arrivals that add to the count, are named") {
  std::string few = told(R"(
      S = shared f16[512] address(0) elements(512)
      M = shared u64[1] address(1024) elements(1)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 1)
        fence_mbarrier_init()
        mbarrier_arrive_expect_tx(address_of(M[0]), 512)
        cp_async_bulk_load(address_of(S[0]), address_of(A[0]), 1024, address_of(M[0]))
      sync_threads()
      while not mbarrier_try_wait(address_of(M[0]), 0):
        pass
      B[tx] = S[tx]
)");
  CAPTURE(few);
  CHECK(contains(few, "has ended before all of it had landed: expect all its bytes"));
  std::string added = told(R"(
      S = shared f16[512] address(0) elements(512)
      M = shared u64[1] address(1024) elements(1)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 64)
      sync_threads()
      cp_async_16(address_of(S[tx * 8]), address_of(A[tx * 8]))
      cp_async_mbarrier_arrive(address_of(M[0]))
      while not mbarrier_test_wait(address_of(M[0]), 0):
        pass
      B[tx] = S[tx]
)",
                           "sm_80");
  CAPTURE(added);
  CHECK(contains(added, "missing: 64 of 64 arrivals, in addition to 64 of cp_async_mbarrier_arrive"));
}
