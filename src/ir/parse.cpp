// Text -> Function: statements, kernels, functions.  Recursive descent over the tokens of parse_lexer.cpp;
// every node gets the position of its text as span.
#include <algorithm>

#include "base/error.h"
#include "base/suggest.h"
#include "ir/names.h"
#include "ir/parser.h"

namespace tl {
namespace {

// The attributes that the operator declares have its types; passes may add others.
void check_attrs(const OpInfo& op, const std::vector<OpInfo::Attr>& rows, const Attrs& attrs, Span span) {
  using Type = OpInfo::Attr::Type;
  for (auto& row : rows) {
    const AttrValue* v = attrs.find(row.name);
    if (!v) continue;
    auto* integer = std::get_if<int64_t>(v);
    auto* word = std::get_if<std::string>(v);
    bool listed = word && (row.choices.empty() || std::ranges::count(row.choices, *word));
    std::string choices;
    for (auto c : row.choices) choices += fmt::format("{}\"{}\"", choices.empty() ? "one of " : ", ", c);
    if (row.type == Type::flag && (!integer || (*integer != 0 && *integer != 1)))
      fail(span, "{}: {} must be 0 or 1", op.name, row.name);
    auto* e = std::get_if<Expr>(v);
    bool truth = (integer && (*integer == 0 || *integer == 1)) || (e && *e && (*e)->dtype == boolean);
    if (row.type == Type::condition && !truth)
      fail(span, "{}: {} must be 0, 1 or (a condition)", op.name, row.name);
    if (row.type == Type::index && !integer && !(e && *e && (*e)->dtype.is_int()))
      fail(span, "{}: {} must be an integer or (an expression of one)", op.name, row.name);
    if (row.type == Type::integer && !integer) fail(span, "{}: {} must be an integer", op.name, row.name);
    if (row.type == Type::number && !integer && !std::get_if<double>(v))
      fail(span, "{}: {} must be a number", op.name, row.name);
    if (row.type == Type::choice && !listed)
      fail(span, "{}: {} must be {}", op.name, row.name, choices.empty() ? "a string" : choices);
    auto* map = std::get_if<IndexMap>(v);
    if (row.type == Type::map && (!map || map->extents.empty()))
      fail(span, "{}: {} must be a map", op.name, row.name);
    if (row.type == Type::function && (!map || !map->extents.empty()))
      fail(span, "{}: {} must be a function of values", op.name, row.name);
  }
}

}  // namespace

// ── tokens ────────────────────────────────────────────────────────────────────────────────────────────
const Lexeme& Parser::next() {
  const Lexeme& t = peek();
  if (at + 1 < tokens.size()) at++;
  return t;
}
bool Parser::is(std::string_view s, size_t ahead) const {
  const Lexeme& t = peek(ahead);
  return (t.kind == Lexeme::Kind::symbol || t.kind == Lexeme::Kind::name) && !t.quoted && t.text == s;
}
bool Parser::is_dtype(size_t ahead) const {
  const Lexeme& t = peek(ahead);
  return t.kind == Lexeme::Kind::name && !t.quoted && parse_dtype(t.text).has_value();
}
bool Parser::accept(std::string_view s) {
  if (!is(s)) return false;
  next();
  return true;
}
void Parser::expected(std::string_view what) const {
  fail(peek().span, "expected {}, found {}", what, describe(peek()));
}
const Lexeme& Parser::expect(std::string_view s, std::string_view after) {
  if (!is(s)) expected(fmt::format("`{}` {}", s, after));
  return next();
}
const Lexeme& Parser::expect_name(std::string_view what) {
  if (!is(Lexeme::Kind::name) || (!peek().quoted && is_reserved(peek().text))) {
    bool word = is(Lexeme::Kind::name);
    expected(word ? fmt::format("{} (a word of the language can be one between backquotes)", what)
                  : std::string(what));
  }
  return next();
}
Span Parser::since(size_t first) const {
  Span s = tokens[first].span;
  const Span& last = tokens[at > first ? at - 1 : first].span;
  s.end_line = last.end_line;
  s.end_column = last.end_column;
  return s;
}
size_t Parser::closing(size_t open) const {
  size_t level = 0;
  for (size_t i = open; i < tokens.size(); i++) {
    if (tokens[i].kind != Lexeme::Kind::symbol) continue;
    const std::string& s = tokens[i].text;
    if (s == "(" || s == "[" || s == "{") level++;
    if ((s == ")" || s == "]" || s == "}") && --level == 0) return i;
  }
  return tokens.size() - 2;
}

// ── names ─────────────────────────────────────────────────────────────────────────────────────────────
void Parser::close() {
  for (auto it = scopes.back().rbegin(); it != scopes.back().rend(); ++it) {
    auto& [name, outside] = *it;
    if (outside)
      vars[name] = outside;
    else
      vars.erase(name);
  }
  scopes.pop_back();
}
void Parser::check_fresh(const Lexeme& name) const {
  Span before;
  if (auto it = vars.find(name.unique); it != vars.end()) before = it->second->span;
  if (auto it = buffers.find(name.unique); it != buffers.end()) before = f[it->second].span;
  if (before) fail(name.span, "`{}` is already defined, at {}:{}", name.unique, before.line, before.column);
}
Expr Parser::define(const Lexeme& name, DType type, bool may_shadow) {
  if (!may_shadow) check_fresh(name);
  Expr v = var(name.text, type, name.span);
  auto it = vars.find(name.unique);
  scopes.back().emplace_back(name.unique, it == vars.end() ? Expr() : it->second);
  vars[name.unique] = v;
  return v;
}
void Parser::unknown(const Lexeme& name, std::string_view what) const {
  std::vector<std::string> known;
  if (what == "variable")
    for (auto& [n, v] : vars) known.push_back(n);
  if (what != "function")
    for (auto& [n, id] : buffers) known.push_back(n);
  if (what == "function") {
    for (auto rows : {scalar_functions(), thread_functions()})
      for (auto& r : rows) known.emplace_back(r.name);
    for (auto n : {"select", "cast", "ramp", "broadcast", "min", "max", "truncdiv", "truncmod", "ceildiv"})
      known.emplace_back(n);
    if (vocabulary.op_names)
      for (auto n : vocabulary.op_names()) known.emplace_back(n);
  }
  std::string best;
  size_t distance = std::min(std::max<size_t>(1, name.text.size() / 3) + 1, name.text.size());
  for (auto& n : known)
    if (size_t d = edit_distance(n, name.unique); d < distance) {
      distance = d;
      best = n;
    }
  fail(name.span, "there is no {} `{}` here{}", what, name.unique,
       best.empty() ? "" : "; did you mean `" + best + "`?");
}

// ── statements ────────────────────────────────────────────────────────────────────────────────────────
void Parser::end_of_line() {
  if (!is(Lexeme::Kind::newline)) expected("the end of the line");
  next();
  weak.clear();
}
void Parser::header_end() {
  expect(":", "at the end of the line");
  end_of_line();
}

// The statements of an indented block, as they stand: a nest that is written stays a nest.
Stmt Parser::nest() {
  if (++depth > 500) fail(peek().span, "nested too deeply");
  if (!is(Lexeme::Kind::indent)) expected("an indented block");
  next();
  Span span = peek().span;
  std::vector<Stmt> stmts;
  open();
  while (!is(Lexeme::Kind::dedent) && !is(Lexeme::Kind::end)) {
    if (accept("pass"))
      end_of_line();
    else
      stmts.push_back(statement());
  }
  if (is(Lexeme::Kind::dedent)) next();
  close();
  depth--;
  auto* nest = new Block(span);
  nest->stmts = std::move(stmts);
  return own(nest);
}
Stmt Parser::body() {
  Stmt s = nest();
  auto& stmts = s.as<Block>()->stmts;
  bool alone = stmts.size() == 1 && !stmts[0].as<Let>() && !stmts[0].as<Alloc>();
  return alone ? stmts[0] : s;
}

Stmt Parser::statement() {
  const Lexeme& t = peek();
  if (t.kind == Lexeme::Kind::indent) expected("a statement at the indentation of the line above");
  if (is("for")) return for_statement();
  if (is("if")) return if_statement();
  if (is("group")) return group_statement();
  if (is("alloc")) return alloc_statement();
  if (is("while")) {
    size_t first = at;
    next();
    Expr cond = condition("a while");
    Span span = since(first);
    header_end();
    return while_loop(std::move(cond), body(), span);
  }
  if (accept("block")) {
    header_end();
    return nest();
  }
  if (t.kind == Lexeme::Kind::name && is("=", 1)) return assignment();
  if (t.kind == Lexeme::Kind::name && is("(", 1) && vocabulary.user_op && has_body())
    return user_tile_statement();
  bool of_address = is("address_of", 2) && is("(", 3);  // an instruction that has an operator's name
  if (t.kind == Lexeme::Kind::name && is("(", 1) && vocabulary.find_op && !of_address)
    if (const OpInfo* op = vocabulary.find_op(t.text)) return tile_statement(*op);
  return plain_statement();
}

Stmt Parser::for_statement() {
  size_t first = at;
  next();
  Lexeme name = expect_name("the name of the loop's variable");
  expect("in", "after the variable of a loop");
  std::optional<Loop> loop;
  for (int i = 0; i <= int(Loop::vectorized); i++)
    if (is(to_string(Loop(i)))) loop = Loop(i);
  if (!loop) expected("serial, parallel, pipelined, unrolled or vectorized");
  next();
  expect("(", "after the kind of a loop");
  size_t range = at;
  Expr min, extent = value();
  if (accept(":")) {
    expect("+", "before the extent of a loop, as in `serial(2 : +8)`,");
    min = extent;
    extent = value();
  }
  if (is(",")) fail(peek().span, "a loop over [2, 10) is written `{}(2 : +8)`", to_string(*loop));
  DType type = extent->dtype;
  if (!type.is_int() || type.lanes > 1)
    fail(since(range), "a loop runs over integers, not {}", to_string(type));
  if (min && min->dtype != type)
    fail(since(range), "a loop begins at {} but its extent is {}", to_string(min->dtype), to_string(type));
  expect(")", "after the extent of a loop");
  Attrs extras = attrs();
  Span span = since(first);
  header_end();
  open();
  Expr v = define(name, type);
  Stmt inner = body();
  close();
  return for_loop(v, min ? min : zero(type), extent, *loop, inner, span, std::move(extras));
}

Stmt Parser::if_statement() {
  size_t first = at;
  next();  // if or elif
  Expr cond = condition("an if");
  if (cond->dtype.lanes > 1)
    fail(since(first + 1), "the condition of an if has {} lanes", int(cond->dtype.lanes));
  Span span = since(first);
  header_end();
  Stmt then_body = body(), else_body;
  if (is("elif")) {
    else_body = if_statement();
  } else if (accept("else")) {
    header_end();
    else_body = body();
  }
  return if_then(std::move(cond), std::move(then_body), std::move(else_body), span);
}

Stmt Parser::group_statement() {
  size_t start = at;
  next();
  expect("(", "after group");
  int64_t first = integer("the first thread of the group");
  expect(":", "after the first thread of a group, as in `group(0 : +128)`,");
  expect("+", "before the number of threads of a group, as in `group(0 : +128)`,");
  int64_t count = integer("the number of threads of the group"), max_regs = 0;
  if (accept(",")) {
    expect("max_regs", "after the threads of a group");
    expect("=", "after max_regs");
    max_regs = integer("a number of registers");
  }
  expect(")", "after the threads of a group");
  Attrs extras = attrs();
  Span span = since(start);
  header_end();
  return group(first, count, body(), span, max_regs, std::move(extras));
}

Stmt Parser::alloc_statement() {
  size_t first = at;
  next();
  const Lexeme& name = expect_name("a buffer");
  auto it = buffers.find(name.unique);
  if (it == buffers.end()) unknown(name, "buffer");
  Attrs extras = attrs();
  Span span = since(first);
  end_of_line();
  return alloc(it->second, span, std::move(extras));
}

// `x = value` is a Let, `x = shared f32[…]` an Alloc.
Stmt Parser::assignment() {
  size_t first = at;
  Lexeme name = expect_name("a name");
  check_fresh(name);
  next();
  if (auto scope = scope_word(0)) {
    next();
    BufferId id = declare(name, *scope);
    Attrs extras = attrs();
    f[id].span = since(first);
    end_of_line();
    return alloc(id, f[id].span, std::move(extras));
  }
  Expr e = value();
  Span span = since(first);
  end_of_line();
  return let(define(name, e->dtype), e, span);
}

Stmt Parser::tile_statement(const OpInfo& op) {
  size_t first = at;
  at += 2;
  std::vector<Operand> operands;
  while (!accept(")")) {
    if (!operands.empty()) expect(",", "between operands");
    bool known = operands.size() < op.operands.size();
    operands.push_back(operand(known ? op.operands[operands.size()].access : Access::value));
  }
  if (operands.size() != op.operands.size()) {
    std::string names;
    for (auto& o : op.operands) names += fmt::format("{}{}", names.empty() ? "" : ", ", o.name);
    fail(since(first), "{} takes {} operands ({}), not {}", op.name, op.operands.size(), names,
         operands.size());
  }
  size_t braces = at;
  Attrs extras = attrs();
  check_attrs(op, op.attrs, extras, since(braces));
  check_attrs(op, op.record, extras, since(braces));
  Span span = since(first);
  end_of_line();
  return tile(op, std::move(operands), std::move(extras), span);
}

// Does `name(…) {…}` end in a colon?
bool Parser::has_body() const {
  size_t end = closing(at + 1) + 1;
  if (tokens[end].kind == Lexeme::Kind::symbol && tokens[end].text == "{") end = closing(end) + 1;
  return tokens[end].kind == Lexeme::Kind::symbol && tokens[end].text == ":";
}

// name(read A[…], write B, value x) {…}: and, indented, what it becomes
Stmt Parser::user_tile_statement() {
  size_t first = at;
  Lexeme name = expect_name("a tile operator");
  next();
  std::vector<Operand> operands;
  std::vector<Access> accesses;
  while (!accept(")")) {
    if (!operands.empty()) expect(",", "between operands");
    std::optional<Access> access;
    for (Access a : {Access::value, Access::read, Access::write, Access::update})
      if (is(to_string(a))) access = a;
    if (!access) expected("read, write, update or value before the operand of an operator that has a body");
    next();
    accesses.push_back(*access);
    operands.push_back(operand(*access));
  }
  Attrs extras = attrs();
  Span span = since(first);
  header_end();
  const OpInfo* op = vocabulary.user_op(name.text, accesses);
  if (!op) fail(name.span, "`{}` is an operator of the language: it has no body", name.text);
  return tile(*op, std::move(operands), std::move(extras), span, body());
}

Stmt Parser::plain_statement() {
  size_t first = at;
  Expr e = expr();
  if (!accept("=")) {
    Span span = since(first);
    end_of_line();
    return eval(std::move(e), span);
  }
  auto* target = e.as<Load>();
  if (!target) fail(e->span, "what stands left of `=` is neither a name nor an element of a buffer");
  Expr v = value();
  Span span = since(first);
  DType expected_type = target->dtype;
  adopt(v, expected_type);
  end_of_line();
  if (v->dtype != expected_type)
    fail(span, "`{}` holds {} but the value is {}: cast it", f[target->buffer].name, to_string(expected_type),
         to_string(v->dtype));
  return store(target->buffer, target->index, std::move(v), span, target->mask);
}

}  // namespace tl
