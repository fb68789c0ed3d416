// A reduction by the threads of a block, in three steps: each thread reduces its own registers; then the
// parts of a row on different threads are combined, by butterfly shuffles where the thread numbers differ in
// whole bits within a warp, else through a strip of shared memory; then every thread that held a part of a
// row holds its result. Where dst has another layout, the results go through the strip once more.
//
// Elements beyond a padded fragment, and threads without elements, contribute the identity.
#include <algorithm>
#include <set>

#include "arith/prove.h"
#include "base/error.h"
#include "base/round.h"
#include "ops/mapping.h"
#include "ops/reduce.h"

namespace tl {
namespace {

constexpr int64_t strip_bytes = 4096;     // of shared memory at once, for what threads exchange
constexpr int64_t most_at_once = 16;      // threads whose parts one thread reads in one step
constexpr int64_t staged_registers = 64;  // a shared source of so few a thread is first loaded whole

// Does every thread that holds an element under `wanted` hold it under `have`, too?
bool covers(const Fragment& have, const Fragment& wanted) {
  auto places = [](const Fragment& f) {
    std::set<std::pair<int64_t, int64_t>> out;  // element, thread
    std::vector<int64_t> all = table(f.layout);
    for (size_t i = 0; i * 2 < all.size(); i++) out.emplace(int64_t(i) / f.replicas, all[i * 2]);
    return out;
  };
  auto a = places(have), b = places(wanted);
  return std::includes(a.begin(), a.end(), b.begin(), b.end());
}

struct Threads {
  const Reduce& r;
  LowerContext& ctx;
  Facts facts = facts_of(ctx.function, ctx.kernel);
  Expr thread = ctx.thread;
  std::vector<Stmt> out = {};
  Rows rows = {};
  std::vector<int64_t> shuffles = {};       // distances in a warp
  std::vector<ThreadDigit> exchanges = {};  // what is combined through the strip
  BufferId part = {}, strip = {};           // this thread's partial results; what threads exchange
  int64_t strip_elements = 0;

  Stmt each(const Expr& v, int64_t extent, Stmt body, Loop kind = Loop::unrolled) const {
    return for_loop(v, extent, kind, std::move(body), r.at(),
                    Attrs{.entries = {{"independent", int64_t(1)}}});
  }
  BufferId buffer(std::string name, Scope scope, int64_t n) {
    return ctx.scratch({.name = std::move(name),
                        .dtype = r.acc,
                        .shape = {imm(n)},
                        .scope = scope,
                        .span = r.at(),
                        .elements = n});
  }
  Expr at(BufferId b, Expr index) const { return load(ctx.function, b, {std::move(index)}, r.at()); }
  Stmt put(BufferId b, Expr index, Expr value) const {
    return store(b, {std::move(index)}, std::move(value), r.at());
  }
  Expr place(const Region& region, const std::vector<Expr>& index) const {
    return physical_index(ctx.layouts, ctx.function, region.buffer, in_buffer(region, index), facts);
  }
  int64_t strip_row(const ThreadDigit& d) const {  // whole groups of threads, so that all may read
    int64_t group = d.stride * d.radix;
    return round_up(ctx.team.count, group);
  }

