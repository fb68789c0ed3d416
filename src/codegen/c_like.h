// Function@machine -> C++ text in the dialect that CUDA and HIP share.  Statements are printed one to one,
// except vectors, which C++ does not have: a vector is split into scalar expressions, one per lane, after
// each wide load and each packed conversion has become a temporary `vec<T, n>`.  So the device compiler sees
// wide accesses where the IR has them, and plain registers in between.
#pragma once
#include <optional>
#include <set>

#include "arith/analysis.h"
#include "arith/prove.h"
#include "codegen/codegen.h"
#include "ir/rewrite.h"

namespace tl {

// An atomic access that a kernel makes: a small function `name` of a pointer and, unless it loads, a value.
struct AtomicUse {
  Intrinsic::Atomic op;
  DType type;           // of the value; lanes: so many neighbouring elements
  std::string element;  // as C++ names the type of one
  MemoryOrder order;
  bool returns;  // what the element held
  bool global;   // else shared
  std::string name = {};
};
// What an update makes of the values `old` and x; `math` stands before the names of functions.
std::string updated(const AtomicUse& use, std::string_view math);

namespace c {
struct Printer;
}

// What one language of the family adds.
struct Dialect {
  // Device helpers in sections, each after a line "//@ name: the sections it needs"; those used are pasted.
  std::string_view prelude;
  // The definition of `tl_<intrinsic name>`, made from the target's row, for these values of its first
  // constant argument; internal error if there is no such row.
  std::string (*instruction)(const Intrinsic& intrinsic, const Target& target,
                             const std::set<int64_t>& constants);
  // The definition of an atomic access.
  std::string (*atomic)(const AtomicUse& use, const Target& target);
  // A statement of inline assembly (T.ptx).
  std::string (*assembly)(c::Printer& printer, const Call& call);
  // The declaration of `tl_shared`, the shared memory of a block.
  std::string (*shared_memory)(int64_t bytes);
  // What stands before a kernel's name: for so many threads a block, its clusters, and so many blocks a
  // multiprocessor (0: as many as there is room for).
  std::string (*bounds)(const Kernel& kernel, int64_t threads, int64_t blocks);
  std::string_view map_parameter;  // what stands before the name of a tensor map among a kernel's parameters
  bool three_input_logic = false;  // the prelude has tl_logic: any function of three words, bit by bit
  // The functions that CUDA has built in (expf, __popc, __int_as_float, …) are sections of the prelude.
  bool brings_functions = false;
};

// The sections of the prelude that are used, and those that they need, in its order.
std::string paste_sections(std::string_view prelude, const std::set<std::string, std::less<>>& used);

Program print_c_like(const Function& f, const Target& target, const Dialect& dialect);

// ── how it is done ────────────────────────────────────────────────────────────────────────────────────
namespace c {

// C's precedences, from loose to tight.
// clang-format off
enum Rank : int {
  loosest, ternary, or_rank, and_rank, bit_or_rank, bit_xor_rank, bit_and_rank, equality, relation, shift,
  sum, product, prefix, postfix
};
// clang-format on
struct Text {
  std::string text;
  Rank rank = postfix;
};

inline bool is_half(DType t) { return t.is_float() && t.bits == 16; }

// Arithmetic on 16-bit floats becomes arithmetic on f32 between conversions; each operation rounds once.
Stmt widen_halves(const Stmt& s);

// C-safe names, each unique among those alive: a scope's names are free again when it ends.
struct Names {
  std::set<std::string, std::less<>> taken;
  std::vector<std::vector<std::string>> scopes = {{}};
  std::string unique(std::string_view hint);
  void open() { scopes.emplace_back(); }
  void close();
};

// One lane of a temporary.
struct Lane {
  std::string temporary;
  int index = 0, count = 1;
};

struct Printer {
  const Function& f;
  const Target& target;
  const Dialect& dialect;
  std::set<std::string, std::less<>> sections = {};              // of the prelude, in use
  std::vector<const Intrinsic*> instructions = {};               // in the order of first use
  std::map<const Intrinsic*, std::set<int64_t>> constants = {};  // that are the first ones in their calls
  std::map<std::string, AtomicUse> atomics = {};                 // by name
  std::map<std::vector<int64_t>, std::string> tables = {};       // of constants, and their names
  std::set<std::string> outside = {};                  // names of foreign text, which no local one may hide
  std::string foreign_half = {}, foreign_bfloat = {};  // its own types of 16 bits; empty: ours
  bool made_tensors = false;   // some tensor may be part of another: nothing is restrict
  bool calls_nothing = false;  // the kernel has products that each call would part

  // of the kernel being printed
  const Kernel* kernel = nullptr;
  bool line_directives = false;                // it is said which line of the user's a statement is from
  std::pair<std::string, int> said_line = {};  // the latest
  std::string out = {};
  int depth = 1;
  Names names = {};
  Facts facts = {};
  mutable std::optional<Analysis> known = {};  // under the facts of the statement
  std::string thread = {};                     // the linear thread index
  int64_t threads = 0;
  std::map<BufferId, std::string> buffers = {};
  std::map<std::string, std::string, std::less<>> maps = {};  // of tensors, by name
  std::map<const ExprNode*, std::string> vars = {};
  std::set<const ExprNode*> unrolled = {};  // variables of loops that the device compiler unrolls
  std::set<const ExprNode*> int_vars = {};  // i64 variables that are an int in C++, as their values fit
  std::map<const ExprNode*, std::vector<Expr>> vectors = {};  // a vector variable -> its lanes
  std::set<const ExprNode*> words = {};  // variables whose value is no arithmetic that C++ sees through
  std::map<const ExprNode*, Expr> masked = {};    // variables that are some bits of a word, and their values
  std::map<const ExprNode*, Lane> lanes_of = {};  // a lane of a temporary, and which
  std::vector<Expr> kept = {};                    // variables made here, held for the maps above
  std::vector<std::pair<Expr, Expr>> hoisted_here = {};  // by this statement: the value and its variable

