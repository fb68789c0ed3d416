// The only way to make a node: makers that check types and fold constants.
#pragma once
#include <algorithm>
#include <span>

#include "base/error.h"
#include "ir/intrinsic.h"
#include "ir/kernel.h"

namespace tl {

// Most walks over a tree are recursive, so its depth has a limit: of what is written, and a little more for
// what passes make of it.
constexpr int deepest_written = 2500, deepest = 3000;
[[noreturn]] void refuse_depth(const Node& node, Span span = {});  // ir/depth.cpp

// Walks go to a part of an expression as often as it is used, so the nodes of what is written have a limit,
// too.
constexpr uint32_t largest_written = 100'000, largest_index = 20'000, most_counted = 1 << 30;
[[noreturn]] void refuse_size(uint32_t most, Span span);  // ir/depth.cpp
inline void check_size(const Expr& e, Span span, uint32_t most = largest_written) {
  if (e->size > most) refuse_size(most, span);
}

struct Measure {
  int depth = 0;
  uint64_t size = 0;
  template <class N>
  void add(const Ref<N>& r) {
    if (r) depth = std::max<int>(depth, r->depth), size += r->size;
  }
  void add(const Operand& o) {
    std::visit([&](auto& x) { add(x); }, o);
  }
  template <class T>
  void add(const std::vector<T>& all) {
    for (auto& x : all) add(x);
  }
  template <class T>
  void add(const T& field) {
    if constexpr (requires { field.fields(); } || requires(T& t) { t.fields(); })
      std::apply([&](auto&... f) { (add(f), ...); }, const_cast<T&>(field).fields());
  }
};

// A node whose fields are set, taken over.
template <class N>
Ref<typename N::Base> own(N* node) {
  Ref<typename N::Base> r(node);
  Measure below;
  std::apply([&](auto&... f) { (below.add(f), ...); }, node->fields());
  node->depth = uint16_t(1 + below.depth);
  node->size = uint32_t(std::min<uint64_t>(1 + below.size, most_counted));
  if (below.depth >= deepest) refuse_depth(*node);
  return r;
}

// ── expressions ───────────────────────────────────────────────────────────────────────────────────────
Expr imm(int64_t value, DType type = i64,
         Span span = {});  // wrapped to the type; for a float type a FloatImm
Expr fimm(double value, DType type = f32, Span span = {});  // rounded to the type
Expr string_imm(std::string value, Span span = {});         // an argument of a call
Expr zero(DType type);                                      // of any type and lanes
Expr var(std::string hint, DType type = i64, Span span = {});
// Operands must have one dtype (CompileError at span otherwise); two constants fold.
Expr unary(UnaryOp op, Expr a, Span span = {});
Expr binary(BinaryOp op, Expr a, Expr b, Span span = {});
Expr written_binary(BinaryOp op, Expr a, Expr b, Span span);  // as a user writes it: x // 0 is an error there
Expr cast(DType type, Expr a, Span span = {});
// A number of any type as an f32, from which a narrower float is rounded as from the number itself.
Expr as_single(const Expr& a, Span span = {});
Expr select(Expr cond, Expr a, Expr b, Span span = {});
Expr load(const Function& f, BufferId buffer, std::vector<Expr> index, Span span = {}, Expr mask = {});
Expr load(DType element, BufferId buffer, std::vector<Expr> index, Span span = {}, Expr mask = {},
          Claim claim = {});
Expr ramp(Expr base, Expr stride, int lanes, Span span = {});
Expr broadcast(Expr value, int lanes, Span span = {});  // the value itself for one lane
Expr call(const Intrinsic& intrinsic, std::vector<Expr> args, DType type, Span span = {});
Expr call(const Intrinsic& intrinsic, std::vector<Expr> args, Span span = {});  // type by the row's rule
DType result_type(const Intrinsic& intrinsic, const std::vector<Expr>& args);   // that rule
// The address of an element; `access` says what is done through it ("r", "w"; "": anything).
Expr address(Expr element, std::string_view access = "", Span span = {}, Expr count = {});
// The call, made where `mask` holds only: in the masks of the places of one that obeys them.
Expr with_place_mask(const Call& call, const Expr& mask);

// Index arithmetic: all i64; numbers stand for constants.
Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator+(Expr a, int64_t b);
Expr operator-(Expr a, int64_t b);
Expr operator*(Expr a, int64_t b);
Expr floordiv(Expr a, Expr b);
Expr floordiv(Expr a, int64_t b);
Expr floormod(Expr a, Expr b);
Expr floormod(Expr a, int64_t b);
Expr ceildiv(Expr a, Expr b);
Expr min(Expr a, Expr b);
Expr max(Expr a, Expr b);
Expr lt(Expr a, Expr b);
Expr le(Expr a, Expr b);
Expr eq(Expr a, Expr b);
Expr both(Expr a, Expr b);  // logical and; a null side counts as true, and null for two nulls

// ── what an expression is ─────────────────────────────────────────────────────────────────────────────
std::optional<int64_t> as_int(const Expr& e);  // of an IntImm, or a Broadcast of one
bool is_int(const Expr& e, int64_t value);
bool is_const(const Expr& e);

// ── the arithmetic that constants follow; also that of the reference and of the fuzz tests ──────────────
int64_t floor_div(int64_t a, int64_t b);
int64_t floor_mod(int64_t a, int64_t b);
int64_t fold_int(BinaryOp op, int64_t a, int64_t b,
                 DType type);                                    // operands of `type`; a comparison gives 0/1
double fold_float(BinaryOp op, double a, double b, DType type);  // arithmetic only, rounded to `type`
template <class T>
bool holds(BinaryOp op, T a, T b) {  // of a comparison
  switch (op) {
    case BinaryOp::eq:
      return a == b;
    case BinaryOp::ne:
      return a != b;
    case BinaryOp::lt:
      return a < b;
    case BinaryOp::le:
      return a <= b;
    case BinaryOp::gt:
      return a > b;
    case BinaryOp::ge:
      return a >= b;
    default:
      internal_error("not a comparison");
  }
}
bool is_comparison(BinaryOp op);
bool is_logical(BinaryOp op);
extern const std::string_view divisor_help;  // what mends a division by zero
bool is_division(BinaryOp op);               // or a remainder
std::string_view symbol(BinaryOp op);        // as text IR writes it: "+", "//", "min"
std::string_view name(BinaryOp op);          // "add", "floordiv"
std::optional<BinaryOp> find_binary_op(std::string_view name);

// ── statements ────────────────────────────────────────────────────────────────────────────────────────
Stmt store(BufferId buffer, std::vector<Expr> index, Expr value, Span span = {}, Expr mask = {},
           Claim claim = {});
Stmt let(Expr var, Expr value, Span span = {});
Stmt for_loop(Expr var, Expr min, Expr extent, Loop loop, Stmt body, Span span = {}, Attrs attrs = {});
Stmt for_loop(Expr var, int64_t extent, Loop loop, Stmt body, Span span = {}, Attrs attrs = {});
Stmt if_then(Expr cond, Stmt then_body, Stmt else_body = {}, Span span = {});  // a null cond is true
Stmt while_loop(Expr cond, Stmt body, Span span = {});
Stmt block(std::vector<Stmt> stmts,
           Span span = {});  // flattens inner blocks without Lets and Allocs of their own
Stmt group(int64_t first, int64_t count, Stmt body, Span span = {}, int64_t max_regs = 0, Attrs attrs = {});
Stmt alloc(BufferId buffer, Span span = {}, Attrs attrs = {});
Stmt tile(const OpInfo& op, std::vector<Operand> operands, Attrs attrs, Span span = {}, Stmt body = {});
Stmt eval(Expr value, Span span = {});
bool is_empty(const Stmt& s);

// The number of statements from `begin` on that form a section: adjacent Groups without a common thread,
// which may run at once. 0: there is no Group.
size_t section_length(std::span<const Stmt> stmts, size_t begin);

Region whole(const Function& f, BufferId buffer);  // the buffer as a region
// The product of its extents; 0 where one of them is no constant.
int64_t element_count(const BufferInfo& b);

}  // namespace tl
