// The whole IR in one list.  A new node is one line here and one struct below; then every exhaustive
// `dispatch` fails to compile until it is handled.
//
// What a program means
//   Every Expr has a dtype; operands of a Binary share theirs (comparisons give bool of the same lanes).
//   Integers wrap at their width.  i64 is also the index type: what is made of loop variables, blocks,
// threads and extents alone never overflows (a program in which it would is undefined), so the simplifier may
// reason over the integers; values that depend on memory, a scalar argument or a call are data, which wraps
// (Info::data). floordiv and floormod round towards minus infinity, truncdiv and truncmod towards zero;
// dividing by zero is undefined. A shift amount is in [0, bits).  Floats are IEEE; a*b + c may be
//   contracted to a fused operation, nothing else may be reassociated.  min and max of a NaN give the other
// operand.  A cast float to int truncates. Select evaluates the loads only of the arm that it takes. A masked
// Load gives 0 where the mask is false; a masked Store does nothing there. The same holds for every access
// outside its tensor, until guard_bounds has made the mask explicit; an access outside a tile is undefined.
// Statements run in order.  A Let or Alloc in a Block is visible in the statements that follow it there.  The
// iterations of a parallel loop must be independent, else the program is undefined; those of all other loops
// run in order.
#pragma once
#include <map>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "base/ref.h"
#include "base/span.h"
#include "ir/dtype.h"

