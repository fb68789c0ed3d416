// A walk that holds every node against the legality table: types, scopes, ranks, definitions before uses.
#include "ir/verify.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "ir/depth.h"
#include "ir/legality.h"
#include "ir/line.h"
#include "ir/names.h"
#include "ir/rewrite.h"
#include "ir/text.h"

namespace tl {
namespace {

struct Checker {
  const Function& f;
  Level level;
  Span span = {};  // of the innermost statement or expression that has one
  std::optional<Team> team = {};
  std::vector<Loop> loops = {};            // around the statement, innermost last; a while counts as serial
  const ExprNode* statement = nullptr;     // the expression that is a statement of its own
  std::vector<const ExprNode*> vars = {};  // in scope, innermost last
  std::unordered_set<const ExprNode*> visible = {};
  std::vector<int> allocated = {};
  std::map<int, std::optional<Team>> owner = {};  // of a fragment: the team that touched it first

  uint8_t bit() const { return uint8_t(1 << int(level)); }
  template <class... A>
  [[noreturn]] void bad(fmt::format_string<A...> format, A&&... args) const {
    throw Violation{span, fmt::format(format, std::forward<A>(args)...)};
  }
  void require(bool ok, std::string_view text) const {
    if (!ok) bad("{}", text);
  }
  struct Here {  // the node's place, as long as it is looked at
    Checker& c;
    Span outer;
    Here(Checker& c, const Span& s) : c(c), outer(c.span) {
      if (s) c.span = s;
    }
    ~Here() {
      if (!std::uncaught_exceptions()) c.span = outer;
    }
  };

  // ── scopes ──────────────────────────────────────────────────────────────────────────────────────────
  void define(const Expr& v) {
    require(v.as<Var>() != nullptr, "what is defined here is not a variable");
    if (!visible.insert(v.get()).second) bad("the variable {} is defined twice", v.as<Var>()->hint);
    vars.push_back(v.get());
  }
  struct Inside {  // a scope: what is defined in it ends with it
    Checker& c;
    size_t vars, buffers;
    explicit Inside(Checker& c) : c(c), vars(c.vars.size()), buffers(c.allocated.size()) {}
    ~Inside() {
      for (size_t i = vars; i < c.vars.size(); i++) c.visible.erase(c.vars[i]);
      c.vars.resize(vars);
      c.allocated.resize(buffers);
    }
  };
  const BufferInfo& info(BufferId id) const {
    if (!id || size_t(id.value) >= f.buffers.size()) bad("there is no buffer {}", id.value);
    return f[id];
  }
  void touch(BufferId id) {
    const BufferInfo& b = info(id);
    if (std::find(allocated.begin(), allocated.end(), id.value) == allocated.end())
      bad("the buffer {} is used where it is not allocated", b.name);
    if (b.scope != Scope::fragment) return;
    auto [it, first] = owner.emplace(id.value, team);
    if (it->second != team)
      bad("the fragment {} is used by two groups of threads, but a fragment belongs to one: move the value "
          "through "
          "shared memory",
          b.name);
  }

