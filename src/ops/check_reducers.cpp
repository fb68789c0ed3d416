// A reducer's life: opened, contributed to, finalised, read, in one block of statements.  Between its opening
// and its end each thread has a part of the value only, so nothing but contributions may touch it; outside
// there is a value to read, and nothing to contribute to.
#include "base/error.h"
#include "ir/rewrite.h"
#include "ops/reducer.h"

namespace tl {
namespace {

struct Epoch {
  enum class State : uint8_t { none, open, done, over } state = State::none;  // over: its block has ended
  Span opened = {}, finalised = {};
  int block = 0;  // where it was opened
};

struct Reducers {
  const Function& f;
  std::map<BufferId, Epoch> epochs = {};
  std::vector<int> blocks = {0};  // around the statement, innermost last
  int made = 0;
  bool in_parallel = false;

  const std::string& name(BufferId b) const { return f[b].name; }
  Epoch* find(BufferId b) {
    auto it = epochs.find(b);
    return it == epochs.end() ? nullptr : &it->second;
  }

  // ── what is read ────────────────────────────────────────────────────────────────────────────────────
  void read(BufferId b, Span span) {
    Epoch* e = find(b);
    if (!e || e->state == Epoch::State::done) return;
    const std::string& n = name(b);
    if (e->state == Epoch::State::open)
      fail(span,
           "{} is read here, but it is a reducer that has not been finalised since it was opened on line {}: "
           "each thread has a part of its value; T.finalize_reducer({}) combines them",
           n, e->opened.line, n);
    if (e->state == Epoch::State::over)
      fail(span,
           "{} is read here, but it is a reducer that was finalised on line {}, within a loop or branch that "
           "has ended: read it there, or copy its value to a tile that outlives it",
           n, e->finalised.line);
    fail(span,
         "{} is read here, but it is a reducer that has not been opened: T.reducer_init, T.fill or T.clear "
         "opens it, T.finalize_reducer({}) gives its value",
         n, n);
  }
  void value(const Expr& e, Span span) {
    if (!e) return;
    visit(e, [&](const Call& c) {
      for (auto& a : c.args)
        if (auto* at = place_of(a); at && find(at->buffer))
          fail(c.span ? c.span : span,
               "{} is a reducer: each thread has a part of its value, so it has no address",
               name(at->buffer));
    });
    visit(e, [&](const Load& l) { read(l.buffer, l.span ? l.span : span); });
  }

  // ── what is written ─────────────────────────────────────────────────────────────────────────────────
  void contribute(const Store& n) {
    Epoch& e = *find(n.buffer);
    const std::string& o = name(n.buffer);
    if (!in_parallel)
      fail(n.span,
           "{} is a reducer: contribute to it inside of T.Parallel, where each iteration counts once; its "
           "value is set by T.reducer_init, T.fill or T.clear",
           o);
    if (e.state == Epoch::State::done || e.state == Epoch::State::over)
      fail(n.span,
           "{} is a reducer that has been finalised, on line {}: open it again (T.reducer_init, T.fill or "
           "T.clear) before more is added",
           o, e.finalised.line);
    if (e.state == Epoch::State::none)
      fail(n.span,
           "{} is a reducer that has not been opened: T.reducer_init, T.fill or T.clear must come before the "
           "first contribution",
           o);
    auto given = contributed(f, n);
    if (!given)
      fail(n.span,
           "{} is a reducer, opened on line {}: each thread has a part of its value, to which T.Parallel can "
           "only contribute, by T.reducer_update({}[…], x){}; T.fill or T.reducer_init sets its value",
           o, e.opened.line, o, f[n.buffer].reducer == "sum" ? fmt::format(" or {}[…] += x", o) : "");
    for (auto& i : n.index) value(i, n.span);
    for (auto& x : *given) value(x, n.span);
    value(n.mask, n.span);
  }
  void open(BufferId b, Span span) {
    Epoch* e = find(b);
    if (!e) return;
    if (e->state == Epoch::State::open)
      fail(span,
           "{} is opened here, but it is open since line {}: what was contributed to it would be lost; "
           "T.finalize_reducer({}) comes first",
           name(b), e->opened.line, name(b));
    *e = {.state = Epoch::State::open, .opened = span, .block = blocks.back()};
  }
  void finalise(BufferId b, Span span) {
    Epoch* e = find(b);
    if (!e) return;
    const std::string& o = name(b);
    if (e->state == Epoch::State::done || e->state == Epoch::State::over)
      fail(span,
           "{} has been finalised before, on line {}: a second time would count every part again; open it "
           "again (T.reducer_init, T.fill or T.clear) first",
           o, e->finalised.line);
    if (e->state == Epoch::State::none)
      fail(span,
           "{} is finalised here, but it has not been opened: T.reducer_init, T.fill or T.clear must come "
           "before the first contribution",
           o);
    if (e->block != blocks.back())
      fail(span,
           "{} is finalised in a loop or branch, but was opened outside of it, on line {}: that must happen "
           "as often as this, so put both into the same block",
           o, e->opened.line);
    e->state = Epoch::State::done;
    e->finalised = span;
  }
  void operate(const Tile& t) {
    for (size_t i = 0; i < t.operands.size(); i++) {
      if (auto* x = std::get_if<Expr>(&t.operands[i])) value(*x, t.span);
      auto* r = std::get_if<Region>(&t.operands[i]);
      if (!r) continue;
      for (auto& range : r->ranges) value(range.min, t.span);
      if (!find(r->buffer) || t.body) continue;
      if (t.op->name == "reducer_init") {
        open(r->buffer, t.span);
      } else if (t.op->name == "finalize_reducer") {
        finalise(r->buffer, t.span);
      } else {
        if (t.op->operands[i].access != Access::read)
          fail(t.span, "{}: {} is a reducer: only T.reducer_init, T.fill and T.clear write to it as a whole",
               t.op->name, name(r->buffer));
        read(r->buffer, t.span);
      }
    }
  }

