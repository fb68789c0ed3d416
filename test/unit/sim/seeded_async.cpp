// What goes wrong with cp.async and with barriers in memory.
#include "unit/sim/planted.h"

using namespace tl;

namespace {

constexpr Planted copies[] = {
    {"the destination is read before the wait", R"(
      S = shared f32[64] address(0) elements(64)
      cp_async_4(address_of(S[tx]), address_of(X[tx]))  # race
      cp_async_commit_group()
-     Y[tx] = S[tx]  # race
      cp_async_wait_group(0)
+     Y[tx] = S[tx]
)"},
    {"a wait for one group too few", R"(
      S = shared f32[128] address(0) elements(128)
      cp_async_4(address_of(S[tx]), address_of(X[tx]))
      cp_async_commit_group()
      cp_async_4(address_of(S[tx + 64]), address_of(X[63 - tx]))  # race
      cp_async_commit_group()
-     cp_async_wait_group(1)
+     cp_async_wait_group(0)
      sync_threads()
      Y[tx] = S[tx] + S[tx + 64]  # race
)"},
    {"no barrier behind the wait", R"(
      S = shared f32[64] address(0) elements(64)
      cp_async_4(address_of(S[tx]), address_of(X[tx]))  # race
      cp_async_wait_all()
+     sync_threads()
      Y[tx] = S[63 - tx]  # race
)"},
    {"the barrier stands before the wait", R"(
      S = shared f32[64] address(0) elements(64)
      cp_async_4(address_of(S[tx]), address_of(X[tx]))  # race
      cp_async_commit_group()
-     sync_threads()
      cp_async_wait_group(0)
+     sync_threads()
      Y[tx] = S[tx - tx % 2 + (tx + 1) % 2]  # race
)"},
    {"a copy in no group", R"(
      S = shared f32[64] address(0) elements(64)
-     cp_async_commit_group()
      cp_async_4(address_of(S[tx]), address_of(X[tx]))  # race
+     cp_async_commit_group()
      cp_async_wait_group(0)
      sync_threads()
      Y[tx] = S[63 - tx]  # race
)"},
    {"the source is overwritten before the wait", R"(
      S = shared f32[64] address(0) elements(64)
      cp_async_4(address_of(S[tx]), address_of(Y[tx]))  # race
-     Y[tx] = X[tx]  # race
      cp_async_wait_all()
+     Y[tx] = X[tx]
      sync_threads()
)"},
    {"the next copy begins while others still read", R"(
      S = shared f32[64] address(0) elements(64)
      for k in serial(3):
        cp_async_4(address_of(S[tx]), address_of(X[tx]))  # race
        cp_async_wait_all()
        sync_threads()
        Y[tx] = S[63 - tx]  # race
+       sync_threads()
)"},
    {"two copies to one place", R"(
      S = shared f32[64] address(0) elements(64)
      cp_async_4(address_of(S[tx]), address_of(X[tx]))  # race
+     cp_async_wait_all()
      cp_async_4(address_of(S[tx]), address_of(X[63 - tx]))  # race
      cp_async_wait_all()
)"},
    {"two stages, and the loop fetches into the one that is read", R"(
      S = shared f32[128] address(0) elements(128)
      cp_async_4(address_of(S[tx]), address_of(X[tx]))
      cp_async_commit_group()
      for k in serial(4):
        cp_async_wait_group(0)
        sync_threads()
-       cp_async_4(address_of(S[k%2*64 + tx]), address_of(X[tx]))  # race
+       cp_async_4(address_of(S[(k + 1)%2*64 + tx]), address_of(X[tx]))
        cp_async_commit_group()
        Y[tx] = S[k%2*64 + 63 - tx]  # race
      cp_async_wait_all()
)"},
    {"three stages, and the wait of the last trips counts groups that are not there", R"(
      S = shared f32[192] address(0) elements(192)
      for k in serial(2):
        cp_async_4(address_of(S[k*64 + tx]), address_of(X[tx]))
        cp_async_commit_group()
      for k in serial(5):
        cp_async_wait_group(1)
        sync_threads()
        if k + 2 < 5:
          cp_async_4(address_of(S[(k + 2)%3*64 + tx]), address_of(X[tx]))  # race
-         cp_async_commit_group()
+       cp_async_commit_group()
        Y[tx] = S[k%3*64 + 63 - tx]  # race
)"},
    {"16 bytes from an address that 16 does not divide", R"(
      S = shared f32[256] address(0) elements(256)
-     cp_async_16(address_of(S[tx*4]), address_of(X[tx%15*4 + 1]))  # misaligned
+     cp_async_16(address_of(S[tx*4]), address_of(X[tx%15*4]))
      cp_async_wait_all()
)"},
    {"a ragged copy without its size", R"(
      S = shared f32[64] address(0) elements(64)
-     cp_async_4(address_of(S[tx]), address_of(Z[b*64 + tx]))  # outside
+     cp_async_4_zfill(address_of(S[tx]), address_of(Z[b*64 + tx]), select(b*64 + tx < 100, 4, 0))
      cp_async_wait_all()
)",
     2},
};

