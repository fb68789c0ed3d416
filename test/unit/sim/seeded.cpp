// What the threads of a program do wrong.  The like for Python is test/seeded.
#include "unit/sim/planted.h"

using namespace tl;

namespace {

constexpr Planted planted[] = {
    {"no barrier between a store and ldmatrix", R"(
      S = shared f16[512] address(0) elements(512)
      r = local f16[8] elements(8)
      S[ramp(tx*8, 1, 8)] = A[ramp(tx*8, 1, 8)]  # race
+     sync_threads()
      ldmatrix_x4(address_of(r[0]), address_of(S[(tx + 32)%64*8]))  # race
      B[ramp(tx*8, 1, 8)] = r[ramp(0, 1, 8)]
)"},
    {"the barrier at the end of the loop is dropped", R"(
      S = shared f16[512] address(0) elements(512)
      for k in serial(3):
        S[ramp(tx*8, 1, 8)] = A[ramp(tx*8 + k*512, 1, 8)]  # race
        sync_threads()
        B[ramp(tx*8 + k*512, 1, 8)] = S[ramp((63 - tx)*8, 1, 8)]  # race
+       sync_threads()
)"},
    {"a barrier before the stores instead of behind them", R"(
      S = shared f32[64] address(0) elements(64)
-     sync_threads()
      S[tx] = X[tx]  # race
+     sync_threads()
      Y[tx] = S[63 - tx]  # race
)"},
    {"bar_sync for one warp of the two", R"(
      S = shared f32[64] address(0) elements(64)
      S[tx] = X[tx]  # race
-     bar_sync(1, 32)
+     bar_sync(1, 64)
      Y[tx] = S[63 - tx]  # race
)"},
    {"bar_sync for one warp more than there are", R"(
-     bar_sync(1, 96)  # deadlock
+     bar_sync(1, 64)
      Y[tx] = X[tx]
)"},
    {"each warp waits at a barrier of its own", R"(
-     if tx < 32:
-       bar_sync(1, 64)  # deadlock
-     else:
-       bar_sync(2, 64)  # deadlock
+     bar_sync(1, 64)
      Y[tx] = X[tx]
)"},
    {"one warp at a named barrier, the other at the block's", R"(
-     if tx < 32:
-       bar_sync(1, 64)  # deadlock
-     else:
-       sync_threads()  # deadlock
+     sync_threads()
      Y[tx] = X[tx]
)"},
    {"bar_arrive where nobody waits for those that come", R"(
      if tx < 32:
        bar_arrive(1, 64)
-       bar_sync(2, 64)  # deadlock
+       bar_arrive(2, 64)
      else:
        bar_sync(1, 64)
-       Y[tx] = X[tx]
+       bar_sync(2, 64)
)"},
    {"two buffers lie in the same memory, without a barrier between them", R"(
      S = shared f32[64] address(0) elements(64)
      R = shared f32[64] address(0) elements(64)
      S[tx] = X[tx]
      sync_threads()
      Y[tx] = S[63 - tx]  # race
+     sync_threads()
      R[tx] = 2.0  # race
      sync_threads()
      Y[tx] = Y[tx] + R[63 - tx]
)"},
    {"two buffers overlap by a little", R"(
      S = shared f32[64] address(0) elements(64)
-     R = shared f32[64] address(240) elements(64)
+     R = shared f32[64] address(256) elements(64)
      S[tx] = X[tx]  # race
      R[tx] = 2.0  # race
      sync_threads()
      Y[tx] = S[63 - tx] + R[63 - tx]
)"},
    {"a buffer is read after another one took its memory", R"(
      S = shared f32[64] address(0) elements(64)
-     R = shared f32[64] address(0) elements(64)
+     R = shared f32[64] address(256) elements(64)
      S[tx] = X[tx]
      sync_threads()
      R[tx] = 2.0
      sync_threads()
      Y[tx] = S[63 - tx] + R[63 - tx]  # unwritten
)"},
    {"rows of ldmatrix at addresses that 16 does not divide", R"(
      S = shared f16[1024] address(0) elements(1024)
      r = local f16[8] elements(8)
      for i in serial(16):
        S[tx*16 + i] = 0.0
      sync_threads()
-     ldmatrix_x4(address_of(r[0]), address_of(S[tx*12]))  # misaligned
+     ldmatrix_x4(address_of(r[0]), address_of(S[tx*8]))
      B[ramp(tx*8, 1, 8)] = r[ramp(0, 1, 8)]
)"},
    {"the last rows of ldmatrix lie outside", R"(
      S = shared f16[512] address(0) elements(512)
      r = local f16[8] elements(8)
      S[ramp(tx*8, 1, 8)] = A[ramp(tx*8, 1, 8)]
      sync_threads()
-     ldmatrix_x4(address_of(r[0]), address_of(S[tx*8 + 8]))  # outside
+     ldmatrix_x4(address_of(r[0]), address_of(S[tx*8]))
      B[ramp(tx*8, 1, 8)] = r[ramp(0, 1, 8)]
)"},
    {"ldmatrix of a tile of which a row is never filled", R"(
      S = shared f16[512] address(0) elements(512)
      r = local f16[8] elements(8)
-     if tx != 17:
+     if tx != 99:
        S[ramp(tx*8, 1, 8)] = A[ramp(tx*8, 1, 8)]
      sync_threads()
      ldmatrix_x4(address_of(r[0]), address_of(S[tx*8]))  # unwritten
      B[ramp(tx*8, 1, 8)] = r[ramp(0, 1, 8)]  # unwritten
)"},
    {"mma of a tile of which the upper rows are filled, and more than their products are stored", R"(
      S = shared f16[256] address(0) elements(256)
      a = local f16[8] elements(8)
      w = local f16[4] elements(4)
      c = local f32[4] elements(4)
      if tx < 16:
        S[ramp(tx*8, 1, 8)] = A[ramp(tx*8, 1, 8)]
      sync_threads()
      ldmatrix_x4(address_of(a[0]), address_of(S[tx%16*16 + tx%32//16*8]))  # unwritten
      w[ramp(0, 1, 4)] = A[ramp(tx*4, 1, 4)]
      c[ramp(0, 1, 4)] = broadcast(0.0, 4)
      mma_m16n8k16_f16_f32(address_of(c[0]), address_of(a[0]), address_of(w[0]))
-     Y[tx] = c[0] + c[2]  # unwritten
+     Y[tx] = c[0] + c[1]
)"},
    {"mma of columns of which some are filled, and more than their products are stored", R"(
      S = shared f16[128] address(0) elements(128)
      a = local f16[8] elements(8)
      w = local f16[4] elements(4)
      c = local f32[4] elements(4)
      if tx < 8:
        S[ramp(tx*8, 1, 8)] = A[ramp(tx*8, 1, 8)]
      sync_threads()
      ldmatrix_x2(address_of(w[0]), address_of(S[tx%8*16 + tx%16//8*8]))  # unwritten
      a[ramp(0, 1, 8)] = A[ramp(tx*8, 1, 8)]
      c[ramp(0, 1, 4)] = broadcast(0.0, 4)
      mma_m16n8k16_f16_f32(address_of(c[0]), address_of(a[0]), address_of(w[0]))
-     Y[tx] mask(tx%4 < 3) = c[3]  # unwritten
+     Y[tx] mask(tx%4 < 2) = c[3]
)"},
    {"half of a tile is filled, more of what was loaded from it stored", R"(
      S = shared f32[64] address(0) elements(64)
      x = local f32[2] elements(2)
      S[tx] mask(tx < 32) = X[tx]
      sync_threads()
      x[ramp(0, 1, 2)] = S[ramp(tx//2*2, 1, 2)]  # unwritten
-     Y[tx] mask(tx < 34) = x[0]  # unwritten
+     Y[tx] mask(tx < 32) = x[0]
)"},
    {"what nobody wrote goes from one tile to another, and is stored", R"(
      S = shared f32[64] address(0) elements(64)
      R = shared f32[64] address(256) elements(64)
      S[tx] mask(tx != 5) = X[tx]
      sync_threads()
      R[63 - tx] = S[tx]  # unwritten
      sync_threads()
-     Y[tx] = R[tx]  # unwritten
+     Y[tx] mask(tx != 58) = R[tx]
)"},
    {"mma in half of a warp", R"(
      a = local f16[8] elements(8)
      w = local f16[4] elements(4)
      c = local f32[4] elements(4)
      a[ramp(0, 1, 8)] = A[ramp(tx*8, 1, 8)]
      w[ramp(0, 1, 4)] = A[ramp(tx*4, 1, 4)]
      c[ramp(0, 1, 4)] = broadcast(0.0, 4)
-     if tx % 32 < 16:
+     if tx < 64:
        mma_m16n8k16_f16_f32(address_of(c[0]), address_of(a[0]), address_of(w[0]))  # divergence
      Y[tx] = c[0]
)"},
    {"mma adds to what nobody wrote", R"(
      a = local f16[8] elements(8)
      w = local f16[4] elements(4)
      c = local f32[4] elements(4)
      a[ramp(0, 1, 8)] = A[ramp(tx*8, 1, 8)]
      w[ramp(0, 1, 4)] = A[ramp(tx*4, 1, 4)]
+     c[ramp(0, 1, 4)] = broadcast(0.0, 4)
      mma_m16n8k16_f16_f32(address_of(c[0]), address_of(a[0]), address_of(w[0]))  # unwritten
      Y[tx] = c[0]  # unwritten
)"},
    {"mma of a fragment of which half was loaded", R"(
      a = local f16[8] elements(8)
      w = local f16[4] elements(4)
      c = local f32[4] elements(4)
-     a[ramp(0, 1, 4)] = A[ramp(tx*8, 1, 4)]
+     a[ramp(0, 1, 8)] = A[ramp(tx*8, 1, 8)]
      w[ramp(0, 1, 4)] = A[ramp(tx*4, 1, 4)]
      c[ramp(0, 1, 4)] = broadcast(0.0, 4)
      mma_m16n8k16_f16_f32(address_of(c[0]), address_of(a[0]), address_of(w[0]))  # unwritten
      Y[tx] = c[0]  # unwritten
)"},
    {"a vector of global memory, misaligned", R"(
-     B[ramp(tx*8, 1, 8)] = A[ramp(tx*8 + 4, 1, 8)]  # misaligned
+     B[ramp(tx*8, 1, 8)] = A[ramp(tx*8 + 8, 1, 8)]
)"},
    {"a vector of shared memory, misaligned", R"(
      S = shared f32[260] address(0) elements(260)
-     S[ramp(tx*4 + 1, 1, 4)] = broadcast(1.0, 4)  # misaligned
+     S[ramp(tx*4 + 4, 1, 4)] = broadcast(1.0, 4)
)"},
    {"a vector beyond shared memory", R"(
      S = shared f32[252] address(0) elements(252)
-     S[ramp(tx*4, 1, 4)] = broadcast(1.0, 4)  # outside
+     S[ramp(tx*4, 1, 4)] mask(tx < 63) = broadcast(1.0, 4)
)"},
    {"a ragged store without its mask", R"(
-     Z[b*64 + tx] = X[tx]  # outside
+     Z[b*64 + tx] mask(b*64 + tx < 100) = X[tx]
)",
     2},
    {"a register beyond its array", R"(
      x = local f32[4] elements(4)
      x[ramp(0, 1, 4)] = broadcast(1.0, 4)
-     Y[tx] = x[tx % 5]  # outside
+     Y[tx] = x[tx % 4]
)"},
    {"a register before its array", R"(
      x = local f32[4] elements(4)
      x[ramp(0, 1, 4)] = broadcast(1.0, 4)
      for i in serial(4):
-       x[i] = x[i - 1] + 1.0  # outside
+       x[i] = x[max(i - 1, 0)] + 1.0
      Y[tx] = x[3]
)"},
    {"a register that one arm only sets", R"(
      x = local f32[1] elements(1)
-     if tx > 3:
+     if tx >= 0:
        x[0] = X[tx]
-     Y[tx] = x[0] + 1.0  # unwritten
+     Y[tx] = x[0] + 1.0
)"},
    {"an index from a register that nobody wrote", R"(
      x = local i32[2] elements(2)
      x[0] = 3
-     Y[tx] = X[x[1]]  # unwritten
+     Y[tx] = X[x[0]]
)"},
    {"shared memory is new in every block", R"(
      S = shared f32[64] address(0) elements(64)
-     if b == 0:
+     if b >= 0:
        S[tx] = X[tx]
      sync_threads()
-     if b == 1:
-       Z[tx] = S[63 - tx]  # unwritten
+     if b == 1:
+       Z[tx] = S[63 - tx]
)",
     2},
    {"a barrier in the body of a group", R"(
      group(0 : +32):
        Y[tx] = X[tx]
-       sync_threads()  # barrier
+     sync_threads()
)"},
    {"a barrier in a loop whose count depends on the warp", R"(
-     for i in serial(tx//32 + 1):
-       sync_threads()  # barrier
+     for i in serial(2):
+       sync_threads()
      Y[tx] = X[tx]
)"},
    {"both arms have a barrier, but not the same one", R"(
-     if tx < 32:
-       sync_threads()  # barrier
-     else:
-       sync_threads()  # barrier
+     sync_threads()
      Y[tx] = X[tx]
)"},
    {"all threads store to one element", R"(
-     Y[tx//2] = X[tx]  # race
+     Y[tx] = X[tx]
)"},
    {"two blocks store to one element", R"(
-     Y[tx] = X[tx] + cast<f32>(b)  # race
+     Y[tx] = X[tx]
)",
     2},
    {"atomic updates meet a plain store", R"(
-     Y[0] = 1.0  # race
-     atomic_add(address_of(Y[0]), X[tx], "relaxed")  # race
+     atomic_add(address_of(Y[0]), X[tx], "relaxed")
)"},
    {"a loop waits for what its own warp would write behind it", R"(
-     while F[0] == 0:  # livelock
-       pass
      F[0] = 1
)"},
    {"a loop waits by plain reads for what the other arm writes", R"(
      if tx < 16:
-       while F[0] == 0:  # race
-         pass
+       Y[tx] = X[tx]
      else:
        F[0] = 1  # race
)"},
    {"the product of an index wraps, to where it does no harm", R"(
-     Y[tx] = X[(F[0] + 65536:i32)*(cast<i32>(tx) + 65536:i32)]  # overflow
+     Y[tx] = X[F[0]*(cast<i32>(tx) + 65536:i32)]
)"},
    {"a name holds what has wrapped, and becomes an index in 64 bits", R"(
-     k = (F[0] + 65536:i32)*65536:i32  # overflow
-     Y[tx] = X[cast<i64>(k) + tx]  # overflow
+     k = (cast<i64>(F[0]) + 65536)*65536
+     Y[tx] = X[k - 4294967296 + tx]
)"},
    {"an index of 16 bits wraps; a hash may", R"(
-     Z[cast<i16>(tx)*2048:i16 - cast<i16>(tx)*2047:i16] = X[cast<i16>(tx)*2048:i16//2048:i16]  # overflow
+     Z[cast<i16>(tx)*2048:i16 - cast<i16>(tx)*2047:i16] = X[(cast<i32>(tx)*1103515245:i32)%64:i32]
)"},
    {"an index wraps in a thread that stores", R"(
-     Z[cast<i32>(tx)*67108864:i32] mask(tx == 0 or tx == 32) = X[tx]  # overflow
+     Z[cast<i32>(tx)*67108864:i32] mask(tx == 0) = X[tx]
)"},
};

}  // namespace

TEST_CASE(
    "planted bugs are found at their lines, within three schedules from any seed; repaired, there are none") {
  check_planted(planted);
}
