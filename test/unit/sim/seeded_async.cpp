// What goes wrong with what goes on beside the threads.
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
)", 2},
};

}  // namespace

TEST_CASE("planted bugs of asynchronous copies are found, and their twins are clean") { check_planted(copies); }