constexpr Planted barriers[] = {
    {"a barrier that is used before others know of it", R"(
      M = shared u64[1] address(0) elements(1)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 64)  # race
+     sync_threads()
      mbarrier_arrive(address_of(M[0]))  # race, unwritten
      while not mbarrier_test_wait(address_of(M[0]), 0):
        pass
)"},
    {"one arrival more is counted than comes", R"(
      M = shared u64[1] address(0) elements(1)
      if tx == 0:
-       mbarrier_init(address_of(M[0]), 65)
+       mbarrier_init(address_of(M[0]), 64)
      sync_threads()
      mbarrier_arrive(address_of(M[0]))  # deadlock
      while not mbarrier_test_wait(address_of(M[0]), 0):  # deadlock
        pass
)"},
    {"a phase ends without one of those that write", R"(
      M = shared u64[1] address(0) elements(1)
      S = shared f32[64] address(16) elements(64)
      if tx == 0:
-       mbarrier_init(address_of(M[0]), 32)
+       mbarrier_init(address_of(M[0]), 64)
      sync_threads()
      S[tx] = X[tx]  # race
      mbarrier_arrive(address_of(M[0]))
      while not mbarrier_test_wait(address_of(M[0]), 0):
        pass
      Y[tx] = S[63 - tx]  # race
)"},
    {"the wrong parity lets everyone through", R"(
      M = shared u64[1] address(0) elements(1)
      S = shared f32[64] address(16) elements(64)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 64)
      sync_threads()
      S[tx] = X[tx]  # race
      mbarrier_arrive(address_of(M[0]))
-     while not mbarrier_test_wait(address_of(M[0]), 1):
+     while not mbarrier_test_wait(address_of(M[0]), 0):
        pass
      Y[tx] = S[63 - tx]  # race
)"},
    {"a parity that does not change from phase to phase", R"(
      M = shared u64[1] address(0) elements(1)
      S = shared f32[64] address(16) elements(64)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 64)
      sync_threads()
      for k in serial(2):
        S[tx] = X[tx]  # race
        mbarrier_arrive(address_of(M[0]))
-       while not mbarrier_test_wait(address_of(M[0]), 0):
+       while not mbarrier_test_wait(address_of(M[0]), k%2):
          pass
        Y[tx] = S[63 - tx]  # race
        sync_threads()
)"},
    {"a wait for the phase after the last", R"(
      M = shared u64[1] address(0) elements(1)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 64)
      sync_threads()
      mbarrier_arrive(address_of(M[0]))
      while not mbarrier_test_wait(address_of(M[0]), 0):
        pass
-     while not mbarrier_test_wait(address_of(M[0]), 1):  # deadlock
-       pass
+     while not mbarrier_test_wait(address_of(M[0]), 0):
+       pass
)"},
    {"a barrier is used after its end", R"(
      M = shared u64[1] address(0) elements(1)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 64)
      sync_threads()
-     if tx == 0:
-       mbarrier_inval(address_of(M[0]))
-     sync_threads()
      mbarrier_arrive(address_of(M[0]))  # unwritten
)"},
    {"the arrival does not wait for the thread's copies", R"(
      M = shared u64[1] address(0) elements(1)
      S = shared f32[64] address(16) elements(64)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 64)
      sync_threads()
      cp_async_4(address_of(S[tx]), address_of(X[tx]))  # race
-     mbarrier_arrive(address_of(M[0]))
+     cp_async_mbarrier_arrive_noinc(address_of(M[0]))
      while not mbarrier_test_wait(address_of(M[0]), 0):
        pass
      Y[tx] = S[63 - tx]  # race
)"},
    {"an arrival that counts itself, where all are counted", R"(
      M = shared u64[1] address(0) elements(1)
      S = shared f32[64] address(16) elements(64)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 64)
      sync_threads()
      cp_async_4(address_of(S[tx]), address_of(X[tx]))
-     cp_async_mbarrier_arrive(address_of(M[0]))  # deadlock
+     cp_async_mbarrier_arrive_noinc(address_of(M[0]))
      while not mbarrier_test_wait(address_of(M[0]), 0):  # deadlock
        pass
)"},
};

}  // namespace

TEST_CASE("planted bugs of asynchronous copies are found, and their twins are clean") {
  check_planted(copies);
}
TEST_CASE("planted bugs of barriers in memory are found, and their twins are clean") {
  check_planted(barriers);
}
