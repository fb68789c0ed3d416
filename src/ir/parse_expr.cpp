// Text -> expressions, regions, maps and attributes.  Types are checked by the makers, which get the position
// in the text; mistakes that they would report as internal errors are refused here first.
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "ir/names.h"
#include "ir/parser.h"

namespace tl {
namespace {

std::optional<BinaryOp> infix_op(const Lexeme& t) {
  if (t.quoted || (t.kind != Lexeme::Kind::symbol && t.text != "and" && t.text != "or")) return std::nullopt;
  for (int i = 0; i <= int(BinaryOp::logical_or); i++)
    if (symbol(BinaryOp(i)) == t.text && precedence(BinaryOp(i)) != loosest) return BinaryOp(i);
  return std::nullopt;
}

bool is_comparison_token(const Lexeme& t) {
  auto op = infix_op(t);
  return op && is_comparison(*op);
}

void check_shift(BinaryOp op, const Expr& a, const Expr& b, Span span) {
  auto amount = as_int(b);
  if ((op == BinaryOp::shl || op == BinaryOp::shr) && amount && (*amount < 0 || *amount >= a->dtype.bits))
    fail(span, "a shift of {} by {}: the amount must lie in [0, {})", to_string(a->dtype), *amount,
         a->dtype.bits);
}

}  // namespace

// ── operators ─────────────────────────────────────────────────────────────────────────────────────────
Expr Parser::value(int tightness) {
  size_t first = at;
  Expr e = expr(tightness);
  if (e->dtype.is_handle() || e->dtype == none_type)
    fail(since(first), "expected a value, found an expression of type {}", to_string(e->dtype));
  return e;
}

Expr Parser::expr(int tightness) {
  if (++depth > 500) fail(peek().span, "nested too deeply");
  size_t first = at;
  Expr left = unary_expr();
  for (auto op = infix_op(peek()); op && precedence(*op) >= tightness; op = infix_op(peek())) {
    if (left->dtype.is_handle() || left->dtype == none_type)
      fail(since(first), "`{}` takes values, not {}", symbol(*op), to_string(left->dtype));
    next();
    Expr right = value(precedence(*op) + 1);
    agree(left, right);
    check_shift(*op, left, right, since(first));
    left = written_binary(*op, std::move(left), std::move(right), since(first));
    if (is_comparison(*op) && is_comparison_token(peek()))
      fail(peek().span, "comparisons do not chain: write `a < b and b < c`");
  }
  depth--;
  return left;
}

Expr Parser::unary_expr() {
  size_t first = at;
  if (is("-") && is_number(1)) {
    next();
    return literal(true);
  }
  if (accept("-")) {
    Expr a = value(unary_level);
    return unary(UnaryOp::neg, std::move(a), since(first));
  }
  if (accept("~")) {
    Expr a = value(unary_level);
    return unary(UnaryOp::bit_not, std::move(a), since(first));
  }
  if (accept("not")) {
    Expr a = value(not_level);
    return unary(UnaryOp::logical_not, std::move(a), since(first));
  }
  return primary();
}

Expr Parser::condition(std::string_view of) {
  size_t first = at;
  Expr e = value();
  if (!e->dtype.is_bool()) fail(since(first), "the condition of {} is {}, not bool", of, to_string(e->dtype));
  return e;
}

// ── literals ──────────────────────────────────────────────────────────────────────────────────────────
DType Parser::dtype() {
  if (!is_dtype()) expected("a type (f32, i8, bool, …)");
  return *parse_dtype(next().text);
}

Expr Parser::constant(const Lexeme& t, bool negative, DType type, Span span) {
  if (type.lanes > 1) fail(span, "a constant of one lane is expected: use broadcast(…, {})", int(type.lanes));
  if (type.is_float()) {
    double v = std::strtod(t.text.c_str(), nullptr);  // also of inf and nan
    return fimm(negative ? -v : v, type, span);
  }
  if (type.is_bool()) fail(span, "a bool is written `true` or `false`");
  if (!type.is_int()) fail(span, "there are no constants of type {}", to_string(type));
  if (t.kind != Lexeme::Kind::integer)
    fail(span, "`{}` is not an integer, but {} is", t.text, to_string(type));
  uint64_t v = 0;
  auto [end, bad] = std::from_chars(t.text.data(), t.text.data() + t.text.size(), v);
  uint64_t all = ~uint64_t(0) >> (64 - type.bits);
  uint64_t limit = type.is_unsigned() ? (negative ? 0 : all) : all / 2 + negative;
  if (bad != std::errc() || v > limit)
    fail(span, "{}{} does not fit into {}", negative ? "-" : "", t.text, to_string(type));
  return imm(int64_t(negative ? 0 - v : v), type, span);
}

// The sign, if there is one, has been read: it belongs to the number, so that the least integer can be
// written.
Expr Parser::literal(bool negative) {
  size_t first = negative ? at - 1 : at;
  Lexeme t = next();
  DType type = t.kind == Lexeme::Kind::integer ? i64 : f32;
  bool typed = is(":") && is_dtype(1);
  if (typed) {
    next();
    type = dtype();
  }
  Expr e = constant(t, negative, type, since(first));
  if (!typed) weak[e.get()] = {e, t, negative};
  return e;
}

// A constant without a type takes that of what it meets, if it is of that kind.
void Parser::adopt(Expr& e, DType type) const {
  auto it = weak.find(e.get());
  if (it == weak.end() || type.lanes > 1 || type == e->dtype) return;
  auto& [literal, token, negative] = it->second;
  if (type.is_float() ? e->dtype.is_float() : type.is_int() && e->dtype.is_int())
    e = constant(token, negative, type, e->span);
}

void Parser::agree(Expr& a, Expr& b) const {
  adopt(a, b->dtype);
  adopt(b, a->dtype);
}

int64_t Parser::integer(std::string_view what) {
  bool negative = is("-") && is(Lexeme::Kind::integer, 1);
  if (negative) next();
  if (!is(Lexeme::Kind::integer)) expected(what);
  Expr e = literal(negative);
  if (e->dtype != i64) fail(e->span, "expected {} without a type", what);
  return *as_int(e);
}

std::vector<int64_t> Parser::integers() {
  std::vector<int64_t> v;
  expect("(", "before a list of integers");
  do v.push_back(integer("an integer"));
  while (accept(","));
  expect(")", "after a list of integers");
  return v;
}

// ── primaries ─────────────────────────────────────────────────────────────────────────────────────────
std::vector<Expr> Parser::exprs(std::string_view close) {
  std::vector<Expr> list;
  if (accept(close)) return list;
  do list.push_back(expr());
  while (accept(","));
  if (!is(close)) expected(fmt::format("`,` or `{}`", close));
  next();
  return list;
}

Expr Parser::primary() {
  const Lexeme& t = peek();
  if (is_number()) return literal(false);
  if (accept("(")) {
    Expr e = expr();
    expect(")", "after an expression in parentheses");
    return e;
  }
  if (t.kind == Lexeme::Kind::string) {
    next();
    return string_imm(t.text, t.span);
  }
  if (t.kind != Lexeme::Kind::name) expected("an expression");
  if (!t.quoted && (t.text == "true" || t.text == "false")) {
    next();
    return imm(t.text == "true", boolean, t.span);
  }
  bool typed_call = is("<", 1) && is_dtype(2) && is(">", 3) && is("(", 4);
  if (typed_call && t.unique == "cast") return cast_expr();
  if (typed_call || is("(", 1)) return function_call();
  if (is("[", 1)) return load_expr();
  if (auto it = vars.find(t.unique); it != vars.end()) {
    next();
    return it->second;
  }
  if (buffers.contains(t.unique)) fail(t.span, "`{}` is a buffer: index it, `{}[…]`", t.unique, t.unique);
  if (!t.quoted && is_reserved(t.text)) expected("an expression");
  if (introducing) {
    next();
    return define(t, i64);
  }
  unknown(t, "variable");
}

Expr Parser::cast_expr() {
  size_t first = at;
  at += 2;
  DType type = dtype();
  at += 2;
  Expr a = type == u64 ? expr() : value();  // of an address, the number
  expect(")", "after the value of a cast");
  return cast(type, std::move(a), since(first));
}

Expr Parser::load_expr() {
  size_t first = at;
  Lexeme name = next();
  auto it = buffers.find(name.unique);
  if (it == buffers.end()) unknown(name, "buffer");
  next();
  std::vector<Expr> index = exprs("]");
  Expr mask;
  if (is("mask") && is("(", 1)) {
    at += 2;
    mask = condition("a mask");
    expect(")", "after a mask");
  }
  return load(f, it->second, std::move(index), since(first), std::move(mask));
}

// The functions that are nodes rather than rows.
struct NodeFunction {
  std::string_view name;
  size_t arity;
  Expr (*make)(const Parser& p, std::vector<Expr>& args, Span span);
};

static Expr make_select(const Parser& p, std::vector<Expr>& args, Span span) {
  p.agree(args[1], args[2]);
  if (args[0]->dtype.lanes != 1 && args[0]->dtype.lanes != args[1]->dtype.lanes)
    fail(span, "the condition of a select has {} lanes, its values {}", int(args[0]->dtype.lanes),
         int(args[1]->dtype.lanes));
  return select(args[0], args[1], args[2], span);
}

static int lanes_of(std::string_view function, const Expr& lanes, Span span) {
  auto n = as_int(lanes);
  if (!n || *n < 2 || *n > 65535) fail(span, "the lanes of a {} are a constant from 2 to 65535", function);
  return int(*n);
}

static Expr make_ramp(const Parser& p, std::vector<Expr>& args, Span span) {
  p.agree(args[0], args[1]);
  int lanes = lanes_of("ramp", args[2], span);
  if (args[0]->dtype.lanes != 1 || args[0]->dtype != args[1]->dtype || !args[0]->dtype.is_int())
    fail(span, "a ramp takes two integers of one type");
  return ramp(args[0], args[1], lanes, span);
}

static Expr make_broadcast(const Parser&, std::vector<Expr>& args, Span span) {
  int lanes = lanes_of("broadcast", args[1], span);
  if (args[0]->dtype.lanes != 1) fail(span, "a broadcast takes a value of one lane");
  return broadcast(args[0], lanes, span);
}

static Expr make_ceildiv(const Parser& p, std::vector<Expr>& args, Span span) {
  p.agree(args[0], args[1]);
  if (!args[0]->dtype.is_int() || args[0]->dtype != args[1]->dtype)
    fail(span, "ceildiv takes two integers of one type, not {} and {}", to_string(args[0]->dtype),
         to_string(args[1]->dtype));
  return written_binary(BinaryOp::floordiv, args[0] + (args[1] - 1), args[1], span);
}

static constexpr NodeFunction node_functions[] = {
    {"select", 3, make_select},
    {"ramp", 3, make_ramp},
    {"broadcast", 2, make_broadcast},
    {"ceildiv", 2, make_ceildiv},
};

// Null where the name is none of these, nor a binary operator that is written as a function.
Expr Parser::builtin(const Lexeme& name, size_t first) {
  auto row = std::find_if(std::begin(node_functions), std::end(node_functions),
                          [&](auto& r) { return r.name == name.text; });
  bool is_row = row != std::end(node_functions);
  auto op = find_binary_op(name.text);
  if (!is_row && !(op && precedence(*op) == loosest)) return {};
  std::vector<Expr> args = exprs(")");
  if (size_t count = is_row ? row->arity : 2; args.size() != count)
    fail(since(first), "{} takes {} arguments, not {}", name.text, count, args.size());
  for (auto& a : args)
    if (a->dtype.is_handle() || a->dtype == none_type)
      fail(since(first), "{} takes values, not {}", name.text, to_string(a->dtype));
  if (is_row) return row->make(*this, args, since(first));
  agree(args[0], args[1]);
  return written_binary(*op, args[0], args[1], since(first));
}

Expr Parser::function_call() {
  size_t first = at;
  Lexeme name = next();
  std::optional<DType> type;
  if (accept("<")) {
    type = dtype();
    next();
  }
  next();
  if (!type && !name.quoted)
    if (Expr e = builtin(name, first)) return e;
  const Intrinsic* intrinsic = find_intrinsic(name.text);
  if (!intrinsic && vocabulary.find_instr) intrinsic = vocabulary.find_instr(name.text);
  if (!intrinsic && vocabulary.find_op && vocabulary.find_op(name.text))
    fail(name.span, "{} is a tile operator: it is a statement of its own", name.text);
  if (!intrinsic) unknown(name, "function");
  std::vector<Expr> args = exprs(")");
  for (auto& a : args)
    if (a->dtype == none_type) fail(a->span, "an argument of {} has no value", name.text);
  return type ? call(*intrinsic, std::move(args), *type, since(first))
              : call(*intrinsic, std::move(args), since(first));
}

// ── regions ───────────────────────────────────────────────────────────────────────────────────────────
Range Parser::range() {
  auto index = [&] {
    size_t first = at;
    Expr e = value();
    if (!e->dtype.is_int()) fail(since(first), "an index is {}, not an integer", to_string(e->dtype));
    return e;
  };
  Range r;
  r.min = index();
  if (!accept(":")) {
    r.extent = imm(1, r.min->dtype);
    r.point = true;
  } else if (accept("+")) {
    r.extent = index();
  } else if (!is(",") && !is("]")) {
    expected("`+` and an extent, as in `A[i : +128]`, or nothing");
  }
  return r;
}

Region Parser::region() {
  const Lexeme& name = expect_name("a buffer");
  auto it = buffers.find(name.unique);
  if (it == buffers.end()) unknown(name, "buffer");
  if (!is("[")) return whole(f, it->second);
  next();
  Region r{.buffer = it->second};
  if (accept("]")) return whole(f, r.buffer);
  do r.ranges.push_back(range());
  while (accept(","));
  if (!is("]")) expected("`,` or `]`");
  next();
  return r;
}

// Where the operator takes a value, `A[i, j]` is a Load; elsewhere it is a Region, and a value stands in
// parentheses.
Operand Parser::operand(Access access) {
  if (is("region") && is("(", 1)) {
    at += 2;
    Region r = region();
    expect(")", "after a region");
    return r;
  }
  bool names_buffer = is(Lexeme::Kind::name) && buffers.contains(peek().unique) && !is("(", 1);
  if (access != Access::value) {
    if (!is("(") && is(Lexeme::Kind::name)) return region();
    expect("(", "before a value, or a buffer,");
    Expr e = value();
    expect(")", "after a value in the place of a region");
    return e;
  }
  if (names_buffer) {
    size_t first = at;
    size_t after = is("[", 1) ? closing(at + 1) + 1 : at + 1;
    bool slices = false;
    for (size_t i = at + 1, level = 0; i < after; i++) {
      const std::string& s = tokens[i].text;
      bool symbol = tokens[i].kind == Lexeme::Kind::symbol;
      if (symbol && (s == "[" || s == "(")) level++;
      if (symbol && (s == "]" || s == ")")) level--;
      bool typed = tokens[i + 1].kind == Lexeme::Kind::name && parse_dtype(tokens[i + 1].text);
      slices |= symbol && s == ":" && level == 1 && !typed;
    }
    bool bare = after == first + 1 && (tokens[after].text == "," || tokens[after].text == ")");
    if (slices || bare) return region();
  }
  return value();
}

// ── maps and attributes ───────────────────────────────────────────────────────────────────────────────
std::pair<Lexeme, DType> Parser::typed_name() {
  Lexeme name = expect_name("the name of a variable");
  DType type = i64;
  if (is(":") && is_dtype(1)) {
    next();
    type = dtype();
    if (!type.is_int() || type.lanes > 1)
      fail(name.span, "`{}` is {}, not an integer", name.unique, to_string(type));
  }
  return {name, type};
}

IndexMap Parser::index_map(const std::vector<int64_t>& expected_extents) {
  IndexMap m;
  open();
  Span span = expect("(", "before the variables of a map").span;
  while (!accept(")")) {
    if (!m.vars.empty()) expect(",", "between the variables of a map");
    if (expected_extents.empty() && m.extents.empty() && is(":", 1) && is_dtype(2) && !is(":", 3)) {
      Lexeme name = expect_name("the name of a variable");  // of a function of values
      next();
      m.vars.push_back(define(name, dtype(), true));
      continue;
    }
    auto [name, type] = typed_name();
    m.vars.push_back(define(name, type, true));
    size_t i = m.extents.size();
    if (accept(":"))
      m.extents.push_back(integer("an extent"));
    else if (i < expected_extents.size() && expected_extents[i] >= 0)
      m.extents.push_back(expected_extents[i]);
    else
      fail(m.vars.back()->span, "the extent of a map's variable is missing: write `{}: 8`", name.unique);
    if (m.extents.back() < 1)
      fail(span, "the extent of a map's variable is {}, not positive", m.extents.back());
  }
  if (!m.extents.empty() && m.extents.size() != m.vars.size())
    fail(span, "either all variables of a map have an extent, or none of them (a function of values)");
  expect("->", "after the variables of a map");
  bool tuple = is("(") && is(")", 1);
  for (size_t i = at, level = 0, end = is("(") ? closing(at) : at; i < end; i++) {
    if (tokens[i].text == "(" || tokens[i].text == "[") level++;
    if (tokens[i].text == ")" || tokens[i].text == "]") level--;
    tuple |= tokens[i].text == "," && level == 1;
  }
  if (tuple) {
    next();
    m.outputs = exprs(")");
  } else {
    m.outputs.push_back(value());
  }
  close();
  return m;
}

AttrValue Parser::attr_value() {
  if (is(Lexeme::Kind::string)) return next().text;
  if (accept("[")) {
    std::vector<int64_t> list;
    while (!accept("]")) {
      if (!list.empty()) expect(",", "between the integers of a list");
      list.push_back(integer("an integer or `]`"));
    }
    return list;
  }
  if (is("(")) {
    if (is("->", closing(at) + 1 - at)) return index_map({});
    next();
    Expr e;
    if (!is(")")) e = expr();
    expect(")", "after an expression in an attribute");
    return e;
  }
  bool negative = is("-");
  size_t ahead = negative ? 1 : 0;
  if (is(Lexeme::Kind::integer, ahead)) return integer("an integer");
  if (!is_number(ahead)) expected("an integer, a number, a string, a list, (an expression) or a map");
  at += ahead;
  double v = std::strtod(next().text.c_str(), nullptr);
  return negative ? -v : v;
}

Attrs Parser::attrs() {
  Attrs a;
  if (!accept("{")) return a;
  while (!accept("}")) {
    if (!a.entries.empty()) expect(",", "between attributes");
    Lexeme key = expect_name("the name of an attribute");
    expect("=", "after the name of an attribute");
    if (!a.entries.emplace(key.text, attr_value()).second)
      fail(key.span, "the attribute {} is given twice", key.text);
  }
  return a;
}

}  // namespace tl
