// What a Call or a Tile calls: rows of data, never strings.  The scalar functions are listed here;
// instructions are rows of target/, tile operators rows of ops/.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "ir/node.h"

namespace tl {

// A value of the program in an executor: integers and bools in `i`, floats in `d`.
union Scalar {
  int64_t i = 0;
  double d;
};

struct Intrinsic {
  std::string_view name;
  int arity = 1;  // -1: any number
  // same: as the first argument; given: by the call
  enum class Result : uint8_t {
    same,
    boolean,
    handle,
    none,
    i64,
    i32,
    u32,
    u64,
    given
  } result = Result::same;
  enum class Effect : uint8_t {
    pure,             // depends on its arguments alone
    thread,           // depends on the thread
    warp,             // takes values of other threads of the warp, which all execute it together
    memory,           // reads or writes memory, by `access` through its handles, or has another effect: print
    barrier,          // every thread of the block waits for all others, which orders memory among them
    partial_barrier,  // the same among some threads of the block
    control           // where the thread goes next: break, continue, thread_return; a statement of its own
  } effect = Effect::pure;
  // memory: per argument 'r', 'w' or 'x' (both) through a handle, '-' for a value, 'n' for a constant, 'm'
  // for the name of a tensor map, behind which stand its tensor and coordinates
  std::string_view access = "";
  // memory: the first argument is an address, and the access to it is atomic.  As every access, it happens
  // only where the mask of the address holds; its result is 0 elsewhere.
  enum class Atomic : uint8_t { none, load, store, add, max, min, bit_or } atomic = Atomic::none;
  // pure: its value, computed in double and rounded by the caller to the result type; null for the others
  double (*eval)(const double* args) = nullptr;
  // pure: the same for what a double does not hold (bits, directed rounding, integers of 64 bits), instead of
  // `eval` or, where both are given, before it; `types` are those of the arguments, one lane each
  Scalar (*exact)(const Scalar* args, const DType* types, DType result) = nullptr;
  // what the arguments of such a row are
  enum class ArgDomain : uint8_t {
    any,
    floats,    // f32 or f64, all of one type
    singles,   // f32
    reals,     // floats of one type, also of 16 bits
    integers,  // of one type
    scaled,    // a float and an i32
    counters   // u64
  } takes = ArgDomain::any;
  // pure: how a front end offers it, by that name and with these parameters ("x, y"): one line of help; empty
  // where it has a form of its own there, or none
  std::string_view help = "", params = "x", published = "";

