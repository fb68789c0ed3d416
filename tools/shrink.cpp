// Every way to make a program smaller is a function from the program and a number to a smaller one; all
// numbers are tried.  A candidate is printed, so that what is judged is what will stand in the file; most are
// no programs at all (a variable is used whose definition is gone), which the caller's test refuses.
#include "shrink.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "ir/build.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "ops/op.h"

namespace tl {
namespace {

// All expressions and statements of a function, each through the rewriter.
Function mapped(Function f, Rewriter& rewriter) {
  auto each = [&](std::vector<Expr>& list) {
    for (auto& e : list) e = rewriter(e);
  };
  each(f.facts);
  for (auto& b : f.buffers) {
    each(b.shape);
    each(b.strides);
  }
  for (auto& k : f.kernels) {
    each(k.grid);
    k.body = rewriter(k.body);
  }
  return f;
}

// ── statements ────────────────────────────────────────────────────────────────────────────────────────
// A block's statements, each through the rewriter, without those that are empty now.
Stmt joined(const Block& b, Rewriter& rewriter) {
  std::vector<Stmt> stmts;
  for (auto& s : b.stmts)
    if (Stmt n = rewriter(s); !is_empty(n)) stmts.push_back(n);
  return block(std::move(stmts), b.span);
}

// Statements count from the first of the first kernel, parents first.  Those in [first, first + count) go.
struct RemoveStatements final : Rewriter {
  int64_t first, count, at = 0;
  RemoveStatements(int64_t first, int64_t count) : first(first), count(count) {}
  Expr operator()(const Expr& e) override { return e; }
  Stmt operator()(const Stmt& s) override {
    if (auto* b = s.as<Block>()) return joined(*b, *this);
    int64_t number = at++;
    if (number < first || number >= first + count) return children(s);
    visit_nodes(s, [&](const Node& n) { at += n.kind >= Kind::Store && n.kind != Kind::Block; });
    at--;  // itself
    return block({});
  }
};

// The body instead of the statement number `which`: of an if in two ways, the second one its else.
struct Unwrap final : Rewriter {
  int64_t which, at = 0;
  bool second;
  Unwrap(int64_t which, bool second) : which(which), second(second) {}
  Expr operator()(const Expr& e) override { return e; }
  Stmt operator()(const Stmt& s) override {
    if (auto* b = s.as<Block>()) return joined(*b, *this);
    if (at++ != which) return children(s);
    if (auto* n = s.as<For>())
      return second ? for_loop(n->var, n->min, n->extent, Loop::serial, n->body, n->span)
                    : substitute(n->body, {{n->var.get(), n->min}});
    if (auto* n = s.as<If>()) return !second ? n->then_body : n->else_body ? n->else_body : s;
    if (auto* n = s.as<While>()) return n->body;
    if (auto* n = s.as<Group>()) return n->body;
    return s;
  }
};

int64_t statements_of(const Function& f) {
  int64_t n = 0;
  for (auto& k : f.kernels)
    visit_nodes(k.body, [&](const Node& s) { n += s.kind >= Kind::Store && s.kind != Kind::Block; });
  return n;
}

// ── expressions ───────────────────────────────────────────────────────────────────────────────────────
std::vector<Expr> smaller(const Expr& e) {
  std::vector<Expr> out;
  if (e->dtype.lanes != 1 || e->dtype.is_handle() || is_const(e) || e.as<StringImm>()) return out;
  auto keep = [&](const Expr& child) {
    if (child && child->dtype == e->dtype) out.push_back(child);
  };
  if (auto* n = e.as<Unary>()) keep(n->a);
  if (auto* n = e.as<Binary>()) keep(n->a), keep(n->b);
  if (auto* n = e.as<Cast>()) keep(n->a);
  if (auto* n = e.as<Select>()) keep(n->a), keep(n->b);
  if (auto* n = e.as<Call>()) {
    if (n->intrinsic->effect == Intrinsic::Effect::control || n->intrinsic->result == Intrinsic::Result::none)
      return out;
    for (auto& a : n->args) keep(a);
  }
  for (int64_t value : {0, 1})
    out.push_back(e->dtype.is_float() ? fimm(double(value), e->dtype) : imm(value, e->dtype));
  return out;
}

// Expression number `which` becomes its `choice`th smaller one.
struct ReplaceExpression final : Rewriter {
  int64_t which, choice, at = 0, choices = 0;
  ReplaceExpression(int64_t which, int64_t choice) : which(which), choice(choice) {}
  Expr operator()(const Expr& e) override {
    if (at++ != which) return children(e);
    auto options = smaller(e);
    choices = int64_t(options.size());
    return choice < choices ? options[size_t(choice)] : e;
  }
  Stmt operator()(const Stmt& s) override {  // what is defined stays
    if (auto* n = s.as<For>()) {
      auto copy = *n;
      copy.min = (*this)(n->min);
      copy.extent = (*this)(n->extent);
      copy.body = (*this)(n->body);
      return Stmt(new For(copy));
    }
    if (auto* n = s.as<Let>()) return let(n->var, (*this)(n->value), n->span);
    return children(s);
  }
};

// ── numbers ───────────────────────────────────────────────────────────────────────────────────────────
void add_number(std::set<int64_t>& numbers, const Node& n) {
  if (n.kind == Kind::IntImm && static_cast<const IntImm&>(n).value > 1)
    numbers.insert(static_cast<const IntImm&>(n).value);
}
std::set<int64_t> numbers_of(const Function& f) {
  std::set<int64_t> out;
  auto collect = [&](const Node& n) { add_number(out, n); };
  for (auto& b : f.buffers)
    for (auto& e : b.shape) visit_nodes(e, collect);
  for (auto& k : f.kernels) {
    for (auto& e : k.grid) visit_nodes(e, collect);
    visit_nodes(k.body, collect);
    for (int64_t t : k.threads)
      if (t > 32) out.insert(t);
  }
  return out;
}
// Wherever it stands: an extent is that of a loop, of a buffer, and in an index.
Function replace_number(Function f, int64_t from, int64_t to) {
  struct Replace final : Rewriter {
    int64_t from, to;
    Replace(int64_t from, int64_t to) : from(from), to(to) {}
    Expr operator()(const Expr& e) override {
      return e.as<IntImm>() && is_int(e, from) ? imm(to, e->dtype, e->span) : children(e);
    }
  } replace(from, to);
  f = mapped(std::move(f), replace);
  for (auto& k : f.kernels)
    for (int64_t& t : k.threads)
      if (t == from) t = to;
  return f;
}

// ── attributes, buffers, parameters ───────────────────────────────────────────────────────────────────
struct DropAttribute final : Rewriter {
  int64_t which, at = 0;
  explicit DropAttribute(int64_t which) : which(which) {}
  template <class N>
  Stmt without(const N& n) {
    auto copy = n;
    for (auto& entry : n.attrs.entries)
      if (at++ == which) copy.attrs.entries.erase(entry.first);
    return children(Stmt(new N(copy)));
  }
  Expr operator()(const Expr& e) override { return e; }
  Stmt operator()(const Stmt& s) override {
    if (auto* n = s.as<For>()) return without(*n);
    if (auto* n = s.as<Tile>()) return without(*n);
    return children(s);
  }
};

struct Renumber final : Rewriter {
  const std::vector<int>& places;
  explicit Renumber(const std::vector<int>& places) : places(places) {}
  BufferId moved(BufferId b) const { return b ? BufferId{places[size_t(b.value)]} : b; }
  Expr operator()(const Expr& e) override {
    auto* n = e.as<Load>();
    if (!n) return children(e);
    auto copy = *n;
    copy.buffer = moved(n->buffer);
    return children(Expr(new Load(copy)));
  }
  template <class N>
  Stmt renamed(const N& n) {
    auto copy = n;
    copy.buffer = moved(n.buffer);
    return children(Stmt(new N(copy)));
  }
  Stmt operator()(const Stmt& s) override {
    if (auto* n = s.as<Store>()) return renamed(*n);
    if (auto* n = s.as<Alloc>()) return renamed(*n);
    auto* n = s.as<Tile>();
    if (!n) return children(s);
    auto copy = *n;
    for (auto& o : copy.operands)
      if (auto* r = std::get_if<Region>(&o)) r->buffer = moved(r->buffer);
    return children(Stmt(new Tile(copy)));
  }
};

std::set<BufferId> used_buffers(const Function& f) {
  std::set<BufferId> used;
  for (auto& k : f.kernels)
    visit(
        k.body, [&](const Load& n) { used.insert(n.buffer); }, [&](const Store& n) { used.insert(n.buffer); },
        [&](const Alloc& n) { used.insert(n.buffer); },
        [&](const Tile& n) {
          for (auto& o : n.operands)
            if (auto* r = std::get_if<Region>(&o)) used.insert(r->buffer);
        });
  for (size_t i = f.buffers.size(); i-- > 0;)
    if (used.contains(BufferId{int(i)}) && f.buffers[i].alias_of) used.insert(f.buffers[i].alias_of);
  return used;
}

// Without the buffers and parameters that nothing names.
Function drop_unused(Function f) {
  std::set<BufferId> used = used_buffers(f);
  std::vector<int> places;
  int kept = 0;
  for (size_t i = 0; i < f.buffers.size(); i++) places.push_back(used.contains({int(i)}) ? kept++ : -1);
  Renumber renumber(places);
  std::set<const Node*> named;
  for (auto& k : f.kernels) {
    for (auto& e : k.grid) visit(e, [&](const Var& v) { named.insert(&v); });
    visit(k.body, [&](const Var& v) { named.insert(&v); });
  }
  std::erase_if(f.params, [&](const Param& p) {
    return p.buffer ? !used.contains(p.buffer) : !named.contains(p.var.get());
  });
  std::erase_if(f.workspaces, [&](BufferId w) { return !used.contains(w); });
  for (auto& p : f.params) p.buffer = renumber.moved(p.buffer);
  for (auto& w : f.workspaces) w = renumber.moved(w);
  std::vector<BufferInfo> buffers;
  for (size_t i = 0; i < f.buffers.size(); i++)
    if (places[i] >= 0) {
      buffers.push_back(f.buffers[i]);
      buffers.back().alias_of = renumber.moved(f.buffers[i].alias_of);
    }
  f.buffers = std::move(buffers);
  for (auto& k : f.kernels) k.body = renumber(k.body);
  return f;
}

// ── the search ────────────────────────────────────────────────────────────────────────────────────────
struct Search {
  const std::function<bool(const std::string&)>& fails;
  const std::function<void(const std::string&)>& tell;
  std::string text;
  Function f;
  std::set<std::string> seen = {};
  bool progress = false;