  // ── expressions ─────────────────────────────────────────────────────────────────────────────────────
  void legal(Kind kind) const {
    for (auto& row : kind_rows)
      if (row.kind == kind && !(row.levels & bit()))
        bad("at level {} there are no {}", to_string(level), row.what);
  }
  void value(const Expr& e) {
    expr(e);
    if (e->dtype.is_handle() || e->dtype == none_type)
      bad("a value is expected, not {}", to_string(e->dtype));
  }
  void integer(const Expr& e, std::string_view what) {
    expr(e);
    Here here(*this, e->span);
    if (!e->dtype.is_int() || e->dtype.lanes > 1) bad("{} is {}, not an integer", what, to_string(e->dtype));
  }
  void boolean_of(const Expr& e, int lanes, std::string_view what) {
    expr(e);
    Here here(*this, e->span);
    if (!e->dtype.is_bool()) bad("{} is {}, not bool", what, to_string(e->dtype));
    if (e->dtype.lanes != 1 && e->dtype.lanes != lanes)
      bad("{} has {} lanes where 1 or {} are expected", what, int(e->dtype.lanes), lanes);
  }
  void expr(const Expr& e) {
    require(bool(e), "an expression is missing");
    Here here(*this, e->span);
    legal(e->kind);
    dispatch(e, [&](const auto& n) { node(n); });
  }
  void node(const IntImm& n) {
    require(n.dtype.lanes == 1 && (n.dtype.is_int() || n.dtype.is_bool()),
            "an integer constant of another type");
    if (wrap_int(n.value, n.dtype) != n.value) bad("{} does not fit into {}", n.value, to_string(n.dtype));
  }
  void node(const FloatImm& n) {
    require(n.dtype.lanes == 1 && n.dtype.is_float(), "a float constant of another type");
  }
  void node(const StringImm& n) { require(n.dtype == handle, "a text of another type than handle"); }
  void node(const Var& n) {
    if (!visible.contains(&n)) bad("the variable {} is used where it is not defined", n.hint);
  }
  void node(const Unary& n) {
    value(n.a);
    DType t = n.a->dtype;
    bool ok = n.op == UnaryOp::logical_not ? t.is_bool()
              : n.op == UnaryOp::bit_not   ? t.is_int()
                                           : t.is_int() || t.is_float();
    require(ok && n.dtype == t, "a unary operator on a type it does not take");
  }
  void node(const Binary& n) {
    value(n.a);
    value(n.b);
    DType t = n.a->dtype;
    if (t != n.b->dtype)
      bad("`{}` has operands of two types, {} and {}", symbol(n.op), to_string(t), to_string(n.b->dtype));
    DType result = is_comparison(n.op) || is_logical(n.op) ? boolean.with_lanes(t.lanes) : t;
    if (n.dtype != result) bad("`{}` gives {}, not {}", symbol(n.op), to_string(result), to_string(n.dtype));
    if (t.is_storage()) bad("`{}` on {}, which is no type of arithmetic", symbol(n.op), to_string(t));
    if (is_logical(n.op) && !t.is_bool()) bad("`{}` takes bool operands, not {}", symbol(n.op), to_string(t));
  }
  void node(const Cast& n) {
    bool is_number = n.a->dtype.is_handle() && n.dtype == u64;  // of an address
    is_number ? expr(n.a) : value(n.a);
    require(n.dtype.lanes == n.a->dtype.lanes, "a cast keeps the number of lanes");
    require(!n.dtype.is_handle() && n.dtype != none_type, "a cast to a type that is no value");
  }
  void node(const Select& n) {
    boolean_of(n.cond, n.dtype.lanes, "the condition of a select");
    value(n.a);
    value(n.b);
    require(n.a->dtype == n.dtype && n.b->dtype == n.dtype, "the two values of a select have two types");
  }
  void node(const Load& n) {
    int lanes = access(n.buffer, n.index);
    DType element = info(n.buffer).dtype;
    DType type = lanes > 1 ? element.with_lanes(lanes) : element;
    if (n.dtype != type)
      bad("an element of {} is {}, not {}", f[n.buffer].name, to_string(type), to_string(n.dtype));
    if (n.mask) boolean_of(n.mask, type.lanes, "the mask");
  }
  void node(const Ramp& n) {
    integer(n.base, "the base of a ramp");
    integer(n.stride, "the stride of a ramp");
    require(n.dtype.lanes > 1 && n.base->dtype == n.dtype.scalar() && n.stride->dtype == n.dtype.scalar(),
            "a ramp of another type than its base and stride");
  }
  void node(const Broadcast& n) {
    value(n.value);
    require(n.dtype.lanes > 1 && n.value->dtype == n.dtype.scalar(),
            "a broadcast of another type than its value");
  }
  void node(const Call& n) {
    require(n.callee != nullptr, "a call of nothing");
    if (n.callee->arity >= 0 && size_t(n.callee->arity) != n.args.size())
      bad("{} takes {} arguments, not {}", n.callee->name, n.callee->arity, n.args.size());
    for (size_t i = 0; i < n.args.size(); i++) {
      expr(n.args[i]);
      if (n.args[i]->dtype == none_type) bad("an argument of {} has no value", n.callee->name);
      if (takes_constant(*n.callee, i) && as_int(n.args[i]).value_or(-1) < 0)
        bad("argument {} of {} is part of the instruction: it must be a constant, at least 0", i + 1,
            n.callee->name);
    }
    if (n.callee->effect == Callee::Effect::control) control(n);
    if (n.callee == &address_of) {
      require(!n.args.empty() && n.args.size() <= 3 && n.args[0].as<Load>(),
              "address_of takes an element of a buffer");
      require(n.args.size() == 1 || n.args[1].as<StringImm>(), "the access of an address is a text");
      require(n.args.size() < 3 || (n.args[2]->dtype.is_int() && n.args[2]->dtype.lanes == 1),
              "the elements of an address are counted by an integer");
    }
    if (obeys_mask(*n.callee)) memory_call(n);
    if (size_t at = n.callee->access.find('m'); at != std::string_view::npos) map_call(n, at);
    if (is_foreign(*n.callee)) foreign_call(n);
  }
  // A jump leaves or continues the innermost loop, whose iterations must follow one another.
  void control(const Call& n) {
    if (&n != statement) bad("{} is a statement, not a value", n.callee->name);
    auto parallel = [](Loop l) { return l == Loop::parallel || l == Loop::vectorized; };
    if (n.callee == &thread_return) {
      bool inside = std::any_of(loops.begin(), loops.end(), parallel);
      require(!inside, "thread_return in a parallel loop, whose iterations share a thread");
      return;
    }
    if (loops.empty()) bad("{} outside of a loop", n.callee->name);
    if (parallel(loops.back()) || loops.back() == Loop::pipelined)
      bad("{} in a {} loop, whose iterations do not follow one another", n.callee->name,
          to_string(loops.back()));
  }

