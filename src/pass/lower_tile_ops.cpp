// lower_tile_ops: from whole tiles to one thread's statements.  Each operator's row does the work; here
// layouts are read back, scratch buffers placed, and the remaining scalar accesses to tiles made physical.
//
//   clear(Cl)      ->      for r0 in unrolled(32):
//                            Cl[r0] = 0.0
#include <fmt/ranges.h>

#include "arith/prove.h"
#include "ir/rewrite.h"
#include "ops/parallel.h"
#include "pass/check_slices.h"
#include "pass/passes.h"

namespace tl {
namespace {

LayoutDecisions layouts_of(const Function& f) {
  LayoutDecisions map;
  for (size_t i = 0; i < f.buffers.size(); i++) {
    const BufferInfo& info = f.buffers[i];
    if (!info.layout) continue;
    if (info.scope == Scope::fragment)
      map.fragments.emplace(BufferId{int(i)}, fragment_from_map(*info.layout));
    else
      map.shared.emplace(BufferId{int(i)}, from_map(*info.layout));
  }
  return map;
}

struct Lowerer {
  Function& f;
  Kernel& kernel;
  const Target& target;
  LayoutDecisions layouts;
  Team team = whole_block(kernel);  // whose statements are being lowered
  std::vector<BufferId> scratch = {};

  // Runs one row's lowering and puts the buffers it asked for in front.
  template <class F>
  Stmt with_scratch(const Attrs& attrs, Span span, F lower) {
    layouts.loop.reset();
    if (auto* v = attrs.find("loop_layout"))
      if (auto* map = std::get_if<IndexMap>(v)) layouts.loop = fragment_from_map(*map);
    layouts.lanes = attrs.get_int("loop_lanes");
    scratch.clear();
    LowerContext ctx{.function = f,
                     .kernel = kernel,
                     .target = target,
                     .team = team,
                     .thread = team.first ? kernel.thread - team.first : kernel.thread,
                     .layouts = layouts,
                     .scratch = [&](BufferInfo info) { return scratch.emplace_back(f.add(std::move(info))); },
                     .align =
                         [&](BufferId buffer, int64_t bytes) {
                           int64_t& alignment = f[f.storage(buffer)].alignment;
                           alignment = std::max(alignment, bytes);
                         },
                     .map = [&](TensorMap map) { return name_of_map(std::move(map)); },
                     .note = {[&](Note note) {
                       note.pass = "lower_tile_ops";
                       f.notes.push_back(std::move(note));
                     }}};
    Stmt s = lower(ctx);
    std::vector<Stmt> stmts;
    for (BufferId b : scratch) stmts.push_back(alloc(b, span));
    stmts.push_back(std::move(s));
    return block(std::move(stmts), span);
  }

  // Of the tensor's own shape; boxes that are alike have one.
  std::string name_of_map(TensorMap map) {
    for (auto& m : f.maps) {
      bool own_shape = m.shape.empty() && m.strides.empty();
      bool alike = m.box == map.box && m.swizzle == map.swizzle && m.fetch == map.fetch;
      if (own_shape && m.tensor == map.tensor && alike) return m.name;
    }
    std::string name = fmt::format("{}_{}", map.name, fmt::join(map.box, "x"));
    map.name = name;
    for (int n = 2; find_tensor_map(f, map.name); n++) map.name = fmt::format("{}_{}", name, n);
    return f.maps.emplace_back(std::move(map)).name;
  }

  std::vector<Expr> physical(BufferId buffer, const std::vector<Expr>& index, Rewriter& self, Claim& claim) {
    std::vector<Expr> inner;
    for (auto& i : index) inner.push_back(self(i));
    if (f[buffer].scope == Scope::global) return inner;
    Facts facts = facts_of(f, kernel);
    Expr at = physical_index(layouts, f, buffer, inner, facts);
    claim = claim_of(f, buffer, inner, at, facts, target);
    return {at};
  }

  // What its regions read of memory, variables mostly, gets names in front of it: an operator's row does not
  // know where they lie.
  static Stmt with_named_loads(const Tile& t, Rewriter& self, std::vector<Stmt>& names) {
    std::vector<Operand> operands = t.operands;
    for (auto& o : operands)
      if (auto* region = std::get_if<Region>(&o))
        for (auto& range : region->ranges)
          range.min = rewrite(range.min, [&](const Load& n, Rewriter&) -> Expr {
            names.push_back(let(var("at", n.dtype), self(Expr(&n)), t.span));
            return names.back().as<Let>()->var;
          });
    return names.empty() ? Stmt(&t) : tile(*t.op, std::move(operands), t.attrs, t.span);
  }

  // The lines of statements whose iterations run together, for the simulator's messages.
  void note_lines(const Stmt& body) {
    auto& lines = std::get<std::vector<int64_t>>(
        kernel.attrs.entries.try_emplace("parallel_lines", std::vector<int64_t>{}).first->second);
    visit(body, [&](const Store& n) { lines.push_back(n.span.line); });
  }

  Stmt run() {
    return rewrite(
        kernel.body,
        [&](const Tile& n, Rewriter& self) -> Stmt {
          if (n.body) return self(n.body);
          const TileOp& row = row_of(n);
          if (row.nest)
            return with_scratch(n.attrs, n.span,
                                [&](LowerContext& ctx) { return lower_parallel(row.nest(n, f), ctx); });
          std::vector<Stmt> out;
          Stmt named = with_named_loads(n, self, out);
          out.push_back(with_scratch(n.attrs, n.span,
                                     [&](LowerContext& ctx) { return row.lower(*named.as<Tile>(), ctx); }));
          return block(std::move(out), n.span);
        },
        [&](const For& n, Rewriter& self) -> Stmt {
          if (n.loop != Loop::parallel) return self.children(n);
          ParallelNest nest = read_nest(n);
          if (target.keeps_indices) note_lines(nest.body);
          return with_scratch(nest.attrs, n.span,
                              [&](LowerContext& ctx) { return lower_parallel(nest, ctx); });
        },
        [&](const Group& n, Rewriter& self) -> Stmt {
          Team outer = std::exchange(team, team_of(n));
          Stmt s = self.children(n);
          team = outer;
          return s;
        },
        [&](const Load& n, Rewriter& self) -> Expr {
          Claim claim;
          std::vector<Expr> at = physical(n.buffer, n.index, self, claim);
          return load(n.dtype, n.buffer, std::move(at), n.span, n.mask ? self(n.mask) : n.mask,
                      std::move(claim));
        },
        [&](const Store& n, Rewriter& self) -> Stmt {
          Claim claim;
          std::vector<Expr> at = physical(n.buffer, n.index, self, claim);
          Expr mask = n.mask ? self(n.mask) : n.mask;
          return store(n.buffer, std::move(at), self(n.value), n.span, std::move(mask), std::move(claim));
        });
  }
};

}  // namespace

Function lower_tile_ops(Function f, const Target& target) {
  for (Kernel& k : f.kernels) {
    if (target.keeps_indices) k.body = with_slices_checked(f, k, true);
    Lowerer lowerer{.f = f, .kernel = k, .target = target, .layouts = layouts_of(f)};
    k.body = lowerer.run();
  }
  return f;
}

}  // namespace tl