  FragmentLoops visit_registers(const Fragment& f);
  Stmt loops_of(const FragmentLoops& loops, Stmt body, bool serial_rows = false) const;
  Expr result_at(const FragmentLoops& loops) const;
  std::optional<BufferId> load_source(const Fragment& mapping);
  void fold_registers(const Fragment& from, std::optional<BufferId> registers);
  void plan_threads();
  void exchange(const ThreadDigit& d, const Expr& first, int64_t count, std::vector<Stmt>& to);
  void combine_threads();
  void write_registers(const Fragment& wanted);
  void write_shared();
  void redistribute(const Fragment& wanted);
  void plan_strip(int64_t least);
  Stmt run();
  Stmt run_parts(int64_t registers);
};

FragmentLoops Threads::visit_registers(const Fragment& f) {
  FragmentLoops loops = inverse(f, thread, ctx.team.count);
  for (auto& axis : loops.axes) facts.bind(axis.var, Interval{0, axis.extent - 1});
  return loops;
}

// A nest over one thread's registers.
Stmt Threads::loops_of(const FragmentLoops& loops, Stmt body, bool serial_rows) const {
  for (size_t i = loops.axes.size(); i-- > 0;) {
    bool serial = serial_rows && rows.strides[i] == 0;
    body = each(loops.axes[i].var, loops.axes[i].extent, std::move(body),
                serial ? Loop::serial : Loop::unrolled);
  }
  return body;
}

Expr register_of(const FragmentLoops& loops) {
  Expr index = imm(0);
  for (auto& axis : loops.axes) index = index + axis.var * axis.stride;
  return index;
}

// Where this thread keeps the result of these indices.
Expr Threads::result_at(const FragmentLoops& loops) const {
  return ctx.function[r.dst.buffer].scope == Scope::local ? place(r.dst, loops.indices) : register_of(loops);
}

// Brings a shared source into registers, by vectors, where they are few; else it is folded where it lies.
std::optional<BufferId> Threads::load_source(const Fragment& mapping) {
  if (ctx.function[r.src.buffer].scope == Scope::fragment) return r.src.buffer;
  if (ctx.function[r.src.buffer].scope == Scope::local) return std::nullopt;
  if (mapping.registers > staged_registers) return std::nullopt;
  BufferInfo info{.name = "part_of_" + ctx.function[r.src.buffer].name,
                  .dtype = ctx.function[r.src.buffer].dtype,
                  .scope = Scope::fragment,
                  .span = r.at(),
                  .layout = mapping.layout.map(),
                  .elements = mapping.registers};
  for (int64_t e : r.shape) info.shape.push_back(imm(e));
  BufferId staged = ctx.scratch(std::move(info));
  LayoutDecisions layouts = ctx.layouts;
  layouts.fragments.emplace(staged, mapping);
  LowerContext inner{.function = ctx.function,
                     .kernel = ctx.kernel,
                     .target = ctx.target,
                     .team = ctx.team,
                     .thread = ctx.thread,
                     .layouts = layouts,
                     .scratch = ctx.scratch,
                     .align = ctx.align,
                     .map = ctx.map,
                     .note = ctx.note};
  ParallelNest nest = nest_over(r, ctx.function);
  nest.body = store(staged, nest.vars, nest.body.as<Eval>()->value, r.at());
  out.push_back(lower_parallel(nest, inner));
  return staged;
}

void Threads::fold_registers(const Fragment& from, std::optional<BufferId> registers) {
  Expr i = facts.loop_var("r", rows.fragment.registers);
  out.push_back(each(i, rows.fragment.registers, put(part, i, identity(r))));
  FragmentLoops loops = visit_registers(from);
  Expr to = imm(0);
  for (size_t a = 0; a < loops.axes.size(); a++) to = to + loops.axes[a].var * rows.strides[a];
  Expr x = registers ? at(*registers, register_of(loops)) : at(r.src.buffer, place(r.src, loops.indices));
  Stmt s = put(part, to, combine(r, at(part, to), contribution(r, x)));
  bool from_shared = !registers && ctx.function[r.src.buffer].scope == Scope::shared;
  out.push_back(loops_of(loops, if_then(loops.guard, s, {}, r.at()), from_shared));
}

// Whole bits of the thread number below the warp's go to shuffles, if every thread has its partner; the rest,
// in factors of at most `most_at_once` where there are any, to the strip. Threads that hold nothing fill up
// the bits of a digit.
void Threads::plan_threads() {
  for (ThreadDigit d : rows.across) {
    int64_t room = d.above / d.stride, bits = 1, most = std::max<int64_t>(ctx.target.warp / d.stride, 1);
    if (d.stride & (d.stride - 1) || ctx.team.count % ctx.target.warp) most = 1;  // they need all of a warp
    for (; bits < d.radix && bits < most && room % (2 * bits) == 0; bits *= 2)
      shuffles.push_back(d.stride * bits);
    d.stride *= bits, d.radix = (d.radix - 1) / bits + 1;
    while (d.radix > 1) {
      int64_t factor = d.radix;
      for (int64_t x = most_at_once; factor > most_at_once && x > 1; x--)
        if (d.radix % x == 0) factor = x;
      exchanges.push_back({d.stride, factor, d.above});
      d.stride *= factor, d.radix /= factor;
    }
  }
}

// Combines `count` partial results of the threads of one digit.
void Threads::exchange(const ThreadDigit& d, const Expr& first, int64_t count, std::vector<Stmt>& to) {
  int64_t row = strip_row(d), threads = ctx.team.count, group = d.stride * d.radix;
  Expr digit = floordiv(d.above % group ? floormod(thread, d.above) : thread, d.stride);
  if (group < threads) digit = floormod(digit, d.radix);
  Expr i = facts.loop_var("r", count), j = facts.loop_var("r", count), k = facts.loop_var("k", d.radix - 1);
  to.push_back(each(i, count, put(strip, i * row + thread, at(part, first + i))));
  Expr begin = thread - digit * d.stride, base = j * row + begin;
  Stmt take = put(part, first + j, at(strip, base));
  Stmt add = put(part, first + j, combine(r, at(part, first + j), at(strip, base + (k + 1) * d.stride)));
  Stmt rest = for_loop(k, d.radix - 1, d.radix <= most_at_once ? Loop::unrolled : Loop::serial, add, r.at());
  Stmt combined = each(j, count, block({take, rest}, r.at()));
  int64_t last = group - d.stride, whole = threads / group * group;
  Expr complete;  // do all threads of this one's group exist?
  if (d.above % group || threads - whole > last)
    complete = lt(begin, imm(threads - last));
  else if (whole < threads)
    complete = lt(thread, imm(whole));
  to.push_back(complete ? if_then(complete, combined, {}, r.at()) : combined);
}

void Threads::combine_threads() {
  int64_t registers = rows.fragment.registers;
  for (int64_t distance : shuffles) {
    Expr i = facts.loop_var("r", registers);
    Expr other = call(shfl_xor, {at(part, i), imm(distance)}, r.at());
    if (uses_twice(r)) {  // all threads of the warp execute it together, once
      Expr given = var("other", r.acc);
      Stmt take = put(part, i, combine(r, at(part, i), given));
      out.push_back(each(i, registers, block({let(given, other, r.at()), take}, r.at())));
    } else {
      out.push_back(each(i, registers, put(part, i, combine(r, at(part, i), other))));
    }
  }
  for (auto& d : exchanges) {
    int64_t count = std::clamp<int64_t>(strip_elements / strip_row(d), 1, registers),
            turns = registers / count;
    std::vector<Stmt> body;
    Expr turn = facts.loop_var("turn", turns);
    exchange(d, turns > 1 ? turn * count : imm(0), count, body);
    out.push_back(turns > 1 ? for_loop(turn, turns, Loop::unrolled, block(std::move(body), r.at()), r.at())
                            : block(std::move(body), r.at()));
    if (registers % count) exchange(d, imm(turns * count), registers % count, out);
  }
}

// Each thread has what it wants.
void Threads::write_registers(const Fragment& wanted) {
  FragmentLoops loops = visit_registers(wanted);
  std::vector<Expr> inputs = loops.indices;
  inputs.push_back(imm(0));
  Expr from = equal(wanted, rows.fragment) ? register_of(loops)
                                           : simplify(map_index(rows.fragment.layout, inputs)[1], facts);
  Expr to = result_at(loops);
  Stmt s = put(r.dst.buffer, to, result(r, at(r.dst.buffer, to), at(part, from)));
  out.push_back(loops_of(loops, if_then(loops.guard, s, {}, r.at())));
}

void Threads::write_shared() {
  FragmentLoops loops = visit_registers(rows.fragment);
  Expr to = place(r.dst, loops.indices);
  Stmt s = put(r.dst.buffer, to, result(r, at(r.dst.buffer, to), at(part, register_of(loops))));
  out.push_back(loops_of(loops, if_then(both(loops.guard, loops.first_replica), s, {}, r.at())));
}

// The first thread that holds a result stores it to the strip, and the threads that need it load it; in as
// many rounds as the strip needs.
void Threads::redistribute(const Fragment& wanted) {
  std::vector<int64_t> shape = wanted.shape();
  int64_t elements = product(shape);
  int64_t turns = (elements + strip_elements - 1) / strip_elements;
  Expr turn = facts.loop_var("turn", turns), first = turns > 1 ? turn * strip_elements : imm(0);
  auto slot = [&](const FragmentLoops& loops, Expr& guard) {
    Expr e = map_index(row_major(shape), loops.indices)[0] - first;
    guard = loops.guard;
    if (turns > 1) guard = both(guard, both(le(imm(0), e), lt(e, imm(strip_elements))));
    return simplify(e, facts);
  };
  Expr guard;
  FragmentLoops have = visit_registers(rows.fragment), want = visit_registers(wanted);
  Expr to = slot(have, guard);
  Stmt give =
      if_then(both(guard, have.first_replica), put(strip, to, at(part, register_of(have))), {}, r.at());
  Expr from = slot(want, guard), mine = result_at(want);
  Stmt take =
      if_then(guard, put(r.dst.buffer, mine, result(r, at(r.dst.buffer, mine), at(strip, from))), {}, r.at());
  Stmt s = block({loops_of(have, give), loops_of(want, take)}, r.at());
  out.push_back(turns > 1 ? for_loop(turn, turns, Loop::serial, s, r.at()) : s);
}

// The strip for the exchanges, and for `elements` results that go through it.
void Threads::plan_strip(int64_t elements) {
  strip_elements = std::min(elements, strip_bytes / r.acc.bytes());
  for (auto& d : exchanges) {
    int64_t row = strip_row(d),
            count = std::clamp<int64_t>(strip_bytes / r.acc.bytes() / row, 1, rows.fragment.registers);
    strip_elements = std::max(strip_elements, row * count);
  }
  if (!strip_elements) return;
  strip = buffer("strip", Scope::shared, strip_elements);
  ctx.note(std::string(r.tile.op->name),
           fmt::format("{} bytes of shared memory, {}", strip_elements * r.acc.bytes(),
                       exchanges.empty() ? "as dst is laid out otherwise"
                                         : "to combine threads that shuffles do not reach"),
           r.at());
}

Stmt Threads::run_parts(int64_t registers) {
  rows.fragment = make_fragment({registers}, ctx.team.count,
                                {{.output = 1, .stride = 1, .digit = {0, 1, registers}},
                                 {.output = 0, .stride = 1, .digit = {1, 1, ctx.team.count}}});
  if (ctx.team.count > 1) rows.across.push_back({1, ctx.team.count, ctx.team.count});
  plan_threads();
  part = r.dst.buffer;
  plan_strip(0);
  combine_threads();
  return block(std::move(out), r.at());
}

Stmt Threads::run() {
  const BufferInfo dst = ctx.function[r.dst.buffer];  // scratch buffers move the table
  bool to_shared = dst.scope == Scope::shared,
       from_fragment = ctx.function[r.src.buffer].scope == Scope::fragment;
  Fragment from = from_fragment                         ? ctx.layouts.fragments.at(r.src.buffer)
                  : is_for_each_thread(r, ctx.function) ? replicated(r.shape, ctx.team.count)
                                                        : *ctx.layouts.loop;
  rows = rows_of(r, from);
  plan_threads();
  std::optional<Fragment> wanted;
  if (dst.scope == Scope::fragment) wanted = ctx.layouts.fragments.at(r.dst.buffer);
  if (dst.scope == Scope::local) wanted = replicated(rows.fragment.shape(), ctx.team.count);
  bool same = wanted && equal(*wanted, rows.fragment),
       held = same || (wanted && covers(rows.fragment, *wanted));
  plan_strip(wanted && !held ? product(wanted->shape()) : 0);
  bool direct =
      same && dst.scope == Scope::fragment && r.clear && dst.dtype == r.acc && r.src.buffer != r.dst.buffer;
  part = direct ? r.dst.buffer : buffer("part", Scope::local, rows.fragment.registers);
  std::optional<BufferId> registers = load_source(from);
  fold_registers(from, registers);
  combine_threads();
  if (to_shared)
    write_shared();
  else if (!held)
    redistribute(*wanted);
  else if (!direct)
    write_registers(*wanted);
  return block(std::move(out), r.at());
}

}  // namespace

Stmt reduce_parts(const Reduce& r, LowerContext& ctx, int64_t registers) {
  return Threads{.r = r, .ctx = ctx}.run_parts(registers);
}
Stmt reduce_by_threads(const Reduce& r, LowerContext& ctx) { return Threads{.r = r, .ctx = ctx}.run(); }

}  // namespace tl