  void memory_call(const Call& n) {
    auto* at = place_of(n.args[0]);
    if (!at) bad("{} takes the address of an element first", n.callee->name);
    if (n.callee == &load_wide || n.callee == &store_wide) {
      DType t = n.callee == &load_wide ? n.dtype : n.args[1]->dtype;
      if (t.scalar() != u32) bad("{} moves u32, not {}", n.callee->name, to_string(t));
      return;
    }
    auto* order = n.args.back().as<StringImm>();
    auto names = memory_orders();
    if (!order || std::find(names.begin(), names.end(), order->value) == names.end())
      bad("the last argument of {} is a memory order: relaxed, acquire, release, acq_rel or seq_cst",
          n.callee->name);
    bool has_value = n.args.size() == 3;
    if (has_value && n.args[1]->dtype != at->dtype)
      bad("{} of a value of type {} at an element of type {}", n.callee->name, to_string(n.args[1]->dtype),
          to_string(at->dtype));
    if (n.dtype != at->dtype && (n.dtype != none_type || n.callee->atomic == Callee::Atomic::load))
      bad("{} gives what the element holds, {}, not {}", n.callee->name, to_string(at->dtype),
          to_string(n.dtype));
  }
  // (…, "map", the tensor, a coordinate for each dimension, …)
  void map_call(const Call& n, size_t at) {
    auto* name = n.args[at].as<StringImm>();
    auto* map = name ? find_tensor_map(f, name->value) : nullptr;
    if (!map)
      bad("argument {} of {} is the name of a tensor map{}", at + 1, n.callee->name,
          name ? ", and there is no " + name->value : "");
    auto* tensor = place_of(n.args[at + 1]);
    if (!tensor || tensor->buffer != map->tensor)
      bad("argument {} of {} is the tensor of the map {}, &{}[…]", at + 2, n.callee->name, map->name,
          f[map->tensor].name);
    auto coordinates = std::count(n.callee->access.begin(), n.callee->access.end(), '-');
    if (size_t(coordinates) != map->box.size())
      bad("{} takes {} coordinates, but the map {} has {} dimensions", n.callee->name, coordinates, map->name,
          map->box.size());
  }