namespace tl {

// clang-format off
#define TL_EXPRS(X) \
  X(IntImm) X(FloatImm) X(StringImm) X(Var) X(Unary) X(Binary) X(Cast) X(Select) X(Load) X(Ramp) X(Broadcast) X(Call)
#define TL_STMTS(X) X(Store) X(Let) X(For) X(If) X(While) X(Block) X(Group) X(Alloc) X(Tile) X(Eval)
// clang-format on

enum class Kind : uint8_t {
#define X(N) N,
  TL_EXPRS(X) TL_STMTS(X)
#undef X
};

constexpr bool is_statement(Kind k) { return k >= Kind::Store; }

struct Node : Counted {
  Kind kind;
  uint16_t depth = 1;  // of the tree below and including it; set by `own`
  uint32_t size = 1;   // its nodes, those in several places counted in each; at most most_counted
  Span span;
  Node(Kind k, Span s) : kind(k), span(s) {}
};
struct ExprNode : Node {
  DType dtype;
  using Node::Node;
};
struct StmtNode : Node {
  using Node::Node;
};
void destroy(const ExprNode* node);
void destroy(const StmtNode* node);
using Expr = Ref<ExprNode>;
using Stmt = Ref<StmtNode>;

// A buffer in a node is an id: its place in Function::buffers, where all that is known of it stands.
struct BufferId {
  int value = -1;
  auto operator<=>(const BufferId&) const = default;
  explicit operator bool() const { return value >= 0; }
};

// One dimension of a Region: [min, min + extent); `point` marks a single index written without a slice.
struct Range {
  Expr min, extent = {};
  bool point = false;
  auto fields() { return std::tie(min, extent, point); }
};

// A rectangular part of a buffer.
struct Region {
  BufferId buffer;
  std::vector<Range> ranges = {};
  auto fields() { return std::tie(buffer, ranges); }
};

// A map of indices: outputs as expressions over `vars`, whose ranges are [0, extents).  The form in which the
// IR carries layouts; layout/ gives it its mathematics.  A fragment's map has one more variable than the
// buffer has dimensions, the replica, and two outputs: thread and register.  A map without extents is a
// function of values: its variables have the types of its arguments.
struct IndexMap {
  std::vector<Expr> vars;
  std::vector<int64_t> extents = {};
  std::vector<Expr> outputs = {};
  auto fields() { return std::tie(vars, extents, outputs); }
};

using AttrValue = std::variant<int64_t, double, std::string, std::vector<int64_t>, Expr, IndexMap>;

// Named extras of a For, Tile, Alloc, Group or Kernel, sorted by name.
struct Attrs {
  std::map<std::string, AttrValue, std::less<>> entries;
  auto fields() { return std::tie(entries); }
  const AttrValue* find(std::string_view name) const {
    auto it = entries.find(name);
    return it == entries.end() ? nullptr : &it->second;
  }
  int64_t get_int(std::string_view name, int64_t otherwise = 0) const {
    auto* v = find(name);
    auto* i = v ? std::get_if<int64_t>(v) : nullptr;
    return i ? *i : otherwise;
  }
  std::string get_string(std::string_view name, std::string otherwise = "") const {
    auto* v = find(name);
    auto* s = v ? std::get_if<std::string>(v) : nullptr;
    return s ? *s : otherwise;
  }
};

enum class UnaryOp : uint8_t { neg, logical_not, bit_not };
enum class BinaryOp : uint8_t {
  add,
  sub,
  mul,
  div,
  floordiv,
  floormod,
  truncdiv,
  truncmod,
  min,
  max,
  bit_and,
  bit_or,
  bit_xor,
  shl,
  shr,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  logical_and,
  logical_or
};
enum class Loop : uint8_t { serial, parallel, pipelined, unrolled, vectorized };

struct Intrinsic;  // ir/intrinsic.h: a row that a Call names
struct OpInfo;     // ir/intrinsic.h: what the IR knows of a tile operator
using Operand = std::variant<Region, Expr>;

#define TL_NODE(N, B) \
  using Base = B; \
  static constexpr Kind KIND = Kind::N; \
  explicit N(Span s = {}) : B(KIND, s) {}

struct IntImm : ExprNode {  // an integer or bool
  TL_NODE(IntImm, ExprNode)
  int64_t value = 0;
  auto fields() { return std::tie(value); }
};
struct FloatImm : ExprNode {
  TL_NODE(FloatImm, ExprNode)
  double value = 0;
  auto fields() { return std::tie(value); }
};
struct StringImm : ExprNode {  // a text that a Call takes: the name of foreign code, a format; a handle
  TL_NODE(StringImm, ExprNode)
  std::string value;
  auto fields() { return std::tie(value); }
};
struct Var : ExprNode {  // equal by identity; the name is a hint
  TL_NODE(Var, ExprNode)
  std::string hint;
  auto fields() { return std::tie(hint); }
};
struct Unary : ExprNode {
  TL_NODE(Unary, ExprNode)
  UnaryOp op = UnaryOp::neg;
  Expr a;
  auto fields() { return std::tie(op, a); }
};
struct Binary : ExprNode {
  TL_NODE(Binary, ExprNode)
  BinaryOp op = BinaryOp::add;
  Expr a, b;
  auto fields() { return std::tie(op, a, b); }
};
struct Cast : ExprNode {  // to this node's dtype
  TL_NODE(Cast, ExprNode)
  Expr a;
  auto fields() { return std::tie(a); }
};
struct Select : ExprNode {
  TL_NODE(Select, ExprNode)
  Expr cond, a, b;
  auto fields() { return std::tie(cond, a, b); }
};
// What lowering knew of an access before its indices became one: an index for each dimension of `buffer`, the
// tile or tensor that the user names.  Kept where it is not proven to lie in its dimension and the target
// asks for it (the simulator, which checks and counts); it changes nothing of the program, and is not
// printed.  `where`: conditions of the access that are the program's own, and not a bounds guard's; null:
// none.
struct Claim {
  BufferId buffer;
  std::vector<Expr> index;
  Expr where;
  explicit operator bool() const { return buffer.value >= 0; }
  auto fields() { return std::tie(buffer, index, where); }
};
// An element of a buffer: at the levels tile and thread one index per dimension; once a layout is applied
// (lower_tile_ops for shared and fragment, flatten for global) one index, in elements.  A vector index gives
// a vector.
struct Load : ExprNode {
  TL_NODE(Load, ExprNode)
  BufferId buffer;
  std::vector<Expr> index;
  Expr mask;  // may be null
  Claim claim;
  auto fields() { return std::tie(buffer, index, mask, claim); }
};
struct Ramp : ExprNode {  // base, base + stride, …
  TL_NODE(Ramp, ExprNode)
  Expr base, stride;
  auto fields() { return std::tie(base, stride); }
};
struct Broadcast : ExprNode {
  TL_NODE(Broadcast, ExprNode)
  Expr value;
  auto fields() { return std::tie(value); }
};
struct Call : ExprNode {
  TL_NODE(Call, ExprNode)
  const Intrinsic* intrinsic = nullptr;
  std::vector<Expr> args;
  auto fields() { return std::tie(intrinsic, args); }
};

struct Store : StmtNode {
  TL_NODE(Store, StmtNode)
  BufferId buffer;
  std::vector<Expr> index;
  Expr value;
  Expr mask;  // may be null
  Claim claim;
  auto fields() { return std::tie(buffer, index, value, mask, claim); }
};
struct Let : StmtNode {
  TL_NODE(Let, StmtNode)
  Expr var, value;
  auto fields() { return std::tie(var, value); }
};
struct For : StmtNode {  // var runs over [min, min + extent)
  TL_NODE(For, StmtNode)
  Expr var, min, extent;
  Loop loop = Loop::serial;
  Attrs attrs;
  Stmt body;
  auto fields() { return std::tie(var, min, extent, loop, attrs, body); }
};
struct If : StmtNode {
  TL_NODE(If, StmtNode)
  Expr cond;
  Stmt then_body, else_body;  // else_body may be null
  auto fields() { return std::tie(cond, then_body, else_body); }
};
struct While : StmtNode {
  TL_NODE(While, StmtNode)
  Expr cond;
  Stmt body;
  auto fields() { return std::tie(cond, body); }
};
struct Block : StmtNode {
  TL_NODE(Block, StmtNode)
  std::vector<Stmt> stmts;
  auto fields() { return std::tie(stmts); }
};
struct Group : StmtNode {  // the body runs on threads [first, first + count)
  TL_NODE(Group, StmtNode)
  int64_t first = 0, count = 0, max_regs = 0;
  Attrs attrs;
  Stmt body;
  auto fields() { return std::tie(first, count, max_regs, attrs, body); }
};
struct Alloc : StmtNode {  // the buffer begins to exist here, its content undefined
  TL_NODE(Alloc, StmtNode)
  BufferId buffer;
  Attrs attrs;
  auto fields() { return std::tie(buffer, attrs); }
};
struct Tile : StmtNode {  // a tile operator; its behaviour is its row in ops/
  TL_NODE(Tile, StmtNode)
  const OpInfo* op = nullptr;
  std::vector<Operand> operands;
  Attrs attrs;
  Stmt body;  // of an operator of the user's: what it becomes; else null
  auto fields() { return std::tie(op, operands, attrs, body); }
};
struct Eval : StmtNode {  // an expression for its effect
  TL_NODE(Eval, StmtNode)
  Expr value;
  auto fields() { return std::tie(value); }
};

}  // namespace tl
