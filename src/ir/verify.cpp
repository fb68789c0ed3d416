// A walk that checks every node against the legality table: types, scopes, ranks, definitions before uses.
#include "ir/verify.h"

#include <bit>

#include "ir/affine_form.h"
#include "ir/buffer_size.h"
#include "ir/build.h"
#include "ir/depth.h"
#include "ir/names.h"
#include "ir/rewrite.h"
#include "ir/verify_scope.h"

namespace tl {
namespace {

struct Checker {
  VerifyScope s;

  // ── statements ──────────────────────────────────────────────────────────────────────────────────────
  void region(const Region& r) {
    s.touch(r.buffer);
    const BufferInfo& b = s.f[r.buffer];
    if (r.ranges.size() != b.shape.size())
      s.bad("{} has {} dimensions, but its region has {}", b.name, b.shape.size(), r.ranges.size());
    for (auto& range : r.ranges) {
      verify_integer(s, range.min, "the beginning of a slice");
      verify_integer(s, range.extent, "the extent of a slice");
      verify_width(s, range.min, b.name);
      verify_width(s, range.extent, b.name);
    }
  }
  void attrs(const Attrs& a) {
    for (auto& [key, v] : a.entries) {
      if (auto* e = std::get_if<Expr>(&v)) verify_expr(s, *e);
      if (auto* m = std::get_if<IndexMap>(&v)) map(*m, key);
    }
  }
  void map(const IndexMap& m, std::string_view what) {
    VerifyScope::Inside inside(s);
    bool function = m.extents.empty() && !m.vars.empty();
    if (m.vars.size() != m.extents.size() && !function)
      s.bad("{} has {} variables, {} extents", what, m.vars.size(), m.extents.size());
    for (auto& v : m.vars) s.define(v);
    for (auto& e : m.outputs) function ? verify_value(s, e) : verify_integer(s, e, "an output of a map");
  }
  void body(const Stmt& b) {
    s.require(bool(b), "a body is missing");
    VerifyScope::Inside inside(s);
    stmt(b);
  }
  void stmt(const Stmt& x) {
    s.require(bool(x), "a statement is missing");
    VerifyScope::Here here(s, x->span);
    s.legal(x->kind);
    dispatch(x, [&](const auto& n) { node(n); });
  }
  void node(const Store& n) {
    int lanes = verify_access(s, n.buffer, n.index);
    verify_value(s, n.value);
    DType type = s.info(n.buffer).dtype;
    if (lanes > 1) type = type.with_lanes(lanes);
    if (n.value->dtype != type)
      s.bad("{} holds {} but the value is {}: cast it", s.f[n.buffer].name, to_string(type),
            to_string(n.value->dtype));
    if (n.mask) verify_boolean(s, n.mask, type.lanes, "the mask");
  }
  void node(const Let& n) {
    verify_value(s, n.value);
    s.define(n.var);
    s.require(n.var->dtype == n.value->dtype, "a Let whose variable has another type than its value");
  }
  void node(const For& n) {
    for (auto& row : loop_rows)
      if (row.loop == n.loop && !(row.levels & s.bit()))
        s.bad("at level {} there are no {} loops", to_string(s.level), to_string(n.loop));
    verify_integer(s, n.min, "the beginning of a loop");
    verify_integer(s, n.extent, "the extent of a loop");
    attrs(n.attrs);
    VerifyScope::Inside inside(s);
    s.define(n.var);
    s.require(n.var->dtype == n.min->dtype && n.var->dtype == n.extent->dtype, "a loop of several types");
    s.loops.push_back(n.loop);
    body(n.body);
    s.loops.pop_back();
  }
  void node(const If& n) {
    verify_boolean(s, n.cond, 1, "the condition of an if");
    body(n.then_body);
    if (n.else_body) body(n.else_body);
  }
  void node(const While& n) {
    verify_boolean(s, n.cond, 1, "the condition of a while");
    s.loops.push_back(Loop::serial);
    body(n.body);
    s.loops.pop_back();
  }
  void node(const Block& n) {
    VerifyScope::Inside inside(s);
    for (auto& x : n.stmts) stmt(x);
  }
  void node(const Group& n) {
    attrs(n.attrs);
    if (n.first < 0 || n.count < 1) s.bad("a group of threads [{}, {})", n.first, n.first + n.count);
    Team inner = team_of(n);
    bool fits = !s.team ||
                (inner.first >= s.team->first && inner.first + inner.count <= s.team->first + s.team->count);
    if (!fits && s.level != Level::tile)  // there, canonicalize narrows it
      s.bad("a group of the threads [{}, {}) within one of others", n.first, n.first + n.count);
    auto outer = std::exchange(s.team, inner);
    body(n.body);
    s.team = outer;
  }
  void node(const Alloc& n) {
    const BufferInfo& b = s.info(n.buffer);
    if (std::ranges::find(s.allocated, n.buffer.value) != s.allocated.end())
      s.bad("the buffer {} is allocated twice", b.name);
    attrs(n.attrs);
    if (b.alias_of) s.allocated_here(b.alias_of);  // a team's fragment may have a view
    bool placed = b.scope != Scope::shared || (b.address >= 0 && b.elements >= 0);
    if (s.level == Level::machine && !placed)
      s.bad("at level machine the shared buffer {} has no address", b.name);
    s.allocated.push_back(n.buffer.value);
  }
  void node(const Tile& n) {
    s.require(n.op != nullptr, "a tile operator without a row");
    if (n.operands.size() != n.op->operands.size())
      s.bad("{} takes {} operands, not {}", n.op->name, n.op->operands.size(), n.operands.size());
    for (auto& o : n.operands)
      std::visit(overloads{[&](const Region& r) { region(r); }, [&](const Expr& e) { verify_value(s, e); }},
                 o);
    attrs(n.attrs);
    if (n.body) body(n.body);
  }
  void node(const Eval& n) {
    s.statement = n.value.get();
    verify_expr(s, n.value);
  }