  void foreign_call(const Call& n) {
    size_t texts = n.callee == &inline_ptx ? 3 : 2;
    bool ok = n.args.size() >= texts && n.args[0].as<StringImm>() && n.args[1].as<StringImm>();
    if (n.callee == &inline_ptx && ok) {
      auto outputs = as_int(n.args[2]);
      ok = outputs && *outputs >= 0 && size_t(*outputs) + 3 <= n.args.size();
      for (size_t i = 0; ok && i < size_t(*outputs); i++) ok = place_of(n.args[3 + i]) != nullptr;
    }
    if (!ok)
      bad("{} takes a text and a key first{}", n.callee->name,
          texts == 3 ? ", then how many places it writes" : "");
  }

  // At level tile an index that is added to others, of the tile or of its strides, which are i64.
  void wide(const Expr& index, const std::string& buffer) const {
    if (level == Level::tile && index->dtype != i64)
      bad("an index of {} is {}, but what it is added to at level tile is i64: write cast<i64>({}), or let "
          "its loop run over i64",
          buffer, to_string(index->dtype), print(index, &f));
  }

  // The indices of a Load or Store; returns the lanes they select.
  int access(BufferId id, const std::vector<Expr>& index) {
    touch(id);
    const BufferInfo& b = f[id];
    int lanes = 1;
    for (auto& i : index) {
      expr(i);
      if (i->dtype.is_int() && index.size() > 1) wide(i, b.name);
      Here here(*this, i->span);
      if (!i->dtype.is_int()) bad("an index is {}, not an integer", to_string(i->dtype));
      if (i->dtype.lanes > 1) lanes = i->dtype.lanes;
    }
    const RankRow& row = rank_rows[size_t(level)];
    Rank rank = b.scope == Scope::global ? row.global : row.tile;
    bool logical = index.size() == b.shape.size(), physical = index.size() == 1;
    bool ok = (rank != Rank::physical && logical) || (rank != Rank::logical && physical);
    if (!ok)
      bad("{} has {} dimensions; at level {} an access takes {}, not {} indices", b.name, b.shape.size(),
          to_string(level), rank == Rank::logical ? "one index per dimension" : "one index in elements",
          index.size());
    return lanes;
  }

