// Parallel loop nests: mapping iterations to (thread, register), and one thread's loops.
//
// A mapping is a Fragment over the nest's own index space.  It comes from a fragment the nest touches
// (strictly laid out by another operator), else from plan_free: the widest legal vector per thread along the
// last loop, then neighbouring threads along the last loops, so that global accesses coalesce; the rest are
// registers.
#include "ops/parallel.h"

#include <algorithm>

#include "arith/prove.h"
#include "base/error.h"
#include "ir/rewrite.h"
#include "ops/copy_matrix.h"
#include "ops/mapping.h"

namespace tl {

ParallelNest read_nest(const For& loop) {
  ParallelNest nest{.attrs = loop.attrs, .span = loop.span};
  for (const For* l = &loop; l && l->loop == Loop::parallel; l = nest.body.as<For>()) {
    auto extent = as_int(l->extent);
    internal_check(extent.has_value(), "parallel loops have constant extents after canonicalize");
    nest.vars.push_back(l->var);
    nest.extents.push_back(*extent);
    nest.body = l->body;
  }
  return nest;
}

Stmt make_nest(const ParallelNest& nest) {
  Stmt s = nest.body;
  for (size_t d = nest.vars.size(); d-- > 0;)
    s = for_loop(nest.vars[d], nest.extents[d], Loop::parallel, s, nest.span, d == 0 ? nest.attrs : Attrs{});
  return s;
}

namespace {

// A mapping that agrees with as many of the nest's known fragments as possible: the first to agree with all,
// else with most.
std::optional<Fragment> follow_known(const ParallelNest& nest, const LayoutContext& ctx,
                                     const std::vector<NestAccess>& accesses) {
  std::optional<Fragment> best;
  size_t most = 0;
  for (auto& a : accesses) {
    auto known = ctx.known.fragments.find(a.buffer);
    if (known == ctx.known.fragments.end()) continue;
    auto mapping = derive_mapping(nest, a, known->second);
    if (!mapping) continue;
    size_t agreeing = 0;
    for (auto& other : accesses) {
      auto it = ctx.known.fragments.find(other.buffer);
      agreeing += it == ctx.known.fragments.end() || agrees(nest, *mapping, other, it->second);
    }
    if (best && agreeing <= most) continue;
    best = std::move(mapping);
    most = agreeing;
    if (most == accesses.size()) break;
  }
  return best;
}

// Where no fragment names all loops: over the copies of one that names some, if that leaves no loop to few
// threads.
std::optional<Fragment> follow_copies(const ParallelNest& nest, const LayoutContext& ctx,
                                      const std::vector<NestAccess>& accesses, int64_t lanes) {
  for (auto& a : accesses) {
    auto known = ctx.known.fragments.find(a.buffer);
    if (known == ctx.known.fragments.end() || known->second.replicas == 1) continue;
    auto mapping = derive_partial_mapping(nest, a, known->second, lanes);
    if (mapping && 2 * mapping->threads > ctx.team.count) return mapping;
  }
  return std::nullopt;
}

// Is the nest each thread's own business?  It is if it writes to arrays of the thread alone, or moves between
// one and a place that the thread's index names; or if own_work.cpp has seen that it names the place by
// whatever way, and has marked the nest: then its atomic updates are each thread's, too.
bool is_thread_local(const ParallelNest& nest, const Function& f, const Kernel& k) {
  if (nest.attrs.get_int("own")) return true;
  std::set<BufferId> inner;  // allocated in the body: each iteration's
  visit(nest.body, [&](const Alloc& n) { inner.insert(n.buffer); });
  bool writes = false, only_local = true, touches = false, names_thread = false;
  for (auto& a : accesses_of(nest)) {
    if (inner.contains(a.buffer)) continue;
    if (a.is_store && !f[a.buffer].reducer.empty()) return false;
    bool array = f[a.buffer].scope == Scope::local && f[a.buffer].reducer.empty();
    for (auto& i : a.index) {
      names_thread |= k.thread && uses_var(i, k.thread);
      for (auto& v : nest.vars) touches |= array && uses_var(i, v);
    }
    if (!a.is_store) continue;
    writes = true;
    only_local &= array;
  }
  return writes && (only_local || (touches && names_thread));
}

// Does an iteration read, of a buffer that other threads see, what it writes there?
bool is_in_place(const ParallelNest& nest, const Function& f) {
  std::set<BufferId> loaded, stored;
  for (auto& a : accesses_of(nest)) {
    if (f[a.buffer].scope != Scope::global && f[a.buffer].scope != Scope::shared) continue;
    (a.is_store ? stored : loaded).insert(f.storage(a.buffer));
  }
  return std::ranges::any_of(stored, [&](BufferId b) { return loaded.contains(b); });
}

bool stores_fragment(const ParallelNest& nest, const Function& f) {
  std::vector<NestAccess> all = accesses_of(nest);
  return std::ranges::any_of(all,
                             [&](auto& a) { return a.is_store && f[a.buffer].scope == Scope::fragment; });
}

void decide_loop(const ParallelNest& nest, const LayoutContext& ctx, const std::vector<NestAccess>& fragments,
                 Strictness level, LayoutDecisions& out) {
  out.loop = ctx.known.loop;
  if (out.loop) return;
  if (ctx.target.has_threads() && is_thread_local(nest, ctx.function, ctx.kernel)) {
    if (level == Strictness::free) out.loop = replicated(nest.extents, ctx.team.count);
    return;
  }
  // Copies of an iteration would read what one of them has written; and one alone cannot write to all of a
  // fragment's.
  bool alone = is_in_place(nest, ctx.function) && stores_fragment(nest, ctx.function);
  bool decided = std::ranges::any_of(fragments, [&](auto& a) {  // where the pairs of one lie already
    return ctx.function[a.buffer].dtype.is_packed() && ctx.known.fragments.contains(a.buffer);
  });
  auto keep_pairs = [&] {
    if (out.loop && !decided && parts_pairs(nest, *out.loop, ctx.function)) out.loop.reset();
  };
  if (level == Strictness::common && ctx.target.has_threads()) out.loop = follow_known(nest, ctx, fragments);
  keep_pairs();
  if (alone && out.loop && out.loop->replicas > 1) out.loop.reset();
  if (level != Strictness::free) return;
  out.lanes = vector_width(nest, ctx);
  if (ctx.target.has_threads() && !alone) out.loop = follow_copies(nest, ctx, fragments, out.lanes);
  keep_pairs();
  if (!out.loop) out.loop = plan_free(nest, ctx, out.lanes);
}

constexpr int64_t most_copied = 64;  // elements of a fragment that every thread holds all of

}  // namespace

LayoutDecisions infer_parallel(const ParallelNest& nest, const LayoutContext& ctx, Strictness level) {
  LayoutDecisions out;
  std::vector<NestAccess> accesses = accesses_of(nest);
  std::erase_if(accesses, [&](auto& a) { return ctx.function[a.buffer].scope != Scope::fragment; });
  decide_loop(nest, ctx, accesses, level, out);
  if (!out.loop || !ctx.target.has_threads()) return out;
  for (auto& a : accesses) {
    if (ctx.known.fragments.contains(a.buffer) || out.fragments.contains(a.buffer)) continue;
    auto f = project(nest, *out.loop, a, tile_shape(ctx.function[a.buffer]));
    // One element for all is no reason to give each thread the whole tile, if another access lays it out.
    if (f && level != Strictness::free && f->replicas == ctx.team.count && f->registers > most_copied)
      continue;
    f ? void(out.fragments.emplace(a.buffer, std::move(*f))) : void(out.relayout.insert(a.buffer));
  }
  for (auto& a : accesses) {
    auto known = ctx.known.fragments.find(a.buffer);
    auto here = out.fragments.find(a.buffer);
    if (known == ctx.known.fragments.end() && here == out.fragments.end()) continue;
    const Fragment& fragment = here != out.fragments.end() ? here->second : known->second;
    if (!agrees(nest, *out.loop, a, fragment)) out.relayout.insert(a.buffer);
  }
  for (BufferId b : out.relayout) out.fragments.erase(b);
  if (auto tile = read_by_ldmatrix(nest, ctx)) out.shared.emplace(*tile, layout_for_matrices(*tile, ctx));
  return out;
}

Expr physical_index(const LayoutDecisions& layouts, const Function& f, BufferId buffer,
                    const std::vector<Expr>& index, const Facts& facts) {
  if (auto it = layouts.shared.find(buffer); it != layouts.shared.end())
    return simplify(map_index(it->second, index)[0], facts);
  if (auto it = layouts.fragments.find(buffer); it != layouts.fragments.end()) {
    std::vector<Expr> inputs = index;
    inputs.push_back(imm(0));
    return simplify(map_index(it->second.layout, inputs)[1], facts);
  }
  return simplify(map_index(row_major(tile_shape(f[buffer])), index)[0], facts);
}

Claim claim_of(const Function& f, BufferId buffer, const std::vector<Expr>& index, const Expr& physical,
               const Facts& facts, const Target& target) {
  const BufferInfo& info = f[buffer];
  if (!target.keeps_indices || info.scope == Scope::global || index.size() != info.shape.size()) return {};
  if (index.size() == 1 && equal(simplify(index[0], facts), physical)) return {};  // then the address says it
  bool proven = true, computes = true;
  // What the access itself does not read, as with an index of an extent 1, keeps no tile alive: later another
  // one may have its bytes.
  std::set<BufferId> alive;
  visit(physical, [&](const Load& n) { alive.insert(n.buffer); });
  for (size_t d = 0; d < index.size(); d++) {
    proven = proven && can_prove(both(le(imm(0), index[d]), lt(index[d], info.shape[d])), facts);
    visit(
        index[d], [&](const Call& n) { computes &= n.intrinsic->effect == Intrinsic::Effect::pure; },
        [&](const Load& n) { computes &= f[n.buffer].scope != Scope::shared || alive.contains(n.buffer); });
  }
  return proven || !computes ? Claim{} : Claim{buffer, index, {}};
}

namespace {

bool is_effect(const Call& n) { return n.intrinsic->effect == Intrinsic::Effect::memory; }

// At the statement that asks for what an effect gives, which one thread alone then has.
[[noreturn]] void refuse_copies(const ParallelNest& nest, const Function& f) {
  std::string fragment;
  Span asks = nest.span;
  const Call* effect = nullptr;
  for (auto& a : accesses_of(nest))
    if (a.is_store && f[a.buffer].scope == Scope::fragment) fragment = f[a.buffer].name;
  visit_nodes(nest.body, [&](const Node& node) {
    if (effect || !(node.kind == Kind::Store || node.kind == Kind::Let || node.kind == Kind::Eval)) return;
    Stmt s(static_cast<const StmtNode*>(&node));
    visit(s, [&](const Call& n) {
      if (!effect && is_effect(n) && n.dtype != none_type) effect = &n, asks = s->span;
    });
    auto* store = s.as<Store>();
    if (effect && store && f[store->buffer].scope == Scope::fragment) fragment = f[store->buffer].name;
  });
  fail(asks ? asks : nest.span,
       "the result of {} is known to one thread only, because it is executed once, but several threads run "
       "this iteration, each with its copy of the fragment {} that the loop stores to: let the loop store to "
       "a shared tile (T.alloc_shared), and T.copy that to {}",
       effect ? effect->intrinsic->name : "an effect", fragment, fragment);
}

// Where several threads run one iteration, an effect whose value is used must stand on one of them alone,
// with all that uses it; so must what reads a buffer and writes to it.  Is that so for a statement of this
// body?
bool runs_once(const ParallelNest& nest, const Function& f, bool own) {
  if (nest.attrs.get_int("own")) return false;
  bool found = contains(nest.body, [](const Call& n) { return is_effect(n) && n.dtype != none_type; });
  if (found && stores_fragment(nest, f)) refuse_copies(nest, f);
  return found || (is_in_place(nest, f) && !own);
}

// The body at one point of the nest, its accesses to tiles made physical.
Stmt body_at(const ParallelNest& nest, const FragmentLoops& loops, LowerContext& ctx, const Facts& facts) {
  bool own = is_thread_local(nest, ctx.function, ctx.kernel);
  VarMap point;
  for (size_t d = 0; d < nest.vars.size(); d++) point.emplace(nest.vars[d].get(), loops.indices[d]);
  auto is_tile = [&](BufferId b) { return ctx.function[b].scope != Scope::global; };
  Facts inside = facts;
  if (loops.guard) inside.assume(loops.guard);
  return rewrite(
      substitute(nest.body, point),
      [&](const Load& n, Rewriter& self) -> Expr {
        if (!is_tile(n.buffer)) return self.children(n);
        std::vector<Expr> index;
        for (auto& i : n.index) index.push_back(self(i));
        Expr at = physical_index(ctx.layouts, ctx.function, n.buffer, index, facts);
        return load(n.dtype, n.buffer, {at}, n.span, {},
                    claim_of(ctx.function, n.buffer, index, at, inside, ctx.target));
      },
      [&](const Store& n, Rewriter& self) -> Stmt {
        Scope scope = ctx.function[n.buffer].scope;
        std::vector<Expr> index;
        for (auto& i : n.index) index.push_back(self(i));
        Claim claim;
        if (is_tile(n.buffer)) {
          Expr at = physical_index(ctx.layouts, ctx.function, n.buffer, index, facts);
          claim = claim_of(ctx.function, n.buffer, index, at, inside, ctx.target);
          index = {at};
        }
        bool once = !own && (scope == Scope::global || scope == Scope::shared);  // copies write once
        once |= !ctx.function[n.buffer].reducer.empty();                         // and contribute once
        return store(n.buffer, index, self(n.value), n.span,
                     once ? both(n.mask, loops.first_replica) : n.mask, std::move(claim));
      },
      [&](const Eval& n, Rewriter& self) -> Stmt {  // … and have one effect
        Stmt s = self.children(n);
        if (nest.attrs.get_int("own")) return s;
        auto* c = s.as<Eval>()->value.as<Call>();
        if (!c || !is_effect(*c) || !loops.first_replica) return s;
        if (obeys_mask(*c->intrinsic)) return eval(with_place_mask(*c, loops.first_replica), n.span);
        return if_then(loops.first_replica, s, {}, n.span);
      });
}

// Cuts the loop over consecutive elements of the last dimension, if there is one, into blocks of `lanes`: the
// last axis is then the vector, of that many lanes or all of them.  Returns whether there is such an axis.
bool cut_vector(FragmentLoops& loops, const ParallelNest& nest, const Fragment& mapping, int64_t lanes,
                const Target& target) {
  int last = int(nest.vars.size()) - 1;
  bool along = std::ranges::any_of(*mapping.layout.terms, [&](const Term& t) {
    return t.output == 1 && t.stride == 1 && t.digit.input == last && t.digit.divisor == 1;
  });
  if (!along || loops.axes.empty() || loops.axes.back().stride != 1) return false;
  auto axis = loops.axes.back();
  if (lanes == 1 || (lanes == 0 && axis.extent > target.vector_bytes)) return false;
  if (lanes == 0 || axis.extent <= lanes) return true;
  FragmentLoops::Axis lane{.var = var("v"), .extent = lanes, .stride = 1};
  loops.axes.back() = {
      .var = var(axis.var.as<Var>()->hint), .extent = (axis.extent + lanes - 1) / lanes, .stride = lanes};
  Expr whole = loops.axes.back().var * lanes + lane.var;
  VarMap cut{{axis.var.get(), whole}};
  for (Expr& e : loops.indices) e = substitute(e, cut);
  if (loops.guard) loops.guard = substitute(loops.guard, cut);
  if (axis.extent % lanes) loops.guard = both(loops.guard, lt(whole, imm(axis.extent)));
  loops.axes.push_back(lane);
  return true;
}

// What an engine is to carry out stands in a loop of one iteration that names it; the group of copies that it
// is alone in is closed behind it.
Stmt on_engine(const ParallelNest& nest, Stmt s, const Target& target) {
  std::string engine = nest.attrs.get_string("engine");
  const AsyncInstr* commit = target.group_row(AsyncInstr::AsyncKind::commit);
  if (engine.empty() || !commit) return s;
  Attrs attrs{.entries = {{"engine", engine}, {"independent", int64_t(1)}}};
  Stmt begun = for_loop(var("e"), 1, Loop::serial, std::move(s), nest.span, std::move(attrs));
  if (!nest.attrs.find("closes_group")) return begun;
  return block({std::move(begun), eval(call(commit->intrinsic, {}), nest.span)}, nest.span);
}

// Where insert_sync has to tell the accesses of nests from those of the program's threads, which these order
// themselves, a loop of one turn tells it, until then.
Stmt as_nest(Stmt s, const LowerContext& ctx) {
  if (ctx.kernel.attrs.get_int("thread_level") < 2) return s;
  Attrs attrs{.entries = {{"independent", int64_t(1)}, {"nest", int64_t(1)}}};
  Span span = s->span;
  return for_loop(var("nest"), 1, Loop::serial, std::move(s), span, std::move(attrs));
}

}  // namespace

Stmt lower_parallel(const ParallelNest& nest, LowerContext& ctx) {
  if (auto loads = copy_by_ldmatrix(nest, ctx)) return *loads;
  const Fragment& mapping = *ctx.layouts.loop;
  FragmentLoops loops = inverse(mapping, ctx.thread, ctx.team.count);
  bool reduces = false;  // lanes would add to one element
  for (auto& a : accesses_of(nest)) reduces |= a.is_store && !ctx.function[a.buffer].reducer.empty();
  bool own = is_thread_local(nest, ctx.function, ctx.kernel), lanes_inside = false;
  visit(nest.body, [&](const For& n) { lanes_inside |= n.loop == Loop::vectorized; });
  bool vector = !reduces && !lanes_inside && cut_vector(loops, nest, mapping, ctx.layouts.lanes, ctx.target);
  Facts facts = facts_of(ctx.function, ctx.kernel);
  int64_t trips = 1;
  for (auto& axis : loops.axes) {
    facts.bind(axis.var, Interval{0, axis.extent - 1});
    trips *= axis.extent;
  }
  int64_t wanted = nest.attrs.get_int("coalesced_width");
  if (wanted && ctx.target.has_threads() && (vector ? loops.axes.back().extent : 1) != wanted)
    ctx.note("coalesced_width",
             fmt::format("{} was asked for, but a thread moves {} at once, as {}", wanted,
                         vector ? loops.axes.back().extent : 1,
                         ctx.layouts.lanes ? "the alignment and division of the accesses allow no more"
                                           : "the loop follows a fragment"),
             nest.span, true);
  bool registers = std::ranges::any_of(
      accesses_of(nest), [&](auto& a) { return ctx.function[a.buffer].scope == Scope::fragment; });
  bool unroll = ctx.target.has_threads() && (registers || trips <= 64);
  Expr guard = loops.first_replica && runs_once(nest, ctx.function, own)
                   ? both(loops.guard, loops.first_replica)
                   : loops.guard;
  Stmt s = if_then(guard, body_at(nest, loops, ctx, facts), {}, nest.span);
  for (size_t i = loops.axes.size(); i-- > 0;) {
    auto& axis = loops.axes[i];
    Loop kind = vector && i + 1 == loops.axes.size() ? Loop::vectorized
                : unroll                             ? Loop::unrolled
                                                     : Loop::serial;
    Attrs attrs{.entries = {{"independent", int64_t(1)}}};
    s = for_loop(axis.var, axis.extent, kind, s, nest.span, attrs);
  }
  return on_engine(nest, as_nest(std::move(s), ctx), ctx.target);
}

}  // namespace tl