  // ── functions ───────────────────────────────────────────────────────────────────────────────────────
  void buffer(const BufferInfo& b) {
    VerifyScope::Here here(s, b.span);
    s.require(b.strides.empty() || b.strides.size() == b.shape.size(),
              "as many strides as dimensions are expected");
    if (b.alignment && (b.scope != Scope::shared || !std::has_single_bit(uint64_t(b.alignment))))
      s.bad("{} has an alignment of {}: only a shared tile has one, a power of two", b.name, b.alignment);
    if (b.address % alignment_of(b) && b.address >= 0 && b.alignment)
      s.bad("{} lies at the address {}, which its alignment {} does not divide", b.name, b.address,
            b.alignment);
    for (auto& e : b.shape) {
      verify_integer(s, e, "an extent");
      bool tile = b.scope != Scope::global;
      if (tile && !as_int(e))
        s.bad("{} is a {} tile: its extents must be constants", b.name, to_string(b.dtype));
      if (auto v = as_int(e); v && *v < (tile ? 1 : 0))
        s.bad("an extent of {} is {}, not positive", b.name, *v);
    }
    if (std::string why = why_uncountable(b); !why.empty()) s.bad("{}", why);
    for (auto& e : b.strides) verify_integer(s, e, "a stride");
    if (!b.layout) return;
    map(*b.layout, "a layout");
    size_t inputs = layout_extents(b).size(), outputs = b.scope == Scope::fragment ? 2 : 1;
    if (b.layout->vars.size() != inputs || b.layout->outputs.size() != outputs)
      s.bad("a layout of {} has {} variables and {} outputs, not {} and {}", b.name, inputs, outputs,
            b.layout->vars.size(), b.layout->outputs.size());
  }
  void kernel(const Kernel& k) {
    VerifyScope::Here here(s, k.span);
    VerifyScope::Inside inside(s);
    s.owner.clear();
    s.require(k.grid.size() == k.grid_vars.size() && !k.grid.empty() && k.grid.size() <= 3,
              "a grid has 1 to 3 extents");
    s.require(k.threads.size() <= 3, "a block has at most 3 dimensions of threads");
    for (int64_t t : k.threads)
      if (t < 1) s.bad("{} threads", t);
    for (auto& e : k.grid) verify_integer(s, e, "an extent of the grid");
    for (auto& v : k.grid_vars) s.define(v);
    if (k.thread) s.define(k.thread);
    s.require(k.thread || s.level == Level::tile, "the thread variable is missing");
    attrs(k.attrs);
    body(k.body);
  }
  // The variables that a call determines: scalars, and extents and strides that stand alone.
  void function() {
    const Function& f = s.f;
    s.span = f.span;
    std::vector<Expr> determined;
    for (auto& p : f.params) {
      if (p.var) {
        determined.push_back(p.var);
        continue;
      }
      const BufferInfo& b = s.info(p.buffer);
      s.allocated.push_back(p.buffer.value);
      for (auto* list : {&b.shape, &b.strides})
        for (auto& e : *list)
          if (e.as<Var>()) determined.push_back(e);
      for (auto& e : b.shape)
        if (auto form = affine_form_of(e)) determined.push_back(form->var);
    }
    for (auto& v : determined)
      if (!s.visible.contains(v.get())) s.define(v);
    for (BufferId id : f.workspaces) {
      s.info(id);
      s.allocated.push_back(id.value);
    }
    for (auto& b : f.buffers) buffer(b);
    for (auto& m : f.maps) {
      VerifyScope::Here here(s, m.span);
      s.info(m.tensor);
      for (auto& e : m.shape) verify_integer(s, e, "an extent");
      for (auto& e : m.strides) verify_integer(s, e, "a stride");
      if (std::string rule = broken_rule(f, m); !rule.empty()) s.bad("tensor map {}: {}", m.name, rule);
    }
    for (auto& e : f.facts) verify_boolean(s, e, 1, "a fact");
    for (auto& check : f.checks) verify_boolean(s, check.cond, 1, "a check");
    for (auto& k : f.kernels) kernel(k);
  }
};

}  // namespace

std::string_view to_string(Level level) {
  static constexpr std::string_view names[] = {"tile", "thread", "machine"};
  return names[size_t(level)];
}

std::optional<Violation> check(const Function& f, Level level) {
  Checker checker{{.f = f, .level = level}};
  try {
    on_stack_for(f, [&] { checker.function(); });
  } catch (Violation& finding) {
    return std::move(finding);
  }
  return level == Level::tile ? storage_fault(f) : std::nullopt;
}

void verify(const Function& f, Level level, std::string_view after) {
  auto finding = check(f, level);
  if (!finding) return;
  std::string where =
      finding->span.file ? fmt::format(" ({}:{})", *finding->span.file, finding->span.line) : "";
  internal_error(
      fmt::format("{}{}{}", after.empty() ? "" : fmt::format("after {}: ", after), finding->text, where));
}

}  // namespace tl
