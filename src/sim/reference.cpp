// Statements as closures, regions as dense arrays, blocks in order.  Memory of tiles is poisoned where it is
// allocated: NaN, or bytes 0xAA, so that what was never written shows in the result.
#include "sim/reference.h"

#include <algorithm>
#include <cmath>

#include "arith/interval.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "ir/build.h"
#include "ir/rewrite.h"
#include "ops/own_copies.h"
#include "ops/reducer.h"
#include "ops/user_op.h"
#include "sim/limits.h"
#include "sim/reference_barriers.h"
#include "target/foreign.h"

namespace tl {
namespace {

using Step = std::function<void(Frame&)>;

// A region's place at run time, points dropped from its shape.
struct Box {
  std::vector<int64_t> min, extent, shape;
};

// Calls f(buffer offset or -1 where outside, position in the dense array) for each run of one row: elements
// along the last dimension follow each other by `stride`, `first` to `last` of them lie inside.
struct Row {
  int64_t offset, position, count, first, last, stride;
};
template <class F>
void for_each_row(const Memory& m, Box box, F f) {
  size_t rank = box.min.size();
  for (size_t d = 0; d < rank; d++)  // one that begins further away lies outside, too, and its sums overflow
    box.min[d] = std::clamp(box.min[d], -box.extent[d], m.shape[d]);
  int64_t count = rank ? box.extent.back() : 1, rows = 1;
  for (size_t d = 0; d + 1 < rank; d++) rows *= box.extent[d];
  int64_t first = 0, last = 1, stride = 0;
  if (rank) {
    first = std::clamp<int64_t>(-box.min.back(), 0, count);
    last = std::clamp<int64_t>(m.shape.back() - box.min.back(), first, count);
    stride = m.strides.back();
  }
  std::vector<int64_t> at(rank, 0);
  for (int64_t row = 0; row < rows; row++) {
    int64_t offset = rank ? box.min.back() * stride : 0;
    bool inside = true;
    for (size_t d = 0; d + 1 < rank; d++) {
      int64_t i = box.min[d] + at[d];
      inside &= i >= 0 && i < m.shape[d];
      offset += i * m.strides[d];
    }
    f(Row{offset, row * count, count, first, inside ? last : first, stride});
    for (size_t d = rank - 1; rank > 1 && d-- > 0;) {
      if (++at[d] < box.extent[d]) break;
      at[d] = 0;
    }
  }
}

// What tile operators read and write.
struct Regions {
  const Function& f;
  Host& host;
  Frame& frame = host.frame;
  Span tile_span = {};                   // of the operator that runs
  bool moves = false;                    // element by element, as it stands
  std::map<int64_t, Misfit> moved = {};  // what it has read of such, if it moves elements, by their positions