  // c_expr.cpp: scalar expressions.
  std::string type(DType t);
  std::string text(const Expr& e, Rank at_least = loosest);  // in parentheses if it binds looser than that
  std::string argument(const Expr& e);                       // of its very type, also where C++ has another
  std::string element(BufferId buffer, const std::vector<Expr>& index);
  std::string zero_of(DType t);
  Interval range_of(const Expr& e) const;
  bool wraps(
      const Expr& e) const;  // a sum, difference or product that C++ may compute in unsigned integers only
  void need(std::string_view section) { sections.emplace(section); }
  // A function of C or of CUDA that is about to be called.
  std::string_view built_in(std::string_view name) {
    if (dialect.brings_functions) need(name);
    return name;
  }

  Text print(const Expr& e);
  Text print_int(const IntImm& n, bool typed);
  Text print_float(const FloatImm& n);
  Text print_unary(const Unary& n);
  std::string low_bits(DType t, std::string_view wide);
  Text print_binary(const Binary& n);
  Text print_division(const Binary& n);
  Text print_wrapping(const Binary& n);
  std::string unsigned_text(const Expr& e, Rank at_least);
  Text print_infix(const Binary& n, std::string_view symbol, Rank rank);
  std::string operand(const Binary& parent, const Expr& e, Rank at_least);
  Text print_cast(const Cast& n);
  Text print_load(const Load& n);
  Text print_call(const Call& n);
  Text print_thread_call(const Call& n);
  Text print_function(const Call& n);  // c_function.cpp: what computes a value; what says something
  Text print_exact(const Call& n);
  std::optional<Text> print_logic(const Binary& n);  // by one instruction, where the compiler takes two
  std::optional<Text> print_half(const Call& n);
  bool is_word(const Expr& e);
  Text print_message(const Call& n);

  // c_vector.cpp: vector expressions, lane by lane.
  struct Guard {
    Expr cond = {};         // loads happen only where this scalar holds; null: always
    bool per_lane = false;  // … and only in the lanes that take them: nothing may be hoisted
  };
  std::vector<Expr> lanes(const Expr& e, const Guard& guard);
  Expr contiguous_base(BufferId buffer, const std::vector<Expr>& index) const;
  std::vector<Expr> load_lanes(const Load& n, const Guard& guard);
  std::vector<Expr> cast_lanes(const Cast& n, const Guard& guard);
  std::vector<Expr> select_lanes(const Select& n, const Guard& guard);
  void store_vector(const Store& n);
  Guard right_of(const Binary& n, const std::vector<Expr>& left, const Guard& guard);
  Expr some_lane(const Expr& mask, const Guard& guard);
  void store_lanes(const Store& n, std::vector<Expr> values);
  bool reads_other_lanes(BufferId buffer, const std::vector<Expr>& index, const std::vector<Expr>& values);
  Expr hoisted(const Expr& scalar, std::string_view hint);  // a name for it, if it is worth one
  std::string gathered(const std::vector<Expr>& values);    // as one vec<T, n>
  std::vector<Expr> temporary(DType t, const std::string& init, std::string_view hint);
  std::vector<Expr> named_lanes(DType t, const std::string& name);

  // c_place.cpp: what a table in shared memory holds where some bits of a word say.
  std::optional<std::string> looked_up(const Load& n);
  Text print_lookup(const Call& n);
  // An argument of a warpgroup's product that is a tile in shared memory, as two of its helper.
  std::optional<std::string> tile_place(const Call& n, size_t argument);

  // c_foreign.cpp: calls that reach memory, and foreign text.
  Text print_memory_call(const Call& n);
  std::string memory_call(const Call& n);  // whatever the mask
  std::string atomic_call(const Call& n);
  std::string foreign_call(const Call& n);
  std::string by_value(const Expr& place);
  std::string pointer(const Expr& place);
  std::vector<Expr> load_wide_lanes(const Call& n, const Guard& guard);
  void print_eval(const Eval& n);

  // c_like.cpp: statements and kernels.
  void line(std::string_view text);
  void body(const Stmt& s);  // indented, a scope of its own
  void stmt(const Stmt& s);
  void say_line(const Stmt& s);
  void print_store(const Store& n);
  void print_let(const Let& n);
  void print_for(const For& n);
  void print_if(const If& n, std::string_view lead);
  void print_group(const Group& n);
  void print_alloc(const Alloc& n);
  void declare(const Expr& v, const std::string& init);
  std::string name_index(const Expr& v, bool fits_int);  // its C type and name
};

// How many bytes one access of a vector takes, where it can be one access; else 0.
int chunk_bytes(DType t, int vector_bytes);
bool has_load(const Expr& e);
std::string table_text(const std::vector<int64_t>& values, std::string_view name);  // its definition
std::string c_string(std::string_view text);                                        // a literal

}  // namespace c
}  // namespace tl