  // ── statements ──────────────────────────────────────────────────────────────────────────────────────
  void region(const Region& r) {
    touch(r.buffer);
    const BufferInfo& b = f[r.buffer];
    if (r.ranges.size() != b.shape.size())
      bad("{} has {} dimensions, but its region has {}", b.name, b.shape.size(), r.ranges.size());
    for (auto& range : r.ranges) {
      integer(range.min, "the beginning of a slice");
      integer(range.extent, "the extent of a slice");
      wide(range.min, b.name);
      wide(range.extent, b.name);
    }
  }
  void attrs(const Attrs& a) {
    for (auto& [key, v] : a.entries) {
      if (auto* e = std::get_if<Expr>(&v)) expr(*e);
      if (auto* m = std::get_if<IndexMap>(&v)) map(*m, key);
    }
  }
  void map(const IndexMap& m, std::string_view what) {
    Inside inside(*this);
    bool function = m.extents.empty() && !m.vars.empty();
    if (m.vars.size() != m.extents.size() && !function)
      bad("{} has {} variables, {} extents", what, m.vars.size(), m.extents.size());
    for (auto& v : m.vars) define(v);
    for (auto& e : m.outputs) function ? value(e) : integer(e, "an output of a map");
  }
  void body(const Stmt& s) {
    require(bool(s), "a body is missing");
    Inside inside(*this);
    stmt(s);
  }
  void stmt(const Stmt& s) {
    require(bool(s), "a statement is missing");
    Here here(*this, s->span);
    legal(s->kind);
    dispatch(s, [&](const auto& n) { node(n); });
  }
  void node(const Store& n) {
    int lanes = access(n.buffer, n.index);
    value(n.value);
    DType type = info(n.buffer).dtype;
    if (lanes > 1) type = type.with_lanes(lanes);
    if (n.value->dtype != type)
      bad("{} holds {} but the value is {}: cast it", f[n.buffer].name, to_string(type),
          to_string(n.value->dtype));
    if (n.mask) boolean_of(n.mask, type.lanes, "the mask");
  }
  void node(const Let& n) {
    value(n.value);
    define(n.var);
    require(n.var->dtype == n.value->dtype, "a Let whose variable has another type than its value");
  }
  void node(const For& n) {
    for (auto& row : loop_rows)
      if (row.loop == n.loop && !(row.levels & bit()))
        bad("at level {} there are no {} loops", to_string(level), to_string(n.loop));
    integer(n.min, "the beginning of a loop");
    integer(n.extent, "the extent of a loop");
    attrs(n.attrs);
    Inside inside(*this);
    define(n.var);
    require(n.var->dtype == n.min->dtype && n.var->dtype == n.extent->dtype, "a loop of several types");
    loops.push_back(n.loop);
    body(n.body);
    loops.pop_back();
  }
  void node(const If& n) {
    boolean_of(n.cond, 1, "the condition of an if");
    body(n.then_body);
    if (n.else_body) body(n.else_body);
  }
  void node(const While& n) {
    boolean_of(n.cond, 1, "the condition of a while");
    loops.push_back(Loop::serial);
    body(n.body);
    loops.pop_back();
  }
  void node(const Block& n) {
    Inside inside(*this);
    for (auto& s : n.stmts) stmt(s);
  }
  void node(const Group& n) {
    attrs(n.attrs);
    if (n.first < 0 || n.count < 1) bad("a group of threads [{}, {})", n.first, n.first + n.count);
    Team inner = team_of(n);
    bool fits =
        !team || (inner.first >= team->first && inner.first + inner.count <= team->first + team->count);
    if (!fits && level != Level::tile)  // there, canonicalize narrows it
      bad("a group of the threads [{}, {}) within one of others", n.first, n.first + n.count);
    auto outer = std::exchange(team, inner);
    body(n.body);
    team = outer;
  }
  void node(const Alloc& n) {
    const BufferInfo& b = info(n.buffer);
    if (std::find(allocated.begin(), allocated.end(), n.buffer.value) != allocated.end())
      bad("the buffer {} is allocated twice", b.name);
    attrs(n.attrs);
    if (b.alias_of) touch(b.alias_of);
    bool placed = b.scope != Scope::shared || (b.address >= 0 && b.elements >= 0);
    if (level == Level::machine && !placed)
      bad("at level machine the shared buffer {} has no address", b.name);
    allocated.push_back(n.buffer.value);
  }
  void node(const Tile& n) {
    require(n.op != nullptr, "a tile operator without a row");
    if (n.operands.size() != n.op->operands.size())
      bad("{} takes {} operands, not {}", n.op->name, n.op->operands.size(), n.operands.size());
    for (auto& o : n.operands)
      std::visit(overloads{[&](const Region& r) { region(r); }, [&](const Expr& e) { value(e); }}, o);
    attrs(n.attrs);
    if (n.body) body(n.body);
  }
  void node(const Eval& n) {
    statement = n.value.get();
    expr(n.value);
  }

