// Text -> Function: buffers, parameters, kernels.

#include "base/error.h"
#include "ir/names.h"
#include "ir/parser.h"
#include "ir/text.h"

namespace tl {

// ── buffers ───────────────────────────────────────────────────────────────────────────────────────────
std::optional<Scope> Parser::scope_word(size_t ahead) const {
  if (is_dtype(ahead + 1) && is("[", ahead + 2))
    for (Scope scope : {Scope::global, Scope::shared, Scope::fragment, Scope::local})
      if (is(to_string(scope), ahead)) return scope;
  return std::nullopt;
}

void Parser::buffer_suffix(BufferInfo& b, std::optional<int64_t>& id) {
  auto enclosed = [&](std::string_view what, auto read) {
    expect("(", fmt::format("before {}", what));
    auto value = read();
    expect(")", fmt::format("after {}", what));
    return value;
  };
  auto number = [&](std::string_view what) { return enclosed(what, [&] { return integer(what); }); };
  auto text = [&] {
    if (!is(Lexeme::Kind::string)) expected("a string");
    return next().text;
  };
  for (;;) {
    if (accept("strides")) {
      size_t first = at;
      expect("(", "before the strides");
      b.strides = exprs(")");
      if (b.strides.size() != b.shape.size())
        fail(since(first), "{} strides for {} dimensions", b.strides.size(), b.shape.size());
      for (auto& s : b.strides)
        if (s->dtype != i64) fail(s->span, "a stride is {}, not i64", to_string(s->dtype));
    } else if (accept("alignment")) {
      b.alignment = number("an alignment");
    } else if (accept("layout")) {
      b.layout = enclosed("a layout", [&] { return index_map(layout_extents(b)); });
    } else if (accept("slots")) {
      b.slots = number("a number of slots");
    } else if (accept("address")) {
      b.address = number("an address");
    } else if (accept("elements")) {
      b.elements = number("a number of elements");
    } else if (accept("alias")) {
      b.alias_of = enclosed("the buffer whose storage it is", [&] {
        const Lexeme& name = expect_name("a buffer");
        auto it = buffers.find(name.unique);
        if (it == buffers.end()) unknown(name, "buffer");
        return it->second;
      });
    } else if (accept("reducer")) {
      b.reducer = enclosed("a reducer's operation", text);
    } else if (accept("pipeline")) {
      b.pipeline = enclosed("the name of a pipeline", text);
    } else if (accept("safe_value")) {
      expect("(", "before a value");
      bool negative = accept("-");
      if (!is_number(0)) expected("a number");
      size_t first = at;
      Lexeme number = next();
      b.safe_value = constant(number, negative, b.holds != none_type ? b.holds : b.dtype, since(first));
      expect(")", "after a value");
    } else if (accept("holds")) {
      b.holds = enclosed("a type", [&] { return dtype(); });
    } else if (accept("id")) {
      id = number("the id of a buffer");
    } else {
      return;
    }
  }
}

// The name and scope have been read, the type follows.
BufferId Parser::declare(const Lexeme& name, Scope scope) {
  check_fresh(name);
  BufferInfo b;
  b.name = name.text;
  b.dtype = dtype();
  b.scope = scope;
  b.span = name.span;
  expect("[", "after the type of a buffer's elements");
  b.shape = exprs("]");
  for (auto& e : b.shape)
    if (e->dtype != i64) fail(e->span, "an extent is {}, not i64", to_string(e->dtype));
  std::optional<int64_t> wanted;
  buffer_suffix(b, wanted);
  int id = 0;
  while (taken_ids.contains(id)) id++;
  if (wanted) {
    bool small = *wanted >= 0 && *wanted < int64_t(tokens.size());
    if (!small || taken_ids.contains(int(*wanted)))
      fail(name.span, "the id {} of `{}` is {}", *wanted, name.unique, small ? "taken" : "out of range");
    id = int(*wanted);
  }
  taken_ids.insert(id);
  if (f.buffers.size() <= size_t(id)) f.buffers.resize(size_t(id) + 1);
  f.buffers[size_t(id)] = std::move(b);
  buffers[name.unique] = BufferId{id};
  return BufferId{id};
}

// ── parameters ────────────────────────────────────────────────────────────────────────────────────────
// Scalars are defined first: the shape of a tensor left of them may use them.
void Parser::scan_scalars() {
  size_t begin = at, end = closing(at - 1), level = 0;
  for (; at < end; at++) {
    if (is("[") || is("(")) level++;
    if ((is("]") || is(")")) && level > 0) level--;
    bool renamed = is("as", 1) && is(Lexeme::Kind::name, 2);
    size_t colon = renamed ? 3 : 1;
    if (level == 0 && is(Lexeme::Kind::name) && (at == begin || tokens[at - 1].text == ",") &&
        is(":", colon) && is_dtype(colon + 1) && !is("[", colon + 2))
      define(peek(renamed ? 2 : 0), *parse_dtype(peek(colon + 1).text));
  }
  at = begin;
}

void Parser::param() {
  Lexeme name = expect_name("the name of a parameter");
  Lexeme inner = accept("as") ? expect_name("the name of a parameter") : name;
  for (auto& p : f.params)
    if (p.name == name.text) fail(name.span, "two parameters are called `{}`", name.text);
  expect(":", "after the name of a parameter");
  Param p{.name = name.text};
  auto scope = scope_word(0);
  if (scope) next();
  if (!is_dtype()) expected("a type (f32, i8, bool, …)");
  if (is("[", 1)) {
    introducing = true;
    p.buffer = declare(inner, scope.value_or(Scope::global));
    introducing = false;
  } else {
    p.var = vars.at(inner.unique);
    dtype();
  }
  f.params.push_back(std::move(p));
}

// ── kernels and the function ──────────────────────────────────────────────────────────────────────────
void Parser::kernel() {
  size_t first = at;
  next();
  Kernel k;
  k.name = expect_name("the name of a kernel").text;
  open();
  std::set<std::string> clauses;
  for (;;) {
    if (is("grid") || is("thread") || is("threads") || is("cluster"))
      if (!clauses.insert(peek().text).second) fail(peek().span, "`{}` is given twice", peek().text);
    if (accept("grid")) {
      expect("(", "after grid");
      std::vector<std::pair<Lexeme, DType>> names;  // they mean nothing yet in the extents
      do {
        names.push_back(typed_name());
        expect(":", "after a grid variable, as in `grid(bx: 8)`,");
        k.grid.push_back(value());
        if (!k.grid.back()->dtype.is_int()) fail(k.grid.back()->span, "the grid's extent is not an integer");
      } while (accept(","));
      expect(")", "after the grid");
      for (auto& [name, type] : names) k.grid_vars.push_back(define(name, type));
    } else if (accept("threads")) {
      k.threads = integers();
    } else if (accept("thread")) {
      expect("(", "after thread");
      auto [name, type] = typed_name();
      k.thread = define(name, type);
      expect(")", "after the thread variable");
    } else if (accept("cluster")) {
      k.cluster = integers();
    } else {
      break;
    }
  }
  k.attrs = attrs();
  k.span = since(first);
  if (k.cluster.size() > k.grid.size())
    fail(k.span, "a cluster of {} dimensions in a grid of {}", k.cluster.size(), k.grid.size());
  if (!is(":")) expected("grid(…), threads(…), thread(…), cluster(…), {…} or `:`");
  header_end();
  k.body = body();
  close();
  f.kernels.push_back(std::move(k));
}

// The words `tensor_map` and a name have been seen.
void Parser::tensor_map() {
  size_t first = at;
  next();
  TensorMap m;
  m.name = expect_name("the name of a tensor map").text;
  if (find_tensor_map(f, m.name)) fail(since(first), "two tensor maps are called `{}`", m.name);
  expect("=", "after the name of a tensor map");
  const Lexeme& name = expect_name("a tensor");
  auto it = buffers.find(name.unique);
  if (it == buffers.end()) unknown(name, "buffer");
  m.tensor = it->second;
  if (accept("[")) m.shape = exprs("]");
  for (;;)
    if (accept("strides")) {
      expect("(", "before the strides");
      m.strides = exprs(")");
    } else if (accept("box")) {
      m.box = integers();
    } else if (accept("swizzle")) {
      expect("(", "before the bytes of a swizzle");
      m.swizzle = integer("the bytes of a swizzle");
      expect(")", "after the bytes of a swizzle");
    } else if (accept("fetch")) {
      expect("(", "before the bytes of a fetch");
      m.fetch = integer("the bytes of a fetch");
      expect(")", "after the bytes of a fetch");
    } else {
      break;
    }
  m.span = since(first);
  for (auto* list : {&m.shape, &m.strides})
    for (auto& e : *list)
      if (e->dtype != i64) fail(e->span, "an extent or a stride is {}, not i64", to_string(e->dtype));
  if (m.fetch != 64 && m.fetch != 128 && m.fetch != 256 && m.fetch != 0)
    fail(m.span, "tensor map {}: L2 fetches 64, 128 or 256 bytes at once, not {}", m.name, m.fetch);
  if (std::string rule = broken_rule(f, m); !rule.empty()) fail(m.span, "tensor map {}: {}", m.name, rule);
  f.maps.push_back(std::move(m));
  end_of_line();
}

void Parser::function_item() {
  if (accept("assume")) {
    f.facts.push_back(condition("an assume"));
    return end_of_line();
  }
  if (is("check")) {
    size_t first = at;
    next();
    Expr cond = condition("a check");
    std::string texts[2];
    for (auto& text : texts) {
      expect(",", "in a check");
      if (!is(Lexeme::Kind::string)) expected("what is said where it does not hold, and where it stands");
      text = next().text;
    }
    f.checks.push_back(
        {.cond = std::move(cond), .message = texts[0], .place = texts[1], .span = since(first)});
    return end_of_line();
  }
  if (is("kernel")) return kernel();
  if (is("tensor_map") && is(Lexeme::Kind::name, 1)) return tensor_map();
  if (accept("pass")) return end_of_line();
  bool orphan = accept("buffer");
  if (!is(Lexeme::Kind::name) || !is("=", 1))
    expected("`kernel`, `assume`, `check`, `buffer` or a workspace `W = global f32[…]`");
  Lexeme name = next();
  next();
  auto scope = scope_word(0);
  if (!scope) expected("global, shared, fragment or local, and a type");
  if (!orphan && *scope != Scope::global)
    fail(peek().span, "a {} buffer is allocated inside a kernel; a function's own are global", peek().text);
  next();
  BufferId id = declare(name, *scope);
  if (!orphan) f.workspaces.push_back(id);
  end_of_line();
}

void Parser::function() {
  size_t first = at;
  expect("func", "at the start of the text");
  f.name = expect_name("the name of the function").text;
  expect("(", "after the name of a function");
  scan_scalars();
  while (!accept(")")) {
    if (!f.params.empty()) expect(",", "between parameters");
    param();
  }
  f.span = since(first);
  header_end();
  if (!is(Lexeme::Kind::indent)) expected("an indented block");
  next();
  while (!is(Lexeme::Kind::dedent) && !is(Lexeme::Kind::end)) function_item();
  if (is(Lexeme::Kind::dedent)) next();
  if (!is(Lexeme::Kind::end)) expected("the end of the text after the one function");
  for (int id = 0; id < int(f.buffers.size()); id++)
    if (!taken_ids.contains(id)) fail(f.span, "no buffer has the id {}, though a larger one is given", id);
}

Function parse(std::string_view text, std::string_view file, const Vocabulary& vocabulary) {
  register_source(file, std::string(text));
  const std::string* name = intern_file(file);
  Parser parser{.vocabulary = vocabulary, .tokens = lex(text, name)};
  parser.function();
  return std::move(parser.f);
}

}  // namespace tl