  // ── the walk ────────────────────────────────────────────────────────────────────────────────────────
  void end_block() {
    for (auto& [b, e] : epochs) {
      if (e.block != blocks.back()) continue;
      if (e.state == Epoch::State::open)
        fail(e.opened,
             "the reducer {} is never finalised in the block where it is opened: T.finalize_reducer({}) "
             "combines what the threads have",
             name(b), name(b));
      if (e.state == Epoch::State::done) e.state = Epoch::State::over;
    }
  }
  void inside(const Stmt& body, bool parallel = false) {
    if (!body) return;
    bool outer = in_parallel;
    in_parallel |= parallel;
    blocks.push_back(++made);
    walk(body);
    end_block();
    blocks.pop_back();
    in_parallel = outer;
  }
  void begin(const Alloc& n) {
    const BufferInfo& b = f[n.buffer];
    if (b.alias_of && !f[b.alias_of].reducer.empty())
      fail(n.span, "{} is a view of {}, a reducer: each thread has a part of its value, so it has no views",
           b.name, f[b.alias_of].name);
    if (b.reducer.empty()) return;
    if (b.scope != Scope::local) fail(n.span, "{} is a reducer, so it must be in local memory", b.name);
    epochs[n.buffer] = {.block = blocks.back()};
  }
  void walk(const Stmt& s) {
    if (auto* n = s.as<Alloc>()) return begin(*n);
    if (auto* n = s.as<Tile>()) {
      operate(*n);
      return inside(n->body);
    }
    if (auto* n = s.as<Store>()) {
      if (find(n->buffer)) return contribute(*n);
      for (auto& i : n->index) value(i, s->span);
      value(n->value, s->span);
      value(n->mask, s->span);
    } else if (auto* n = s.as<Block>()) {
      for (auto& inner : n->stmts) walk(inner);
    } else if (auto* n = s.as<For>()) {
      value(n->min, s->span);
      value(n->extent, s->span);
      inside(n->body, n->loop == Loop::parallel);
    } else if (auto* n = s.as<If>()) {
      value(n->cond, s->span);
      inside(n->then_body);
      inside(n->else_body);
    } else if (auto* n = s.as<While>()) {
      value(n->cond, s->span);
      inside(n->body);
    } else if (auto* n = s.as<Group>()) {
      inside(n->body);
    } else if (auto* n = s.as<Let>()) {
      value(n->value, s->span);
    } else if (auto* n = s.as<Eval>()) {
      value(n->value, s->span);
    }
  }
};

}  // namespace

void check_reducers(const Function& f) {
  if (std::ranges::all_of(f.buffers, [](auto& b) { return b.reducer.empty(); })) return;
  for (auto& k : f.kernels) {
    Reducers reducers{.f = f};
    reducers.walk(k.body);
    reducers.end_block();
  }
}

}  // namespace tl
