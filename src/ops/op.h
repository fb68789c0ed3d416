// A tile operator is one row: its name, its operands, its meaning, how it lays out its buffers, what it
// becomes (paper, Fig. 4).  A nest of parallel loops is treated as one more row (parallel.cpp).
#pragma once
#include <functional>
#include <set>

#include "layout/banks.h"
#include "layout/fragment.h"
#include "target/target.h"

namespace tl {

// A dense array of values, row-major: what the reference computes on.  Integers and bools stand in `ints`,
// floats in `floats`.
struct Array {
  DType dtype;
  std::vector<int64_t> shape;
  std::vector<double> floats = {};
  std::vector<int64_t> ints = {};
  int64_t size() const;
  double number(int64_t i) const {
    return dtype.is_float() ? floats[size_t(i)] : float_of_int(ints[size_t(i)], dtype, f64);
  }
};
Array make_array(DType type, std::vector<int64_t> shape);  // zeros, or in e8m0 its least value
Array as_type(const Array& a, DType type);                 // each element cast
void fill(Array& a, const Array& value);                   // every element becomes the one of `value`, cast

// What an operator's meaning may use.  A region's `point` dimensions are dropped from the array's shape;
// reads outside the buffer give 0, writes outside it are dropped.  A write of an array of another type casts
// it; of the buffer's own, it moves the values, and rounds what is not one of the type's, except to floats of
// 8 and 4 bits.
struct EvalContext {
  std::function<Array(const Region&)> read;
  std::function<void(const Region&, const Array&)> write;
  std::function<Array(const Expr&)> value;  // one element
  // A function of values (an attribute's map without extents) on arrays of one shape, element by element.
  std::function<Array(const IndexMap&, const std::vector<Array>&)> apply;
};

// How strongly a layout is wanted: the paper's priority.
enum class Strictness : uint8_t { strict, common, free };

// What inference has decided so far, and what an operator adds to it.  `loop` is the statement's own mapping
// of iterations to (thread, register), kept as its attribute "loop_layout"; `lanes` how many consecutive
// registers it would move at once (0: as many as the mapping's innermost digit has), kept as "loop_lanes".
// Fragments that it cannot use as they are laid out go into `relayout`: inference adds a copy through shared
// memory. How its warps read a shared tile goes into `reads`: where operators want different layouts of it,
// their costs are compared. An operator that can work only with some layouts of a shared tile names them in
// `required`, best first, when it is asked strictly: it gets one of them, whatever others prefer. How the
// operator will be executed goes into `record`; what it says when all is laid out becomes attributes of the
// statement, which lowering reads.
struct LayoutDecisions {
  std::map<BufferId, Layout> shared = {};
  std::map<BufferId, std::vector<WarpAccess>> reads = {};
  std::map<BufferId, std::vector<Layout>> required = {};
  std::map<BufferId, Fragment> fragments = {};
  std::optional<Fragment> loop = {};
  int64_t lanes = 0;
  std::set<BufferId> relayout = {};  // fragments whose elements the statement needs on other threads
  Attrs record = {};
};
struct LayoutContext {
  const Function& function;
  const Kernel& kernel;
  const Target& target;
  Team team;  // whose threads run the statement
  const LayoutDecisions& known;
};
// Where an operator reports to the user: how it runs, and (a refusal) what it could not do; a warning is of
// what nobody would choose who knew what it costs.
struct Notes {
  std::function<void(Note)> add;
  void operator()(std::string subject, std::string text, Span span, bool refusal = false) const {
    add({.pass = "",
         .subject = std::move(subject),
         .text = std::move(text),
         .span = span,
         .refusal = refusal});
  }
  void warn(std::string subject, std::string text, Span span) const {
    add({.pass = "",
         .subject = std::move(subject),
         .text = std::move(text),
         .span = span,
         .refusal = true,
         .asked = true,
         .warns = true});
  }
};
struct LowerContext {
  const Function& function;
  const Kernel& kernel;
  const Target& target;
  Team team;                                     // whose threads run the statement
  Expr thread;                                   // the thread's number in it
  const LayoutDecisions& layouts;                // of every shared, local and fragment buffer
  std::function<BufferId(BufferInfo)> scratch;   // a buffer of the lowered form; the pass places its Alloc
  std::function<void(BufferId, int64_t)> align;  // a shared buffer begins at a multiple of so many bytes
  std::function<std::string(TensorMap)> map;     // the name of such a map, which is made where there is none
  Notes note;
};

// An operator as steps over parts of its operands, which may then be fragments: so that the operands of one
// step can be loaded while another one runs.  `part` is a step's part of an operand; the others stay.
struct Steps {
  int64_t count = 0;
  std::vector<size_t> operands = {};
  std::function<Region(size_t operand, int64_t step)> part = {};
  std::function<Attrs(int64_t step)> attrs = {};
  int64_t registers = 0;  // of 32 bits, that a thread needs with two steps' operands loaded
};

struct ParallelNest;

struct TileOp {
  OpInfo info;  // first: Tile::op points to it
  // Fills in what the user may leave out (the extents of a base element).  May be null.
  void (*complete)(std::vector<Operand>& operands, const Function& f, Span span) = nullptr;
  // Shapes, types, scopes: CompileError at the user's line.
  void (*check)(const Tile& t, const Function& f);
  // What it asks of targets whose blocks have many threads: which memory these share.  May be null.
  void (*check_threads)(const Tile& t, const Function& f, const Target& target) = nullptr;
  // What it means.  Null only for an operator of the user's: then its body says.
  void (*eval)(const Tile& t, const Function& f, const EvalContext& ctx);
  // Sugar for a parallel loop nest: then this says which, and the two below are null.
  ParallelNest (*nest)(const Tile& t, const Function& f) = nullptr;
  LayoutDecisions (*infer_layout)(const Tile& t, const LayoutContext& ctx, Strictness level) = nullptr;
  // The statement at level thread.  Accesses to shared, fragment and local buffers are physical (one index,
  // in elements, the layout applied: ctx.layouts); those to global buffers are logical (one index per
  // dimension).
  Stmt (*lower)(const Tile& t, LowerContext& ctx) = nullptr;
  // How it divides into steps on the target; nullopt: it does not.  Null: it never does.
  std::optional<Steps> (*steps)(const Tile& t, const LayoutContext& ctx) = nullptr;
  bool takes_shared = false;  // may have shared tiles wherever it has fragments
  bool in_place = false;      // may write to what it reads, element by element
  bool by_one = false;        // the first thread of the team carries it out alone
};

const TileOp& row_of(const Tile& t);
std::span<const TileOp* const> all_ops();
const TileOp* find_op(std::string_view name);
const OpInfo* find_op_info(std::string_view name);
Vocabulary text_vocabulary();  // of operators and instructions, for the parser

// The way every front makes a tile statement: complete, check, build.  A Region with an empty range list
// means the whole buffer; a Range with a null extent is a base element.
Stmt make_tile(const Function& f, const TileOp& op, std::vector<Operand> operands, Attrs attrs, Span span,
               Stmt body = {});
// A program that came as text: its tile operators made anew by make_tile, and check_tiles of the whole.
Function complete_tiles(Function f);
// Checks across operators, for every front's program: CompileError at the user's line.
void check_tiles(const Function& f);
void check_nesting(const Function& f);     // check_nesting.cpp: which loops a statement may stand in
void check_reducers(const Function& f);    // check_reducers.cpp: opened, contributed to, finalised, read
void check_iterations(const Function& f);  // check_iterations.cpp: no iteration reads what another writes
void check_divided(
    const Function& f);  // check_divided.cpp: no thread's part of a variable passes for its value
void check_variables(
    const Function& f);  // check_variables.cpp: no variable is read that nothing was assigned to

// ── shared by the operators' files ────────────────────────────────────────────────────────────────────
std::vector<int64_t> region_shape(const Region& r,
                                  bool drop_points = true);  // constant extents; internal error if not
std::string describe(const Function& f, const Region& r);    // "A_shared: f16[128, 32]"
const Region& region_of(const Tile& t, size_t operand);
// The offset of an element of a tensor, in elements: by its layout if it has one, else by its strides.
Expr tensor_offset(const BufferInfo& info, const std::vector<Expr>& index);

}  // namespace tl