  int64_t integer(const Expr& e) { return host.integer(e); }
  Box box_of(const Region& r) {
    Box b;
    for (auto& range : r.ranges) {
      b.min.push_back(integer(range.min));
      b.extent.push_back(integer(range.extent));
      if (!range.point) b.shape.push_back(b.extent.back());
    }
    return b;
  }
  // A slice of a tile; tensors have bounds guards.
  void check_inside(const Region& r, const Memory& m, const Box& box) const {
    if (f[r.buffer].scope == Scope::global || std::ranges::count(box.extent, 0)) return;
    const std::string& name = f[r.buffer].name;
    for (size_t d = 0; d < box.min.size(); d++) {
      int64_t first = box.min[d], size = m.shape[d];
      if (first < 0 || first > size - box.extent[d])
        fail(tile_span,
             "the slice [{}, {}) of dimension {} of {}: index {} of dimension {} is outside [0, {}), in {}; "
             "let "
             "the slice end inside, or make {} larger",
             first, Wide(first) + box.extent[d], d, name, first < 0 ? first : std::max(first, size), d, size,
             frame.where, name);
    }
  }
  Array read(const Region& r) {
    DType type = f[r.buffer].dtype;
    const Memory& m = frame.buffers[size_t(r.buffer.value)];
    Box box = box_of(r);
    check_inside(r, m, box);
    Array a = make_array(type, box.shape);
    if (f[r.buffer].safe_value) {
      std::ranges::fill(a.floats, safe_scalar(f[r.buffer]).d);
      std::ranges::fill(a.ints, safe_scalar(f[r.buffer]).i);
    }
    BufferAccess access = buffer_access(f[r.buffer]);
    bool is_float = type.is_float();
    for_each_row(m, box, [&](const Row& row) {
      for (int64_t i = row.first; i < row.last; i++) {
        if (moves && !frame.held_misfits.empty())
          if (auto held = frame.held_misfits.find(m.data + (row.offset + i * row.stride) * access.bytes);
              held != frame.held_misfits.end() && !access.pairs)
            moved.emplace(row.position + i, held->second);
        Scalar v = access.get(m.data, row.offset + i * row.stride);
        if (is_float)
          a.floats[size_t(row.position + i)] = v.d;
        else
          a.ints[size_t(row.position + i)] = v.i;
      }
    });
    return a;
  }
  void write(const Region& r, const Array& given) {
    DType type = f[r.buffer].dtype;
    const Array& a = given.dtype == type ? given : as_type(given, type);
    Memory& m = frame.buffers[size_t(r.buffer.value)];
    Box box = box_of(r);
    check_inside(r, m, box);
    internal_check(a.size() == product(box.extent), "an array of the region's shape");
    bool casts = given.dtype.is_float() && !type.is_float();
    bool is_tensor = f[r.buffer].scope == Scope::global;
    auto note = [&](size_t at, const std::byte* to) {
      auto known = moved.find(int64_t(at));
      std::optional<Misfit> found;
      if (casts && !fits_integer(given.floats[at], type))
        found = Misfit{given.floats[at], type, tile_span};
      else if (known != moved.end())
        found = known->second;
      if (found && is_tensor) found->refuse("is stored here", frame.where);
      if (found)
        frame.held_misfits[to] = *found;
      else if (!frame.held_misfits.empty())
        frame.held_misfits.erase(to);
    };
    bool noting = (casts && !type.is_bool()) || !moved.empty() || !frame.held_misfits.empty();
    BufferAccess access = buffer_access(f[r.buffer]);
    bool is_float = type.is_float();
    for_each_row(m, box, [&](const Row& row) {
      for (int64_t i = row.first; i < row.last; i++) {
        size_t at = size_t(row.position + i);
        if (noting && !access.pairs) note(at, m.data + (row.offset + i * row.stride) * access.bytes);
        access.put(m.data, row.offset + i * row.stride, is_float ? scalar(a.floats[at]) : scalar(a.ints[at]));
      }
    });
  }
};

struct Machine {
  const Function& f;
  Host host;
  ExprCompiler& compile = host.compile;
  Frame& frame = host.frame;
  Regions regions = {f, host};
  ReferenceBarriers barriers = {host};
  Team team = {};  // whose statements are compiled
  EvalContext context = {};
  LoopGuard loops = {RunLimits::of_environment(10'000'000)};

  explicit Machine(const Function& f) : f(f), host(f) {
    context = {.read = [this](const Region& r) { return regions.read(r); },
               .write = [this](const Region& r, const Array& a) { regions.write(r, a); },
               .value = [this](const Expr& e) { return host.value(e); },
               .apply = [this](const IndexMap& m, const std::vector<Array>& a) { return apply(m, a); }};
    compile.instruction = [this](const Call& c, Span span) { return barriers.instruction(c, team, span); };
  }
  Machine(const Machine&) = delete;

  Array apply(const IndexMap& m, const std::vector<Array>& arguments) {
    const Expr& result = m.outputs[0];
    Array out = make_array(result->dtype, arguments[0].shape);
    std::vector<size_t> slots;
    for (auto& v : m.vars) slots.push_back(compile.slot_of(v));
    frame.vars.resize(std::max(frame.vars.size(), compile.slots.size()));
    for (size_t i = 0; i < size_t(out.size()); i++) {
      for (size_t k = 0; k < slots.size(); k++) {
        const Array& a = arguments[k];
        frame.vars[slots[k]] = a.dtype.is_float() ? scalar(a.floats[i]) : scalar(a.ints[i]);
      }
      Scalar v = host.run(result);
      if (out.dtype.is_float())
        out.floats[i] = v.d;
      else
        out.ints[i] = v.i;
    }
    return out;
  }

