// The part of a Program that no language changes: the arguments, where each integer comes from, the launch of
// each kernel.  Extents become Formulas over the integers that the arguments carry.
#include <algorithm>
#include <cctype>
#include <set>

#include "arith/simplify.h"
#include "codegen/codegen.h"
#include "ir/affine_form.h"
#include "ir/packed.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "target/alignment.h"
#include "target/effects.h"

namespace tl {
namespace {

bool is_integer_var(const Expr& e) { return e.as<Var>() && e->dtype.is_int(); }

// The integers of a call, in the order in which the parameters show them.
struct Integers {
  std::vector<IntegerSource> sources;
  std::vector<Expr> vars;

  int find(const ExprNode* v) const {
    auto it = std::ranges::find_if(vars, [&](const Expr& x) { return x.get() == v; });
    return it == vars.end() ? -1 : int(it - vars.begin());
  }
  void add(const Expr& v, IntegerSource source) {
    if (!is_integer_var(v) || find(v.get()) >= 0) return;
    source.name = v.as<Var>()->hint;
    sources.push_back(std::move(source));
    vars.push_back(v);
  }
};

// The tensors that some kernel names, at any level.
std::set<BufferId> named_buffers(const Function& f) {
  std::set<BufferId> named;
  for (auto& k : f.kernels)
    visit(
        k.body, [&](const Load& n) { named.insert(n.buffer); },
        [&](const Store& n) { named.insert(n.buffer); },
        [&](const Alloc& n) {
          if (f[n.buffer].alias_of) named.insert(f[n.buffer].alias_of);
        },
        [&](const Tile& n) {
          for (auto& operand : n.operands)
            if (auto* region = std::get_if<Region>(&operand)) named.insert(region->buffer);
        });
  return named;
}

// Does each kernel that names the tensor say that it may overlap others?
bool may_overlap(const Function& f, BufferId tensor) {
  bool said = false;
  for (auto& k : f.kernels) {
    auto* v = k.attrs.find("may_alias");
    auto* ids = v ? std::get_if<std::vector<int64_t>>(v) : nullptr;
    bool here = ids && std::ranges::find(*ids, int64_t(tensor.value)) != ids->end();
    Function alone = f;
    alone.kernels = {k};
    if (!here && named_buffers(alone).contains(tensor)) return false;
    said |= here;
  }
  return said;
}

Integers integers_of(const Function& f) {
  using From = IntegerSource::From;
  Integers result;
  for (size_t i = 0; i < f.params.size(); i++)  // a scalar's value comes before an extent that repeats it
    if (f.params[i].var) result.add(f.params[i].var, {.param = int(i), .from = From::value});
  std::set<BufferId> named = named_buffers(f);
  for (bool is_named : {true, false})  // a tensor that no kernel names may be None, and tells nothing then
    for (size_t i = 0; i < f.params.size(); i++) {
      if (!f.params[i].buffer || named.contains(f.params[i].buffer) != is_named) continue;
      const BufferInfo& b = f[f.params[i].buffer];
      for (size_t d = 0; d < b.shape.size(); d++)
        result.add(b.shape[d], {.param = int(i), .from = From::extent, .dim = int(d)});
      for (size_t d = 0; d < b.strides.size(); d++)
        result.add(b.strides[d], {.param = int(i), .from = From::stride, .dim = int(d)});
    }
  for (bool is_named : {true, false})  // [n + 1] tells n where nothing tells it outright
    for (size_t i = 0; i < f.params.size(); i++) {
      if (!f.params[i].buffer || named.contains(f.params[i].buffer) != is_named) continue;
      const BufferInfo& b = f[f.params[i].buffer];
      for (size_t d = 0; d < b.shape.size(); d++)
        if (auto form = affine_form_of(b.shape[d]))
          result.add(form->var, {.param = int(i),
                                 .from = From::extent,
                                 .dim = int(d),
                                 .factor = form->factor,
                                 .offset = form->offset});
    }
  return result;
}

// ── formulas ──────────────────────────────────────────────────────────────────────────────────────────
Formula::Op formula_op(BinaryOp op, const Span& span) {
  switch (op) {
    case BinaryOp::add:
      return Formula::Op::add;
    case BinaryOp::sub:
      return Formula::Op::sub;
    case BinaryOp::mul:
      return Formula::Op::mul;
    case BinaryOp::floordiv:
      return Formula::Op::floordiv;
    case BinaryOp::floormod:
      return Formula::Op::floormod;
    case BinaryOp::min:
      return Formula::Op::min;
    case BinaryOp::max:
      return Formula::Op::max;
    case BinaryOp::eq:
      return Formula::Op::eq;
    case BinaryOp::ne:
      return Formula::Op::ne;
    case BinaryOp::lt:
    case BinaryOp::gt:
      return Formula::Op::lt;
    case BinaryOp::le:
    case BinaryOp::ge:
      return Formula::Op::le;
    case BinaryOp::logical_and:
      return Formula::Op::both;
    case BinaryOp::logical_or:
      return Formula::Op::either;
    default:
      fail(span,
           "`{}` in an extent, a grid or a check: these are computed before the launch, from + - * // % min "
           "max and comparisons only",
           symbol(op));
  }
}

struct FormulaMaker {
  const Integers& integers;
  Span span;         // of what the formula is for
  std::string what;  // "the grid of matmul"