  constexpr bool computes() const { return eval || exact; }
  constexpr bool is_exact() const { return exact && !eval; }
};

// exp exp2 log log2 log10 sqrt rsqrt sin cos tanh sigmoid erf abs floor ceil round trunc pow fma isnan isinf
// …
std::span<const Intrinsic> scalar_functions();
// The one list of what front ends offer: the rows that have a help, under their published names, and further
// names.
struct ScalarFunction {
  std::string_view name, params, help;
  const Intrinsic* row = nullptr;
};
std::vector<ScalarFunction> offered_functions();
// thread_index(dim), thread_number() (the dimensions as one), block-wide sync_threads(), address_of(load),
// and the shuffles, by which each thread of a warp gets the `value` of another: shfl(value, lane) of that
// lane, shfl_xor(value, mask) of its own lane ^ mask, shfl_up and shfl_down(value, n) of the lane n below or
// above, its own where there is none.  shfl_sync(value, lane, width, mask) and its like do so within runs of
// `width` lanes, among the lanes in `mask`.  Votes: any_sync(condition, mask) …; match_any_sync(value, mask):
// the lanes with an equal value; match_all_sync: `mask` if they all are equal, else 0; those that give lanes
// give 32 of them, and as ballot_sync64 and so on 64.  warp_size() and all_lanes(), the mask of a whole warp,
// are the target's, and so is how warp_reduce_add(x) and its like, which give every lane the sum of all, are
// made: canonicalize resolves them.  bar_sync(id, threads) and bar_arrive(id, threads) are the named barriers
// (threads < 0: all of the block); at bar_sync_groups(first, threads) the threads meet in groups, those of
// the n-th so many of the block at the barrier first + n; sync_threads_count(condition) and its like barriers
// with a vote; sync_grid() is for all blocks of the kernel.  break(), continue(), thread_return() are control
// flow. block_uniform(x) is x, and a promise: all threads of the block have the same.
std::span<const Intrinsic> thread_functions();
// ir/intrinsic_exact.cpp: the rows with an `exact` value: reinterpret(x), popcount, clz, ieee_add_rz(x, y)
// and its like, philox(seed, sequence, position); and what canonicalize resolves, as a block of one thread
// has it: elected(thread), whether that thread runs this, and random_sequence(block), the number of a thread
// among all.
std::span<const Intrinsic> exact_functions();
// ir/intrinsic_narrow.cpp: to_e4m3(x, rounding, saturate) and its like, from_e4m3(bits), to_odd(x);
// dp4a_s8(sum, a, b) and dp4a_u8, of four bytes in an i32.
std::span<const Intrinsic> narrow_functions();
// What a program says: print(format, values…), device_assert(condition, text, "file:line"),
// assume_true(condition); breakpoint(), where the simulator stops and all others go on; and the two of
// programmatic dependent launch: pdl_sync() waits for the kernel before, pdl_trigger() lets the next one
// begin.  Where kernels follow one another, as in the executors here, on CPUs and on chips without it, both
// mean nothing. A format has {} for each value, and {thread} for the thread's place in the block where there
// are threads.
std::span<const Intrinsic> message_functions();
// How printf writes a value of that type, so that it can be read back: "%.9g"; bools and small integers as
// int.
std::string_view printf_conversion(DType type);
// What moves lanes: interleave(x, y, …) takes one lane of each in turn, even_lanes(x) and odd_lanes(x) every
// other one.
std::span<const Intrinsic> lane_functions();
// The row of that name among these; null if there is none.
const Intrinsic* find_intrinsic(std::string_view name);

extern const Intrinsic &address_of, &thread_index, &thread_number, &sync_threads, &sync_grid, &fma_function,
    &shfl_xor;
extern const Intrinsic& lookup;  // lookup(i, "7 -1 5"): the i-th of these constants; i is 0 for the first
extern const Intrinsic &print_row, &device_assert, &assume_function, &breakpoint_row, &pdl_sync, &pdl_trigger,
    &elected, &random_sequence, &bar_sync_groups;
extern const Intrinsic &interleave, &even_lanes, &odd_lanes;
extern const Intrinsic &break_loop, &continue_loop, &thread_return, &block_uniform;

// Does it only make sense where a block has threads?
bool is_thread_level(const Intrinsic& intrinsic);
// A barrier of some of a block's warps, by the number that is its first argument?
bool is_named_barrier(const Intrinsic& intrinsic);

// load_wide(place) and store_wide(place, value) move a vector of u32, whatever the elements are, in one
// access; like the atomic functions they obey the place's mask. call_extern(name, key, …) runs a function of
// foreign text, ptx(template, key, outputs, …) inline PTX, whose first operands are the `outputs` places that
// it writes; key names what they mean in Python ("": nothing is known). A pure one has no effect but may
// differ among threads.
extern const Intrinsic &load_wide, &store_wide, &call_extern, &call_pure_extern, &inline_ptx;

// Is that argument part of the instruction?
inline bool takes_map(const Intrinsic& c, size_t argument) {
  return argument < c.access.size() && c.access[argument] == 'm';
}
inline bool takes_constant(const Intrinsic& c, size_t argument) {
  return argument < c.access.size() && c.access[argument] == 'n';
}
inline bool is_foreign(const Intrinsic& c) {
  return &c == &call_extern || &c == &call_pure_extern || &c == &inline_ptx;
}
inline bool obeys_mask(const Intrinsic& c) {
  return c.atomic != Intrinsic::Atomic::none || &c == &load_wide || &c == &store_wide;
}
// The element that address_of(A[i]) or address_of(A[i], "r") names; null if it is no such call.
const Load* place_of(const Expr& e);
// How many elements are touched from there on: address_of(A[i], "r", n); null where nothing says it.
Expr count_of(const Expr& address);
// What a call does to memory through its argument: 'r', 'w', 'x' (both); '-' if it is no place.
char access_of(const Call& c, size_t argument);
// Does address_of(A[i], "v", n) stand for the n elements themselves, a vector that foreign code gets by
// value?
bool is_by_value(const Expr& address);
// relaxed acquire release acq_rel seq_cst
enum class MemoryOrder : uint8_t { relaxed, acquire, release, acq_rel, seq_cst };
std::span<const std::string_view> memory_orders();
MemoryOrder order_of(const Call& atomic);  // its last argument

enum class Access : uint8_t { value, read, write, update };

// The IR's description of a tile operator: enough to type, print and parse it, and to see what it touches.
struct OpInfo {
  struct Operand {
    std::string_view name;
    Access access = Access::read;
  };
  struct Attr {
    std::string_view name;
    // A condition is a flag, or a bool that every thread of the block has the same of; it reads no memory. An
    // index is an integer, or an expression of one, under the same terms.
    enum class Type : uint8_t {
      flag,
      condition,
      integer,
      index,
      number,
      choice,
      map,
      function
    } type = Type::flag;
    std::vector<std::string_view> choices = {};  // of a choice; the first is the default
  };
  std::string_view name, doc;
  std::vector<Operand> operands = {};
  std::vector<Attr> attrs = {};     // of its users
  std::vector<Attr> record = {};    // what infer_layouts decides about it; text may give it
  std::string_view published = {};  // what Python calls it, where that is another name

  std::string_view said() const { return published.empty() ? name : published; }  // for errors
};

// How the parser finds the rows of folders that ir may not include.
struct Vocabulary {
  const OpInfo* (*find_op)(std::string_view name);
  const Intrinsic* (*find_instr)(std::string_view name);
  std::vector<std::string_view> (*op_names)() = nullptr;  // for "did you mean"; may be left out
  // An operator with a body: the one of this name and these accesses, or one made for the text.
  const OpInfo* (*user_op)(std::string_view name, const std::vector<Access>& operands) = nullptr;
};

}  // namespace tl
