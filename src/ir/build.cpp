// Makers of nodes: types are checked and constants folded here, nowhere else.
#include "ir/build.h"

#include <algorithm>
#include <cmath>

namespace tl {
namespace {

template <class N>
N* fresh(DType type, Span span) {
  auto* n = new N(span);
  n->dtype = type;
  return n;
}

void check_operand_types(BinaryOp op, DType t, Span span) {
  if (t.is_storage())
    fail(span, "`{}` takes no {}: cast to {} first", symbol(op), to_string(t), to_string(arithmetic_type(t)));
  bool bits = op == BinaryOp::bit_and || op == BinaryOp::bit_or || op == BinaryOp::bit_xor;
  bool ints_only = is_division(op) || op == BinaryOp::shl || op == BinaryOp::shr;
  if (is_logical(op) && !t.is_bool())
    fail(span, "`{}` takes bool operands, not {}", symbol(op), to_string(t));
  if (bits && !t.is_int() && !t.is_bool())
    fail(span, "`{}` takes integer or bool operands, not {}", symbol(op), to_string(t));
  if (ints_only && !t.is_int()) {
    std::string_view instead = !t.is_float()              ? ""
                               : op == BinaryOp::floordiv ? ": of floats it is T.floor(x / y)"
                               : op == BinaryOp::floormod
                                   ? ": of floats T.fmod(x, y) is the remainder with the "
                                     "sign of x, x - T.floor(x / y) * y the one of Python"
                                   : "";
    fail(span, "`{}` takes integer operands, not {}{}", symbol(op), to_string(t), instead);
  }
  if (op == BinaryOp::div && !t.is_float())
    fail(span, "`/` takes float operands, not {}: use `//`, or cast to a float first", to_string(t));
  bool arithmetic = op == BinaryOp::add || op == BinaryOp::sub || op == BinaryOp::mul;
  if (arithmetic && t.is_bool()) fail(span, "`{}` takes numbers, not bool: cast first", symbol(op));
}

// A division by zero stays what it is: it has no meaning, but may stand where it is never reached.
std::optional<Expr> fold(BinaryOp op, const Expr& a, const Expr& b, DType result, Span span) {
  DType t = a->dtype;
  if (auto *x = a.as<IntImm>(), *y = b.as<IntImm>(); x && y) {
    if (is_division(op) && y->value == 0) return std::nullopt;
    return imm(fold_int(op, x->value, y->value, t), result, span);
  }
  if (auto *x = a.as<FloatImm>(), *y = b.as<FloatImm>(); x && y) {
    if (is_comparison(op)) return imm(holds(op, x->value, y->value), result, span);
    return fimm(fold_float(op, x->value, y->value, t), t, span);
  }
  return std::nullopt;
}

}  // namespace

// ── expressions ───────────────────────────────────────────────────────────────────────────────────────
Expr imm(int64_t value, DType type, Span span) {
  if (type.is_float()) return fimm(double(value), type, span);
  if (type.lanes > 1) return broadcast(imm(value, type.scalar(), span), type.lanes, span);
  internal_check(type.is_int() || type.is_bool(), "an integer constant of type " + to_string(type));
  auto* n = fresh<IntImm>(type, span);
  n->value = wrap_int(value, type);
  return own(n);
}
Expr fimm(double value, DType type, Span span) {
  if (type.lanes > 1) return broadcast(fimm(value, type.scalar(), span), type.lanes, span);
  internal_check(type.is_float(), "a float constant of type " + to_string(type));
  auto* n = fresh<FloatImm>(type, span);
  n->value = round_float(value, type);  // one NaN of either sign: text could not tell more of them apart
  return own(n);
}
Expr string_imm(std::string value, Span span) {
  auto* n = fresh<StringImm>(handle, span);
  n->value = std::move(value);
  return own(n);
}
Expr zero(DType type) { return imm(0, type); }
Expr var(std::string hint, DType type, Span span) {
  auto* n = fresh<Var>(type, span);
  n->hint = std::move(hint);
  return own(n);
}

Expr unary(UnaryOp op, Expr a, Span span) {
  DType t = a->dtype;
  if (op == UnaryOp::logical_not && !t.is_bool()) fail(span, "`not` takes a bool, not {}", to_string(t));
  if (t.is_storage())
    fail(span, "{} is not a type of arithmetic: cast to {} first", to_string(t),
         to_string(arithmetic_type(t)));
  if (op == UnaryOp::bit_not && !t.is_int()) fail(span, "`~` takes an integer, not {}", to_string(t));
  if (op == UnaryOp::neg && !t.is_int() && !t.is_float())
    fail(span, "`-` takes a number, not {}", to_string(t));
  if (auto* x = a.as<IntImm>()) {
    if (op == UnaryOp::neg) return imm(int64_t(0 - uint64_t(x->value)), t, span);
    return imm(op == UnaryOp::bit_not ? ~x->value : !x->value, t, span);
  }
  if (auto* x = a.as<FloatImm>()) return fimm(-x->value, t, span);
  auto* n = fresh<Unary>(t, span);
  n->op = op;
  n->a = std::move(a);
  return own(n);
}

Expr binary(BinaryOp op, Expr a, Expr b, Span span) {
  if (a->dtype != b->dtype)
    fail(span, "`{}` has operands of two types, {} and {}: cast one to the other", symbol(op),
         to_string(a->dtype), to_string(b->dtype));
  DType t = a->dtype;
  check_operand_types(op, t.scalar(), span);
  DType result = is_comparison(op) || is_logical(op) ? boolean.with_lanes(t.lanes) : t;
  if (auto folded = fold(op, a, b, result, span)) return *folded;
  auto* n = fresh<Binary>(result, span);
  n->op = op;
  n->a = std::move(a);
  n->b = std::move(b);
  return own(n);
}

Expr written_binary(BinaryOp op, Expr a, Expr b, Span span) {
  if (is_division(op) && a->dtype.is_int() && is_int(b, 0))
    fail(span,
         "`{}` divides by 0: its divisor is that constant, and an integer divided by it has no value; "
         "correct the divisor",
         symbol(op));
  return binary(op, std::move(a), std::move(b), span);
}

Expr cast(DType type, Expr a, Span span) {
  if (a->dtype == type) return a;
  if (a->dtype.lanes != type.lanes)
    fail(span, "cast from {} to {}: the number of lanes differs{}", to_string(a->dtype), to_string(type),
         a->dtype.lanes > 1 && type.lanes == 1
             ? "; a value read by one wide access can only be stored by a store of that width (T.stg128 and "
               "its like); for single elements use a T.vectorized loop over them, which is one access too"
             : "");
  bool is_number = a->dtype.is_handle() && type == u64;  // of an address
  if (type.is_handle() || (a->dtype.is_handle() && !is_number) || type.kind == DType::Kind::none)
    fail(span, "there is no cast from {} to {}", to_string(a->dtype), to_string(type));
  if (auto* x = a.as<IntImm>()) {
    if (!type.is_float()) return imm(type.is_bool() ? x->value != 0 : x->value, type, span);
    return fimm(float_of_int(x->value, x->dtype, type), type, span);
  }
  if (auto* x = a.as<FloatImm>()) {
    if (type.is_float()) return fimm(x->value, type, span);
    if (type.is_bool()) return imm(x->value != 0, type, span);
    if (std::fabs(x->value) < 9.0e18 && fits_integer(x->value, type))
      return imm(int64_t(x->value), type, span);
  }
  auto* n = fresh<Cast>(type, span);
  n->a = std::move(a);
  return own(n);
}

// Integers of 64 bits as an f64 does not round them: of those that have more bits than it, what the last 11
// say goes into the bit before them.
static Expr without_rest(const Expr& a, Span span) {
  DType t = a->dtype;
  auto number = [&](int64_t n) { return imm(n, t); };
  Expr rest = binary(BinaryOp::bit_and, a, number(2047), span);
  Expr carry = binary(BinaryOp::add, rest, number(2047), span);
  Expr odd = binary(BinaryOp::bit_and, binary(BinaryOp::bit_or, a, carry, span), number(-2048), span);
  constexpr int64_t most = int64_t(1) << 53;
  Expr exact = binary(BinaryOp::le, a, number(most), span);
  if (t.is_signed())
    exact = binary(BinaryOp::logical_and, exact, binary(BinaryOp::ge, a, number(-most), span), span);
  return select(exact, a, odd, span);
}

Expr as_single(const Expr& a, Span span) {
  DType t = a->dtype, single = f32.with_lanes(t.lanes);
  if (t.is_bool() || (t.is_float() ? t.bits <= 32 : t.bits <= 16)) return cast(single, a, span);
  Expr exact = t.is_int() && t.bits == 64 ? without_rest(a, span) : a;
  return call(*find_intrinsic("to_odd"), {cast(f64.with_lanes(t.lanes), exact, span)}, single, span);
}

Expr select(Expr cond, Expr a, Expr b, Span span) {
  if (!cond->dtype.is_bool()) fail(span, "the condition of a select is {}, not bool", to_string(cond->dtype));
  if (a->dtype != b->dtype)
    fail(span, "the two values of a select have types {} and {}: cast one to the other", to_string(a->dtype),
         to_string(b->dtype));
  internal_check(cond->dtype.lanes == a->dtype.lanes || cond->dtype.lanes == 1, "lanes of a select");
  if (auto c = as_int(cond)) return *c ? a : b;
  auto* n = fresh<Select>(a->dtype, span);
  n->cond = std::move(cond);
  n->a = std::move(a);
  n->b = std::move(b);
  return own(n);
}

Expr load(DType element, BufferId buffer, std::vector<Expr> index, Span span, Expr mask, Claim claim) {
  int lanes = element.lanes;
  for (auto& i : index) {
    if (!i->dtype.is_int()) fail(span, "an index is {}, not an integer", to_string(i->dtype));
    if (i->dtype.lanes > 1) lanes = i->dtype.lanes;
  }
  auto* n = fresh<Load>(element.with_lanes(lanes), span);
  n->buffer = buffer;
  n->index = std::move(index);
  n->mask = std::move(mask);
  n->claim = std::move(claim);
  return own(n);
}
Expr load(const Function& f, BufferId buffer, std::vector<Expr> index, Span span, Expr mask) {
  return load(f[buffer].dtype, buffer, std::move(index), span, std::move(mask));
}

Expr ramp(Expr base, Expr stride, int lanes, Span span) {
  internal_check(base->dtype == stride->dtype && base->dtype.lanes == 1 && lanes > 1, "a ramp of scalars");
  auto* n = fresh<Ramp>(base->dtype.with_lanes(lanes), span);
  n->base = std::move(base);
  n->stride = std::move(stride);
  return own(n);
}
Expr broadcast(Expr value, int lanes, Span span) {
  if (lanes == 1) return value;
  internal_check(value->dtype.lanes == 1, "a broadcast of a scalar");
  auto* n = fresh<Broadcast>(value->dtype.with_lanes(lanes), span);
  n->value = std::move(value);
  return own(n);
}

Expr call(const Intrinsic& intrinsic, std::vector<Expr> args, DType type, Span span) {
  if (intrinsic.arity >= 0 && size_t(intrinsic.arity) != args.size())
    fail(span, "{} takes {} argument{}, not {}", intrinsic.name, intrinsic.arity,
         intrinsic.arity == 1 ? "" : "s", args.size());
  auto* n = fresh<Call>(type, span);
  n->intrinsic = &intrinsic;
  n->args = std::move(args);
  return own(n);
}
DType result_type(const Intrinsic& intrinsic, const std::vector<Expr>& args) {
  int lanes = args.empty() ? 1 : args[0]->dtype.lanes;
  switch (intrinsic.result) {
    case Intrinsic::Result::same:
      return args.empty() ? none_type : args[0]->dtype;
    case Intrinsic::Result::boolean:
      return boolean.with_lanes(lanes);
    case Intrinsic::Result::handle:
      return handle;
    case Intrinsic::Result::i64:
      return i64.with_lanes(lanes);
    case Intrinsic::Result::i32:
      return i32.with_lanes(lanes);
    case Intrinsic::Result::u32:
      return u32.with_lanes(lanes);
    case Intrinsic::Result::u64:
      return u64.with_lanes(lanes);
    case Intrinsic::Result::given:
    case Intrinsic::Result::none:
      break;
  }
  return none_type;
}
Expr call(const Intrinsic& intrinsic, std::vector<Expr> args, Span span) {
  DType type = result_type(intrinsic, args);
  return call(intrinsic, std::move(args), type, span);
}

Expr address(Expr element, std::string_view access, Span span, Expr count) {
  std::vector<Expr> args{std::move(element)};
  if (access.empty() && count) access = "x";
  if (!access.empty()) args.push_back(string_imm(std::string(access), span));
  if (count) args.push_back(std::move(count));
  return call(address_of, std::move(args), handle, span);
}
Expr with_place_mask(const Call& n, const Expr& mask) {
  if (!mask) return Expr(&n);
  std::vector<Expr> args = n.args;
  for (auto& a : args)
    if (auto* at = place_of(a)) {
      std::vector<Expr> inner = a.as<Call>()->args;
      inner[0] = load(at->dtype.scalar(), at->buffer, at->index, at->span, both(at->mask, mask), at->claim);
      a = call(address_of, std::move(inner), handle, a->span);
    }
  return call(*n.intrinsic, std::move(args), n.dtype, n.span);
}

Expr operator+(Expr a, Expr b) {
  if (is_int(a, 0)) return b;
  if (is_int(b, 0)) return a;
  return binary(BinaryOp::add, std::move(a), std::move(b));
}
Expr operator-(Expr a, Expr b) {
  return is_int(b, 0) ? a : binary(BinaryOp::sub, std::move(a), std::move(b));
}
Expr operator*(Expr a, Expr b) {
  if (is_int(a, 1) || is_int(b, 0)) return b;
  if (is_int(b, 1) || is_int(a, 0)) return a;
  return binary(BinaryOp::mul, std::move(a), std::move(b));
}
Expr operator+(Expr a, int64_t b) { return a + imm(b, a->dtype); }
Expr operator-(Expr a, int64_t b) { return a - imm(b, a->dtype); }
Expr operator*(Expr a, int64_t b) { return a * imm(b, a->dtype); }
Expr floordiv(Expr a, Expr b) {
  return is_int(b, 1) ? a : binary(BinaryOp::floordiv, std::move(a), std::move(b));
}
Expr floordiv(Expr a, int64_t b) { return floordiv(a, imm(b, a->dtype)); }
Expr floormod(Expr a, Expr b) {
  return is_int(b, 1) ? zero(a->dtype) : binary(BinaryOp::floormod, std::move(a), std::move(b));
}
Expr floormod(Expr a, int64_t b) { return floormod(a, imm(b, a->dtype)); }
Expr ceildiv(Expr a, Expr b) { return floordiv(a + (b - 1), b); }
Expr min(Expr a, Expr b) { return binary(BinaryOp::min, std::move(a), std::move(b)); }
Expr max(Expr a, Expr b) { return binary(BinaryOp::max, std::move(a), std::move(b)); }
Expr lt(Expr a, Expr b) { return binary(BinaryOp::lt, std::move(a), std::move(b)); }
Expr le(Expr a, Expr b) { return binary(BinaryOp::le, std::move(a), std::move(b)); }
Expr eq(Expr a, Expr b) { return binary(BinaryOp::eq, std::move(a), std::move(b)); }
Expr both(Expr a, Expr b) {
  if (!a || (is_int(a, 1) && b)) return b;
  if (!b || is_int(b, 1)) return a;
  return binary(BinaryOp::logical_and, std::move(a), std::move(b));
}

// ── what an expression is ─────────────────────────────────────────────────────────────────────────────
std::optional<int64_t> as_int(const Expr& e) {
  if (auto* n = e.as<IntImm>()) return n->value;
  if (auto* b = e.as<Broadcast>()) return as_int(b->value);
  return std::nullopt;
}
bool is_int(const Expr& e, int64_t value) {
  auto v = as_int(e);
  return v && *v == value;
}
bool is_const(const Expr& e) {
  if (auto* b = e.as<Broadcast>()) return is_const(b->value);
  return e.as<IntImm>() || e.as<FloatImm>();
}

// ── statements ────────────────────────────────────────────────────────────────────────────────────────
Stmt store(BufferId buffer, std::vector<Expr> index, Expr value, Span span, Expr mask, Claim claim) {
  auto* n = new Store(span);
  n->buffer = buffer;
  n->index = std::move(index);
  n->value = std::move(value);
  n->mask = std::move(mask);
  n->claim = std::move(claim);
  return own(n);
}
Stmt let(Expr v, Expr value, Span span) {
  internal_check(v.as<Var>() && v->dtype == value->dtype, "a Let of one type");
  auto* n = new Let(span);
  n->var = std::move(v);
  n->value = std::move(value);
  return own(n);
}
Stmt for_loop(Expr v, Expr min, Expr extent, Loop loop, Stmt body, Span span, Attrs attrs) {
  internal_check(v.as<Var>() && v->dtype == min->dtype && v->dtype == extent->dtype, "a For of one type");
  auto* n = new For(span);
  n->var = std::move(v);
  n->min = std::move(min);
  n->extent = std::move(extent);
  n->loop = loop;
  n->attrs = std::move(attrs);
  n->body = std::move(body);
  return own(n);
}
Stmt for_loop(Expr v, int64_t extent, Loop loop, Stmt body, Span span, Attrs attrs) {
  DType t = v->dtype;
  return for_loop(std::move(v), zero(t), imm(extent, t), loop, std::move(body), span, std::move(attrs));
}
Stmt if_then(Expr cond, Stmt then_body, Stmt else_body, Span span) {
  if (!cond || is_int(cond, 1)) return then_body;
  if (!cond->dtype.is_bool()) fail(span, "the condition of an if is {}, not bool", to_string(cond->dtype));
  auto* n = new If(span);
  n->cond = std::move(cond);
  n->then_body = std::move(then_body);
  n->else_body = std::move(else_body);
  return own(n);
}
Stmt while_loop(Expr cond, Stmt body, Span span) {
  auto* n = new While(span);
  n->cond = std::move(cond);
  n->body = std::move(body);
  return own(n);
}
Stmt block(std::vector<Stmt> stmts, Span span) {
  auto binds = [](const Stmt& s) { return s.as<Let>() || s.as<Alloc>(); };
  std::vector<Stmt> flat;
  for (auto& s : stmts) {
    auto* inner = s.as<Block>();
    if (inner && std::ranges::none_of(inner->stmts, binds))
      flat.insert(flat.end(), inner->stmts.begin(), inner->stmts.end());
    else
      flat.push_back(std::move(s));
  }
  if (flat.size() == 1 && !binds(flat[0])) return flat[0];
  auto* n = new Block(span);
  n->stmts = std::move(flat);
  return own(n);
}
Stmt group(int64_t first, int64_t count, Stmt body, Span span, int64_t max_regs, Attrs attrs) {
  auto* n = new Group(span);
  n->first = first;
  n->count = count;
  n->max_regs = max_regs;
  n->attrs = std::move(attrs);
  n->body = std::move(body);
  return own(n);
}
Stmt alloc(BufferId buffer, Span span, Attrs attrs) {
  auto* n = new Alloc(span);
  n->buffer = buffer;
  n->attrs = std::move(attrs);
  return own(n);
}
Stmt tile(const OpInfo& op, std::vector<Operand> operands, Attrs attrs, Span span, Stmt body) {
  auto* n = new Tile(span);
  n->op = &op;
  n->operands = std::move(operands);
  n->attrs = std::move(attrs);
  n->body = std::move(body);
  return own(n);
}
Stmt eval(Expr value, Span span) {
  auto* n = new Eval(span);
  n->value = std::move(value);
  return own(n);
}
bool is_empty(const Stmt& s) {
  auto* b = s.as<Block>();
  return !s || (b && b->stmts.empty());
}

Region whole(const Function& f, BufferId buffer) {
  Region r{.buffer = buffer};
  for (auto& extent : f[buffer].shape) r.ranges.push_back({.min = imm(0), .extent = extent});
  return r;
}

int64_t element_count(const BufferInfo& b) {
  int64_t count = 1;
  for (auto& e : b.shape) count *= as_int(e).value_or(0);
  return count;
}

// Where one tensor may overlap others, each of these may overlap it.
bool may_alias(const Kernel& kernel, BufferId) {
  auto* v = kernel.attrs.find("may_alias");
  auto* ids = v ? std::get_if<std::vector<int64_t>>(v) : nullptr;
  return ids && !ids->empty();
}

int64_t cluster_size(const Kernel& kernel) {
  int64_t n = 1;
  for (int64_t c : kernel.cluster) n *= c;
  return n;
}
Expr rank_in_cluster(const Kernel& kernel) {
  Expr rank = imm(0);
  int64_t below = 1;
  for (size_t d = 0; d < kernel.cluster.size(); d++) {
    if (kernel.cluster[d] > 1) rank = rank + floormod(kernel.grid_vars[d], kernel.cluster[d]) * below;
    below *= kernel.cluster[d];
  }
  return rank;
}

Team whole_block(const Kernel& kernel) { return {.first = 0, .count = thread_count(kernel)}; }
Team team_of(const Group& group) {
  return {.first = group.first,
          .count = group.count,
          .barrier = int(group.attrs.get_int("barrier")),
          .groups = int(group.attrs.get_int("group_barriers"))};
}

size_t section_length(std::span<const Stmt> stmts, size_t begin) {
  size_t end = begin;
  for (; end < stmts.size(); end++) {
    auto* next = stmts[end].as<Group>();
    auto meets = [&](const Stmt& s) {
      auto* g = s.as<Group>();
      return next->first < g->first + g->count && g->first < next->first + next->count;
    };
    auto earlier = stmts.subspan(begin, end - begin);
    if (!next || std::ranges::any_of(earlier, meets)) break;
  }
  return end - begin;
}
int64_t thread_count(const Kernel& kernel) {
  if (kernel.threads.empty()) return 0;
  int64_t n = 1;
  for (int64_t t : kernel.threads) n *= t;
  return n;
}

}  // namespace tl