  // ── statements ──────────────────────────────────────────────────────────────────────────────────────
  Step step(const Stmt& s) {
    if (s->span) compile.statement = s->span;
    return dispatch(s, [&](const auto& n) { return step(n); });
  }
  Step step(const Store& n) {
    BufferAccess access = buffer_access(f[n.buffer]);
    auto at = compile.offset(n.buffer, n.index, compile.statement);
    Code value = compile(n.value);
    size_t id = size_t(n.buffer.value);
    bool is_tensor = f[n.buffer].scope == Scope::global;
    Step store = [=](Frame& x) {
      x.misfit.reset();
      int64_t offset = at(x);
      x.refuse_misfit("is an index");
      if (offset == ExprCompiler::outside) return;
      Scalar v = value(x);
      std::byte* to = x.buffers[id].data + offset * access.bytes;
      if (x.misfit && is_tensor) x.refuse_misfit("is stored here");
      if (x.misfit && !access.pairs)
        x.held_misfits[to] = *x.misfit;
      else if (!x.held_misfits.empty())
        x.held_misfits.erase(to);
      access.put(x.buffers[id].data, offset, v);
    };
    if (!n.mask) return store;
    return [store, mask = deciding(n.mask)](Frame& x) {
      if (mask(x).i) store(x);
    };
  }
  // A value that says what runs.
  Code deciding(const Expr& e) {
    return [value = compile(e)](Frame& x) {
      x.misfit.reset();
      Scalar v = value(x);
      x.refuse_misfit("decides what runs");
      return v;
    };
  }
  bool has_slot_in(const std::set<size_t>& slots, const Var& v) const {
    auto it = compile.slots.find(&v);
    return it != compile.slots.end() && slots.contains(it->second);
  }
  // May a value be made of a float that does not fit?
  bool may_misfit(const Expr& e) const {
    return contains(
        e, [](const Cast& c) { return c.a->dtype.is_float() && c.dtype.is_int(); },
        [&](const Load& l) { return f[l.buffer].scope != Scope::global && l.dtype.is_int(); },
        [&](const Var& v) { return has_slot_in(compile.misfits, v); });
  }
  Step step(const Let& n) {
    if (!may_misfit(n.value)) return plain_let(n);
    size_t slot = compile.slot_of(n.var);
    Step let = plain_let(n);
    compile.misfits.insert(slot);
    return [let, slot](Frame& x) {
      x.misfit.reset();
      let(x);
      if (x.misfit)
        x.named_misfits[slot] = *x.misfit;
      else if (!x.named_misfits.empty())
        x.named_misfits.erase(slot);
    };
  }
  Step plain_let(const Let& n) {
    Code value = compile(n.value);
    size_t slot = compile.slot_of(n.var);
    bool may_read_outside = contains(
        n.value, [&](const Load& l) { return f[l.buffer].scope == Scope::global; },
        [&](const Var& v) { return has_slot_in(compile.reads_outside, v); });
    if (!may_read_outside) return [value, slot](Frame& x) { x.vars[slot] = value(x); };
    compile.reads_outside.insert(slot);
    return [value, slot](Frame& x) {
      x.read_outside = false;
      x.vars[slot] = value(x);
      if (x.read_outside)
        x.named_outside.insert(slot);
      else
        x.named_outside.erase(slot);
    };
  }
  Step step(const For& n) {
    Code min = deciding(n.min), extent = deciding(n.extent);
    size_t slot = compile.slot_of(n.var);
    Span span = compile.statement;
    Step body = step(n.body);
    return [=, this](Frame& x) {
      int64_t begin = min(x).i, end = begin + extent(x).i;
      for (int64_t i = begin; i < end; i++) {
        loops.begin_iteration(x.where, span);
        x.vars[slot] = scalar(i);
        body(x);
        if (x.flow != Flow::on && leaves(x)) break;
      }
    };
  }
  Step step(const If& n) {
    Code cond = deciding(n.cond);
    auto* one = n.cond.as<Call>();
    Team outer = team;
    if (one && one->intrinsic == &elected) team = {.first = as_int(one->args[0]).value_or(0), .count = 1};
    Step then_body = step(n.then_body);
    team = outer;
    Step else_body = n.else_body ? step(n.else_body) : [](Frame&) {};
    return [=](Frame& x) { cond(x).i ? then_body(x) : else_body(x); };
  }
  Step step(const While& n) {
    if (Step wait = barriers.wait(n, team, compile.statement)) return wait;
    Code cond = deciding(n.cond);
    Span span = compile.statement;
    Step body = step(n.body);
    return [=, this](Frame& x) {
      for (int64_t trips = 0; cond(x).i; trips++) {
        loops.begin_trip(trips, x.where, span);
        body(x);
        if (x.flow != Flow::on && leaves(x)) break;
      }
    };
  }
  Step step(const Block& n) {
    std::vector<Step> steps;
    for (size_t i = 0; i < n.stmts.size();) {
      size_t groups = std::max<size_t>(1, section_length(n.stmts, i));
      std::vector<Step> section;
      bool waits = false;
      for (auto& s : std::span(n.stmts).subspan(i, groups)) {
        section.push_back(step(s));
        waits |= waits_for_phase(s);
      }
      if (groups > 1 && waits) section = {barriers.beside(std::move(section))};
      steps.insert(steps.end(), section.begin(), section.end());
      i += groups;
    }
    return [steps](Frame& x) {
      for (auto& s : steps) {
        s(x);
        if (x.flow != Flow::on) return;
      }
    };
  }
  Step step(const Group& n) {
    Team outer = std::exchange(team, team_of(n));
    Step body = step(n.body);
    team = outer;
    return body;
  }
  Step step(const Alloc& n) {
    if (auto* base = n.attrs.find("base"))  // made from an address
      return [this, id = n.buffer, span = compile.statement,
              base = compile(std::get<Expr>(*base))](Frame& x) { host.begin_at(id, base(x).i, span); };
    return [this, id = n.buffer](Frame&) { host.begin(id); };
  }
  Step step(const Tile& n) {
    const TileOp& row = row_of(n);
    if (!row.eval) return step(n.body);
    return [this, &row, tile = Stmt(&n)](Frame&) {
      regions.tile_span = tile->span;
      regions.moves = row.info.name == "copy" || row.info.name == "async_copy";
      row.eval(*tile.as<Tile>(), f, context);
      regions.moved.clear();
    };
  }
  Step step(const Eval& n) {
    if (const Intrinsic* c = control_of(Stmt(&n))) {
      Flow flow = c == &break_loop ? Flow::broken : c == &continue_loop ? Flow::continued : Flow::returned;
      return [flow](Frame& x) { x.flow = flow; };
    }
    if (auto* c = n.value.as<Call>(); c && c->intrinsic == &sync_threads)
      return [](Frame&) {};  // in order anyway
    return [value = compile(n.value)](Frame& x) {
      x.misfit.reset();
      value(x);
      x.refuse_misfit("is used here");
    };
  }

