// Rows of instructions: what they compute, where their operands live, how they are written.
#pragma once
#include "ir/build.h"

namespace tl {

// Where the elements of one operand of a matrix instruction live: element `register` of `lane` is (row, col).
// A is m×k, B is k×n, C is m×n.  Written as digits: each output is a sum of stride * ((x / divisor) % radix).
struct FragmentDigit {
  enum class From : uint8_t { lane, reg } from;
  int divisor, radix;  // (lane or register / divisor) % radix
  int row, col;        // what one step of this digit adds to the row and to the column
};
struct OperandFragment {
  int rows, cols, registers;  // the tile's extents; elements per lane
  std::vector<FragmentDigit> digits = {};
};

// D = A · B + D for one warp.  The intrinsic takes handles: d, a, b, each to `registers` consecutive
// elements.
struct MatrixInstr {
  Intrinsic intrinsic;
  int m, n, k;
  DType a_type, b_type, c_type;
  OperandFragment a, b, c;
  std::string_view ptx;  // the mnemonic, operands in the usual order
  int since = 80;        // the first chip that has it
};

// How a tile in shared memory lies that the four warps of a warpgroup multiply, but for its address.  Rows of
// `swizzle` bytes follow each other, eight of them are a pattern (base/swizzle.h); wider tiles are panels of
// such rows, one after the other.  Without a pattern the rows have 16 bytes.
//
//   turned   rows       along a row
//   false    of m or n  k
//   true     of k       m or n
struct TileMode {
  int64_t swizzle = 0;  // 128, 64, 32; 0: none
  int64_t leading = 0;  // bytes from one panel to the next; turned, without a pattern: from eight rows on
  int64_t stride =
      0;  // bytes from eight rows to the next eight; turned, without a pattern: to the next panel
  bool turned = false;
  bool operator==(const TileMode&) const = default;
};

// D = A · B + D, or A · B, of 64 × n elements, by the four warps of a warpgroup: begun, and waited for in
// groups.  D is in registers; B is in shared memory, and so is A, or it is in registers as well.
struct WarpgroupInstr {
  Intrinsic intrinsic;  // of (d, a, b, n, clear) and the numbers of a TileMode for each tile in shared memory
  DType a_type, b_type, c_type;
  int k;
  bool a_in_registers;
  bool may_turn;           // tiles in shared memory may be turned
  int n_step;              // of n beyond 32; up to there 8
  std::string_view types;  // of the mnemonic: "f32.f16.f16"