  void push(Formula& out, const Expr& e) const {
    Span at = e->span ? e->span : span;
    if (auto* n = e.as<IntImm>()) return out.steps.push_back({Formula::Op::constant, n->value});
    auto counts = [](DType t) { return t.is_int() || t.is_bool(); };
    if (auto* n = e.as<Cast>(); n && e->dtype.is_int() && counts(n->a->dtype)) return push(out, n->a);
    if (auto* n = e.as<Binary>()) {
      Formula::Op op = formula_op(n->op, at);
      bool turned = n->op == BinaryOp::gt || n->op == BinaryOp::ge;
      push(out, turned ? n->b : n->a);
      push(out, turned ? n->a : n->b);
      return out.steps.push_back({op, 0});
    }
    if (auto* n = e.as<Unary>(); n && n->op != UnaryOp::bit_not) {  // 0 - a, or 0 == a
      out.steps.push_back({Formula::Op::constant, 0});
      push(out, n->a);
      return out.steps.push_back({n->op == UnaryOp::neg ? Formula::Op::sub : Formula::Op::eq, 0});
    }
    auto* v = e.as<Var>();
    if (!v)
      fail(at, "{} must be integer arithmetic over scalar parameters and the extents and strides of tensors",
           what);
    int index = integers.find(v);
    if (index < 0)
      fail(at,
           "{} uses `{}`, whose value no argument determines: make it a scalar parameter, or a whole extent "
           "of a tensor parameter",
           what, v->hint);
    out.steps.push_back({Formula::Op::integer, index});
  }
  Formula operator()(const Expr& e) const {
    Formula out;
    push(out, e);
    return out;
  }
};

bool is_constant(const Formula& a) { return a.steps.size() == 1 && a.steps[0].op == Formula::Op::constant; }

Formula times(const Formula& a, const Formula& b) {
  if (is_constant(a) && is_constant(b)) return Formula::constant(a.steps[0].value * b.steps[0].value);
  if (is_constant(a) && a.steps[0].value == 1) return b;
  if (is_constant(b) && b.steps[0].value == 1) return a;
  Formula out = a;
  out.steps.insert(out.steps.end(), b.steps.begin(), b.steps.end());
  out.steps.push_back({Formula::Op::mul, 0});
  return out;
}

std::vector<Formula> row_major_strides(const std::vector<Formula>& shape) {
  std::vector<Formula> strides(shape.size());
  Formula stride = Formula::constant(1);
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride = times(stride, shape[d]);
  }
  return strides;
}

// Two elements to a byte along the last dimension: what is passed are bytes, of which there are half as many.
ParamSpec packed_spec(const Function& f, const Param& p, const Integers& integers, bool is_written) {
  const BufferInfo& b = f[p.buffer];
  bool in_bytes = b.holds.is_packed();  // as legalize_dtypes left it
  int64_t pair = in_bytes ? 1 : 2;
  FormulaMaker formula{.integers = integers, .span = b.span, .what = "the shape of " + p.name};
  ParamSpec spec{.name = p.name,
                 .is_tensor = true,
                 .dtype = to_string((in_bytes ? b.holds : b.dtype).with_lanes(2)),
                 .bits = 8,
                 .is_written = is_written};
  if (!in_bytes) check_packed(b);
  for (auto& e : b.shape) spec.shape.push_back(formula(e));
  spec.shape.back() = Formula::constant(*as_int(b.shape.back()) / pair);
  spec.strides = row_major_strides(spec.shape);
  for (size_t d = 0; d < b.strides.size(); d++) {
    int64_t stride = *as_int(b.strides[d]);
    spec.strides[d] = Formula::constant(d + 1 == b.strides.size() ? 1 : stride / pair);
  }
  return spec;
}

ParamSpec tensor_spec(const Function& f, const Param& p, const Integers& integers, bool is_written) {
  const BufferInfo& b = f[p.buffer];
  if (b.dtype.is_packed() || b.holds.is_packed()) return packed_spec(f, p, integers, is_written);
  FormulaMaker formula{.integers = integers, .span = b.span, .what = "the shape of " + p.name};
  ParamSpec spec{.name = p.name,
                 .is_tensor = true,
                 .dtype = to_string(b.holds == none_type ? b.dtype : b.holds),
                 .bits = b.dtype.bits,
                 .is_written = is_written};
  for (auto& e : b.shape) spec.shape.push_back(formula(e));
  for (auto& e : b.strides) spec.strides.push_back(formula(e));
  if (b.strides.empty()) spec.strides = row_major_strides(spec.shape);
  return spec;
}

// ── kernels ───────────────────────────────────────────────────────────────────────────────────────────
// One past the last byte that the kernel's buffers take of the block's memory.
int64_t block_bytes(const Function& f, const Kernel& k) {
  int64_t bytes = 0;
  auto use = [&](BufferId id) {
    const BufferInfo& b = f[id];
    if (b.scope == Scope::global || b.address < 0) return;
    internal_check(b.elements >= 0, "a placed buffer without a size: " + b.name);
    bytes = std::max(bytes, b.address + bytes_of(b.elements, b.dtype));
  };
  visit(
      k.body, [&](const Alloc& n) { use(n.buffer); }, [&](const Load& n) { use(n.buffer); },
      [&](const Store& n) { use(n.buffer); });
  return bytes;
}

// What a kernel's text names: only that is passed to it.
struct Used {
  std::set<BufferId> buffers;
  std::set<const ExprNode*> vars;
  std::set<std::string_view> maps;
};

Used used_by(const Stmt& body) {
  Used used;
  visit(
      body, [&](const Load& n) { used.buffers.insert(n.buffer); },
      [&](const Store& n) { used.buffers.insert(n.buffer); }, [&](const Var& n) { used.vars.insert(&n); },
      [&](const Call& n) {
        if (size_t at = n.intrinsic->access.find('m'); at != std::string_view::npos)
          used.maps.insert(n.args[at].as<StringImm>()->value);
      });
  return used;
}

TensorMapSpec map_spec(const Function& f, const TensorMap& map, const Integers& integers) {
  FormulaMaker formula{.integers = integers, .span = map.span, .what = "the tensor map " + map.name};
  const BufferInfo& tensor = f[map.tensor];
  TensorMapSpec spec{.name = map.name,
                     .dtype = to_string(tensor.holds == none_type ? tensor.dtype : tensor.holds),
                     .bits = tensor.dtype.bits,
                     .box = map.box,
                     .swizzle = int(map.swizzle),
                     .fetch = int(map.fetch)};
  for (size_t i = 0; i < f.params.size(); i++)
    if (f.params[i].buffer == map.tensor) spec.index = int(i);
  for (size_t i = 0; i < f.workspaces.size(); i++)
    if (f.workspaces[i] == map.tensor) spec.index = int(i), spec.of_workspace = true;
  for (auto& e : shape_of(f, map)) spec.shape.push_back(formula(simplify(e)));
  for (auto& e : strides_of(f, map)) spec.strides.push_back(formula(simplify(e)));
  return spec;
}

EntrySpec entry_of(const Function& f, const Kernel& k, const Target& target, const Integers& integers) {
  EntrySpec entry;
  FormulaMaker formula{.integers = integers, .span = k.span, .what = "the grid of " + f.name};
  for (auto& e : k.grid) entry.grid.push_back(formula(e));
  if (entry.grid.empty()) entry.grid.push_back(Formula::constant(1));
  if (target.has_threads()) {
    if (k.threads.empty()) entry.threads[0] = target.default_threads;
    for (size_t d = 0; d < k.threads.size() && d < 3; d++) entry.threads[d] = int(k.threads[d]);
  }
  (target.has_threads() ? entry.shared_bytes : entry.arena_bytes) = block_bytes(f, k);
  visit(k.body, [&](const Call& n) {
    entry.cooperative |= n.intrinsic == &sync_grid;
    entry.dependent |= n.intrinsic == &pdl_sync;
  });

  using Arg = EntrySpec::Arg;
  Used used = used_by(k.body);
  auto needed = [&](const Param& p) {
    return p.buffer ? used.buffers.contains(p.buffer) : used.vars.contains(p.var.get());
  };
  for (size_t i = 0; i < f.params.size(); i++)
    if (needed(f.params[i])) entry.args.push_back({Arg::From::param, int(i)});
  for (size_t i = 0; i < f.workspaces.size(); i++)
    if (used.buffers.contains(f.workspaces[i])) entry.args.push_back({Arg::From::workspace, int(i)});
  for (size_t i = 0; i < integers.sources.size(); i++)
    if (integers.sources[i].from != IntegerSource::From::value && used.vars.contains(integers.vars[i].get()))
      entry.args.push_back({Arg::From::integer, int(i)});
  for (size_t i = 0; i < f.maps.size(); i++)
    if (used.maps.contains(f.maps[i].name)) entry.args.push_back({Arg::From::map, int(i)});
  return entry;
}

CheckSpec check_of(const Function& f, const Check& check, const Integers& integers) {
  FormulaMaker formula{.integers = integers, .span = check.span, .what = "this check"};
  return {.holds = formula(check.cond),
          .text = fmt::format("{}: assertion failed{}{}: `{}`", check.place,
                              check.message.empty() ? "" : ": ", check.message, print(check.cond, &f))};
}

// A symbol that no language reserves and no C library has: the ending keeps `main`, `exp` and `int` out.
std::string symbol_name(const Function& f, size_t index, std::set<std::string>& taken) {
  const Kernel& k = f.kernels[index];
  std::string base;
  for (unsigned char ch : f.kernels.size() == 1 || k.name.empty() ? f.name : k.name)
    if (ch < 0x80 || ch >= 0xc0) base += ch < 0x80 && std::isalnum(ch) ? char(ch) : '_';
  while (base.starts_with('_')) base.erase(0, 1);
  if (base.empty() || std::isdigit(static_cast<unsigned char>(base[0]))) base = "k" + base;
  if (!base.ends_with("_kernel")) base += "_kernel";
  std::string name = base;
  for (int n = 1; !taken.insert(name).second; n++) name = fmt::format("{}_{}", base, n);
  return name;
}

}  // namespace