  void launch(const Kernel& k, const ReferenceOptions& options) {
    int64_t extents[3] = {1, 1, 1}, blocks = 1;
    for (size_t d = 0; d < k.grid.size(); d++) blocks *= extents[d] = host.integer(k.grid[d]);
    std::vector<size_t> slots;
    for (auto& v : k.grid_vars) slots.push_back(compile.slot_of(v));
    compile.statement = k.span;
    constexpr int64_t usual_threads = 128;  // of a kernel that names none, on every GPU
    team = {.count = std::max(thread_count(k), k.threads.empty() ? usual_threads : 1)};
    Step body = step(k.body);
    frame.vars.resize(compile.slots.size());
    if (attention.task) attention.task->all = blocks;
    for (int64_t n = 0; n < blocks; n++) {
      poll();
      if (attention.task) attention.task->done = n;
      int64_t block = options.reverse_blocks ? blocks - 1 - n : n;
      frame.where = "block (";
      for (size_t d = 0; d < slots.size(); d++) {
        int64_t i = block % extents[d];
        block /= extents[d];
        frame.vars[slots[d]] = scalar(i);
        frame.where += fmt::format("{}{}", d ? ", " : "", i);
      }
      frame.where += ") of " + k.name;
      frame.flow = Flow::on;
      body(frame);
    }
  }
};

void refuse_thread_level_code(const Function& f) {
  for (auto& k : f.kernels) {
    Span statement = k.span;
    visit_nodes(as_evaluated(k.body), [&](const Node& n) {
      if (n.kind >= Kind::Store && n.span) statement = n.span;
      if (n.kind != Kind::Call) return;
      auto& c = static_cast<const Call&>(n);
      if (is_foreign(*c.intrinsic))
        return require_foreign_eval(c, "the reference", c.span ? c.span : statement);
      if (c.intrinsic == &sync_threads) return;
      using Effect = Intrinsic::Effect;
      bool wide = c.intrinsic == &load_wide || c.intrinsic == &store_wide;
      Effect effect = c.intrinsic->effect;
      if (wide || (effect != Effect::pure && effect != Effect::memory && effect != Effect::control))
        refuse_thread_level(c.span ? c.span : statement, c.intrinsic->name);
    });
  }
}

}  // namespace

namespace {

// A tensor whose elements its program places by a layout, or packs two to a byte: row-major while the program
// runs, one element to a byte at least.
struct Placed {
  Memory caller;                 // as it was given
  std::vector<int64_t> offsets;  // of each element there, in row-major order
  size_t bytes;
  bool packed;
};

std::vector<int64_t> strided_offsets(const Memory& m) {
  std::vector<int64_t> offsets{0};
  for (size_t d = 0; d < m.shape.size(); d++) {
    std::vector<int64_t> next;
    for (int64_t o : offsets)
      for (int64_t i = 0; i < m.shape[d]; i++) next.push_back(o + i * m.strides[d]);
    offsets = std::move(next);
  }
  return offsets;
}

Placed take_out(const BufferInfo& info, Memory& m) {
  Placed p{.caller = m,
           .offsets = info.layout ? table(from_map(*info.layout)) : strided_offsets(m),
           .bytes = size_t(info.dtype.bytes()),
           .packed = info.dtype.is_packed()};
  m.owned.resize(std::max<size_t>(p.offsets.size(), 1) * p.bytes);
  for (size_t i = 0; i < p.offsets.size(); i++) {
    auto at = size_t(p.offsets[i]);
    if (p.packed)
      m.owned[i] = m.data[at / 2] >> (at % 2 * 4) & std::byte(15);
    else
      std::copy_n(m.data + at * p.bytes, p.bytes, m.owned.data() + i * p.bytes);
  }
  m.data = m.owned.data();
  for (size_t d = m.shape.size(), stride = 1; d-- > 0; stride *= size_t(m.shape[d]))
    m.strides[d] = int64_t(stride);
  return p;
}

void put_back(const Placed& p, const Memory& m) {
  for (size_t i = 0; i < p.offsets.size(); i++) {
    auto at = size_t(p.offsets[i]);
    if (!p.packed) {
      std::copy_n(m.data + i * p.bytes, p.bytes, p.caller.data + at * p.bytes);
      continue;
    }
    std::byte& pair = p.caller.data[at / 2];
    pair = (pair & std::byte(at % 2 ? 15 : 240)) | (m.data[i] & std::byte(15)) << (at % 2 * 4);
  }
}

}  // namespace

void run_reference(const Function& written, std::span<const HostArg> args, const ReferenceOptions& options) {
  Function f = written;
  for (Kernel& k : f.kernels) k.body = with_copies_in_order(f, k.body);
  refuse_thread_level_code(f);
  f = widen_reducers(std::move(f));
  Machine machine(f);
  machine.host.bind(args);
  for (BufferId id : f.workspaces) machine.host.begin(id);
  std::map<size_t, Placed> placed;
  for (size_t i = 0; i < f.buffers.size(); i++)
    if (f.buffers[i].scope == Scope::global && (f.buffers[i].layout || f.buffers[i].dtype.is_packed()) &&
        machine.frame.buffers[i].data != machine.frame.buffers[i].owned.data())
      placed.emplace(i, take_out(f.buffers[i], machine.frame.buffers[i]));
  for (auto& k : f.kernels) machine.launch(k, options);
  for (auto& [i, p] : placed) put_back(p, machine.frame.buffers[i]);
}

}  // namespace tl