  Search(const std::string& text, const std::function<bool(const std::string&)>& fails,
         const std::function<void(const std::string&)>& tell)
      : fails(fails),
        tell(tell),
        text(text),
        f(parse(text, "program.ir", text_vocabulary())) {}

  // `make` gives a candidate; a maker may refuse it (a division by zero).
  template <class F>
  bool attempt(F make) try {
    Function g = make();
    std::string candidate = print(g);
    if (candidate == text || !seen.insert(candidate).second) return false;
    g = parse(candidate, "program.ir", text_vocabulary());
    if (!fails(candidate)) return false;
    f = std::move(g);
    text = std::move(candidate);
    if (tell) tell(text);
    return progress = true;
  } catch (const CompileError&) {
    return false;
  }

  void kernels() {
    for (size_t k = f.kernels.size(); k-- > 0 && f.kernels.size() > 1;)
      attempt([&] {
        Function g = f;
        g.kernels.erase(g.kernels.begin() + std::ptrdiff_t(k));
        return g;
      });
  }
  // From the last on, since what is behind uses what is before: halves, quarters, … single statements.
  void statements() {
    for (int64_t count = statements_of(f); count > 0; count /= 2)
      for (int64_t first = statements_of(f) - count; first >= 0;) {
        attempt([&] {
          RemoveStatements remove(first, count);
          return mapped(f, remove);
        });
        first = first > 0 ? std::max<int64_t>(0, first - count) : -1;
      }
  }
  void wrappings() {
    for (int64_t i = 0; i < statements_of(f); i++)
      for (bool second : {false, true})
        attempt([&] {
          Unwrap unwrap(i, second);
          return mapped(f, unwrap);
        });
  }
  void expressions() {
    int64_t visited = 1;
    for (int64_t i = 0; i < visited; i++) {
      bool replaced = true;
      for (int64_t choice = 0, choices = 1; choice < choices; choice = replaced ? 0 : choice + 1)
        replaced = attempt([&] {
          ReplaceExpression replace(i, choice);
          Function g = mapped(f, replace);
          choices = replace.choices;
          visited = replace.at;
          return g;
        });
    }
  }
  void numbers() {
    std::set<int64_t> all = numbers_of(f);
    for (auto n = all.rbegin(); n != all.rend(); ++n)
      for (int64_t less : {int64_t(1), int64_t(2), *n / 4, *n / 2, *n - 1})
        if (less > 0 && less < *n && attempt([&] { return replace_number(f, *n, less); })) break;
  }
  void attributes() {
    for (int64_t i = 0, count = 1; i < count; i++)
      attempt([&] {
        DropAttribute drop(i);
        Function g = mapped(f, drop);
        count = drop.at;
        return g;
      });
  }
  std::string run() {
    do {
      progress = false;
      kernels();
      statements();
      attempt([&] { return drop_unused(f); });
      wrappings();
      numbers();
      expressions();
      attributes();
    } while (progress);
    return text;
  }
};

}  // namespace

std::string shrink(const std::string& text, const std::function<bool(const std::string&)>& fails,
                   const std::function<void(const std::string&)>& tell) {
  return Search(text, fails, tell).run();
}

}  // namespace tl