  // ── functions ───────────────────────────────────────────────────────────────────────────────────────
  void buffer(const BufferInfo& b) {
    Here here(*this, b.span);
    require(b.strides.empty() || b.strides.size() == b.shape.size(),
            "as many strides as dimensions are expected");
    if (b.alignment && (b.scope != Scope::shared || !std::has_single_bit(uint64_t(b.alignment))))
      bad("{} has an alignment of {}: only a shared tile has one, a power of two", b.name, b.alignment);
    if (b.address % alignment_of(b) && b.address >= 0 && b.alignment)
      bad("{} lies at the address {}, which its alignment {} does not divide", b.name, b.address,
          b.alignment);
    for (auto& e : b.shape) {
      integer(e, "an extent");
      bool tile = b.scope != Scope::global;
      if (tile && !as_int(e))
        bad("{} is a {} tile: its extents must be constants", b.name, to_string(b.dtype));
      if (auto v = as_int(e); v && *v < (tile ? 1 : 0))
        bad("an extent of {} is {}, not positive", b.name, *v);
    }
    for (auto& e : b.strides) integer(e, "a stride");
    if (!b.layout) return;
    map(*b.layout, "a layout");
    size_t inputs = layout_extents(b).size(), outputs = b.scope == Scope::fragment ? 2 : 1;
    if (b.layout->vars.size() != inputs || b.layout->outputs.size() != outputs)
      bad("a layout of {} has {} variables and {} outputs, not {} and {}", b.name, inputs, outputs,
          b.layout->vars.size(), b.layout->outputs.size());
  }
  void kernel(const Kernel& k) {
    Here here(*this, k.span);
    Inside inside(*this);
    owner.clear();
    require(k.grid.size() == k.grid_vars.size() && !k.grid.empty() && k.grid.size() <= 3,
            "a grid has 1 to 3 extents");
    require(k.threads.size() <= 3, "a block has at most 3 dimensions of threads");
    for (int64_t t : k.threads)
      if (t < 1) bad("{} threads", t);
    for (auto& e : k.grid) integer(e, "an extent of the grid");
    for (auto& v : k.grid_vars) define(v);
    if (k.thread) define(k.thread);
    require(k.thread || level == Level::tile, "the thread variable is missing");
    attrs(k.attrs);
    body(k.body);
  }
  // The variables that a call determines: scalars, and extents and strides that stand alone.
  void function() {
    span = f.span;
    std::vector<Expr> determined;
    for (auto& p : f.params) {
      if (p.var) {
        determined.push_back(p.var);
        continue;
      }
      const BufferInfo& b = info(p.buffer);
      allocated.push_back(p.buffer.value);
      for (auto* list : {&b.shape, &b.strides})
        for (auto& e : *list)
          if (e.as<Var>()) determined.push_back(e);
      for (auto& e : b.shape)
        if (auto line = line_of(e)) determined.push_back(line->var);
    }
    for (auto& v : determined)
      if (!visible.contains(v.get())) define(v);
    for (BufferId id : f.workspaces) {
      info(id);
      allocated.push_back(id.value);
    }
    for (auto& b : f.buffers) buffer(b);
    for (auto& m : f.maps) {
      Here here(*this, m.span);
      info(m.tensor);
      for (auto& e : m.shape) integer(e, "an extent");
      for (auto& e : m.strides) integer(e, "a stride");
      if (std::string rule = broken_rule(f, m); !rule.empty()) bad("tensor map {}: {}", m.name, rule);
    }
    for (auto& e : f.facts) boolean_of(e, 1, "a fact");
    for (auto& check : f.checks) boolean_of(check.cond, 1, "a check");
    for (auto& k : f.kernels) kernel(k);
  }
};

}  // namespace

std::string_view to_string(Level level) {
  static constexpr std::string_view names[] = {"tile", "thread", "machine"};
  return names[size_t(level)];
}

std::optional<Violation> check(const Function& f, Level level) {
  Checker checker{.f = f, .level = level};
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