  static constexpr int m = 64, most_n = 256, threads = 128;
  bool takes(int64_t n) const { return n >= 8 && n <= most_n && n % 8 == 0 && (n <= 32 || n % n_step == 0); }
};

// The operands of an instruction that no target lists yet: its shape and fragments, whatever its types.
struct MatrixShape {
  std::string_view name;
  int m, n, k;
  OperandFragment a, b, c;
};

// c + Σ a[i] * b[i] over `depth` neighbours, for every lane of c: a has `depth` elements, the same for all
// lanes, or `depth` for each lane as b has.
struct DotInstr {
  Intrinsic intrinsic;  // takes c, a, b
  int depth;
  DType a_type, b_type, c_type;
  int lanes;              // of c
  std::string_view text;  // the intrinsic
};

// A warp-wide move between shared memory and registers: `matrices` 8×8 blocks of 16-bit elements.  The
// intrinsic takes a handle to the registers and the lane's own row address.
struct CopyInstr {
  Intrinsic intrinsic;
  int matrices;
  bool transposed;
  std::string_view ptx;
  int since = 75;  // the first chip that has it
};

// An atomic update of memory that the chip carries out by itself.
struct AtomicInstr {
  Intrinsic::Atomic op;
  DType type;             // of the value; lanes: so many neighbouring elements at once
  std::string_view text;  // of PTX what follows the address space, "add.noftz.f16x2"; of HIP "fadd_v2f16"
  std::optional<Scope> only = {};  // of memory that is there; empty: global and shared
  int since = 75;                  // the first chip that has it
};

// The way to memory: the generic proxy of ordinary accesses, or the asynchronous proxy of the copy units,
// which see what threads have written only after a fence.
enum class Proxy : uint8_t { generic, async };
// What completion is counted by: groups of copies and of bulk copies, per thread; of a warpgroup's products,
// per warp; the phases of an mbarrier.
enum class Token : uint8_t { none, copies, bulk, gemms, phase };
// Which threads execute an instruction together.
enum class ExecutionScope : uint8_t { thread, warp, warpgroup, cluster };

// Asynchronous instructions: copies that a thread begins and waits for later, barriers in memory that signal
// completion, and fences between the proxies.  The intrinsic takes handles and values, in the order of
// `operands`.
struct AsyncInstr {
  enum class AsyncKind : uint8_t {
    copy,            // (to, from) by this thread's groups, or (to, from, given): what is not given is 0
    commit,          // ends a group of this thread's copies
    wait_groups,     // until at most n of its groups are in flight
    wait_all,        // until none is
    signal,          // arrives at a barrier when this thread's copies have landed, counted beside its threads
    signal_counted,  // the same as one of the arrivals that the barrier was made for
    init,            // of a barrier, for so many arrivals
    inval,           // ends the barrier's life
    arrive,          // at a barrier
    expect,          // so many more bytes in this phase
    arrive_expect,   // both
    test,            // whether the phase of that parity, or of that state, has ended
    bulk_load,       // (to, from, bytes, barrier), by the asynchronous proxy
    bulk_store,      // (to, from, bytes), by the same
    tensor_load,     // (to, map, tensor, coordinates…, barrier), by the same
    tensor_store,    // (map, tensor, coordinates…, from), by the same
    tensor_multicast,  // (to, map, tensor, coordinates…, mask, barrier): to the same place in each block of
                       // the cluster whose rank's bit is set
    tensor_reduce,     // (map, tensor, coordinates…, from): each element is combined with what is there
    bulk_push,         // (to, from, bytes, rank, barrier): to that block of the cluster, whose barrier counts
    remote_store,      // (to, from, rank): so many bytes of shared memory, to that block
    remote_arrive,     // (barrier, rank): at that block's
    cluster_arrive,    // at the barrier of all threads of the cluster
    cluster_wait,      // until all have arrived there
    elect,             // one thread of the warp
    clock,             // the cycles that the multiprocessor has counted
    bulk_commit,       // ends a group of this thread's stores
    bulk_wait,         // until at most n of these groups are in flight
    bulk_wait_read,    // until at most n have still to read
    fence,             // the asynchronous proxy sees the generic accesses before it
    fence_shared,      // … those to shared memory
    fence_init,        // the asynchronous proxy sees the barriers made before it
    gemm_fence,        // a warpgroup's products see what the threads have done to their registers
    gemm_commit,       // ends a group of products
    gemm_wait,         // until at most n of these groups are in flight
    gemm_results,      // (registers, bytes) that a wait has completed: later uses stay behind this
    more_registers,    // the warpgroup takes registers from the block, as soon as there are so many
    fewer_registers    // the warpgroup gives registers back
  };
  Intrinsic intrinsic;
  AsyncKind does;
  Token token = Token::none;
  Proxy proxy = Proxy::generic;
  int since = 80;  // the first chip that has it
  ExecutionScope scope = ExecutionScope::thread;
  int bytes = 0;  // that a call copies, or accesses; 0: an argument says it
  // s an address of shared memory, g of global memory, v of the thread's registers, r 32 bits, q the state of
  // a phase, n a constant, m a tensor map, t the tensor of it, which is for the compiler alone
  std::string_view operands;
  std::string_view types = {};  // of the elements that a reduction combines: "f16 f32"
  std::string_view ptx;  // {0}, {1}, …: the operands; one that gives a bool sets the predicate p, one that
                         // gives the state of a phase, or the clock, the register state

  bool begins() const {  // something that goes on behind the call
    return does == AsyncKind::copy || does == AsyncKind::bulk_load || does == AsyncKind::bulk_store ||
           does == AsyncKind::tensor_load || does == AsyncKind::tensor_store ||
           does == AsyncKind::tensor_multicast || does == AsyncKind::tensor_reduce ||
           does == AsyncKind::bulk_push;
  }
  // An arrival that gives the state of its phase; a test of a phase by such a state.
  bool gives_state() const { return gives_word() && does != AsyncKind::clock; }
  bool takes_state() const { return operands.ends_with('q'); }
  bool gives_word() const { return intrinsic.result == Intrinsic::Result::u64; }  // of 64 bits
  // Whether it reaches other blocks of the cluster, so that they must be there.
  bool leaves_block() const { return scope == ExecutionScope::cluster; }
  bool closes_group() const {
    return does == AsyncKind::commit || does == AsyncKind::bulk_commit || does == AsyncKind::gemm_commit;
  }
  // Whether it waits for something: for all but so many groups, for a phase.
  bool completes() const {
    return does == AsyncKind::wait_groups || does == AsyncKind::wait_all || does == AsyncKind::test ||
           does == AsyncKind::bulk_wait || does == AsyncKind::bulk_wait_read || does == AsyncKind::gemm_wait;
  }
  // Whether it is about the asynchronous proxy: its copies, their groups, the fence in front of it.
  bool concerns_proxy() const {
    return proxy == Proxy::async || token == Token::bulk || token == Token::gemms || fences();
  }
  bool combines(DType type) const;  // elements of that type
  bool fences() const { return does == AsyncKind::fence || does == AsyncKind::fence_shared; }
};
std::string_view name_of(AsyncInstr::AsyncKind kind);

}  // namespace tl