std::vector<Expr> integer_vars(const Function& f) { return integers_of(f).vars; }

namespace {

// The workspaces in which the blocks of a grid count those that have come to its barrier.
std::set<BufferId> grid_counters(const Function& f) {
  std::set<BufferId> found;
  for (auto& k : f.kernels)
    visit(k.body, [&](const Call& n) {
      if (n.intrinsic != &sync_grid) return;
      for (auto& a : n.args) visit(a, [&](const Load& l) { found.insert(l.buffer); });
    });
  return found;
}

}  // namespace

Program signature_of(const Function& f, const Target& target) {
  Integers integers = integers_of(f);
  std::set<BufferId> written, named = named_buffers(f);
  for (auto& k : f.kernels)
    for (BufferId b : written_buffers(k.body)) written.insert(f.storage(b));

  Program program;
  program.name = f.name;
  program.language = target.language->name;
  program.chip = target.name;
  program.integers = integers.sources;
  program.alignment = int(target.vector_alignment ? target.vector_alignment : target.vector_bytes);
  for (auto& k : f.kernels)
    program.alignment = int(std::min<int64_t>(program.alignment, tensor_alignment(k, target)));
  for (auto& p : f.params) {
    if (p.buffer) {
      program.params.push_back(tensor_spec(f, p, integers, written.contains(p.buffer)));
      program.params.back().is_used = named.contains(p.buffer);
      program.params.back().may_overlap = may_overlap(f, p.buffer);
    } else
      program.params.push_back(
          {.name = p.name, .is_tensor = false, .dtype = to_string(p.var->dtype), .bits = p.var->dtype.bits});
  }
  std::set<BufferId> counters = grid_counters(f);
  for (BufferId id : f.workspaces) {
    FormulaMaker formula{.integers = integers, .span = f[id].span, .what = "the shape of " + f[id].name};
    Formula bytes = Formula::constant(f[id].dtype.bytes());
    for (auto& e : f[id].shape) bytes = times(bytes, formula(e));
    program.workspaces.push_back(
        {.name = f[id].name, .bytes = std::move(bytes), .zeroed = counters.contains(id)});
  }
  for (auto& map : f.maps) program.maps.push_back(map_spec(f, map, integers));
  for (auto& check : f.checks) program.checks.push_back(check_of(f, check, integers));
  std::set<std::string> taken;
  for (size_t i = 0; i < f.kernels.size(); i++) {
    program.entries.push_back(entry_of(f, f.kernels[i], target, integers));
    program.entries.back().name = symbol_name(f, i, taken);
  }
  return program;
}

}  // namespace tl
