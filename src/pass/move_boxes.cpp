// move_boxes: on chips whose products read tiles as the tensor memory accelerator (TMA) lays them, a copy of
// a tile between a tensor and shared memory is its work, where that is certain to be right: one thread begins
// it, and all wait at once.  Copies that follow each other are begun together.  Nothing is done behind the
// back of a program that has teams of its own, nor to copies that run ahead in a pipelined loop.
//
//   copy(A[i, k], As)         tma_load(A[i, k], As, landed[0])
//   copy(B[k, j], Bs)         tma_load(B[k, j], Bs, landed[0])
//                        ->   if tx % 32 == 0:
//                               mbarrier_arrive(address_of(landed[0]))
//                             while !mbarrier_try_wait(address_of(landed[0]), k % 2):
//
// A barrier in memory for each such place: the number of times that the place was reached before says which
// of its phases the copies end. It follows from the loops around, or is counted in a variable of each thread.
// Each warp arrives, so that none is still waiting for a phase when the next one ends.
//
// Behind pipeline_loops, which says what runs ahead; before layouts, since boxes fill a few of them only.
#include <algorithm>

#include "base/product.h"
#include "ir/text.h"
#include "layout/layout.h"
#include "ops/op.h"
#include "ops/tma_boxes.h"
#include "pass/barrier_words.h"
#include "pass/box_uses.h"
#include "pass/passes.h"
#include "pass/turns.h"
#include "target/effects.h"

namespace tl {
namespace {

constexpr int64_t access_bytes = 16;  // of one thread

// What all of a kernel says of its tiles and tensors.
struct KernelUses {
  std::map<BufferId, std::string> for_threads = {};  // tiles
  std::map<BufferId, int> accesses = {};             // of tensors, by their storage
  std::set<BufferId> written = {};                   // tensors
  bool jumps = false;
};

KernelUses uses_of(const Function& f, const Kernel& k) {
  KernelUses uses{.for_threads = tiles_for_threads(f, k), .jumps = has_jumps(k.body)};
  visit_effects(k.body, [&](const Stmt&, const Effect& e) {
    if (f[e.buffer].scope != Scope::global) return;
    uses.accesses[f.storage(e.buffer)]++;
    if (e.access != Access::read) uses.written.insert(f.storage(e.buffer));
  });
  return uses;
}

struct BoxMover : ScopedRewriter {
  Function& f;
  const Kernel& k;
  const Target& target;
  const KernelUses uses = uses_of(f, k);
  BufferId words = {};
  int64_t places = 0;                   // that wait, each by a word of its own
  std::vector<BufferId> counters = {};  // of those whose number does not follow from the loops

  BoxMover(Function& f, const Kernel& k, const Target& target) : f(f), k(k), target(target) { enter(f, k); }

  // ── which copies ────────────────────────────────────────────────────────────────────────────────────
  bool is_load(const Tile& t) const { return f[region_of(t, 0).buffer].scope == Scope::global; }
  const Region& tensor_side(const Tile& t) const { return region_of(t, is_load(t) ? 0 : 1); }
  const Region& tile_side(const Tile& t) const { return region_of(t, is_load(t) ? 1 : 0); }
  // A copy between a tensor and a tile, by all threads.
  bool is_candidate(const Stmt& s) const {
    auto* t = s.as<Tile>();
    if (!t || t->op->name != "copy" || t->attrs.find("engine") || t->attrs.find("own")) return false;
    Scope from = f[region_of(*t, 0).buffer].scope, to = f[region_of(*t, 1).buffer].scope;
    bool moves =
        (from == Scope::global && to == Scope::shared) || (from == Scope::shared && to == Scope::global);
    return moves && context.team.count == thread_count(k);
  }
  std::string why_by_threads(const Tile& t) const {
    const Region &tensor = tensor_side(t), &tile = tile_side(t);
    BufferId storage = f.storage(tensor.buffer);
    for (auto attr : {"loop_layout", "coalesced_width"})
      if (t.attrs.find(attr)) return fmt::format("{} says which threads do it", attr);
    if (k.attrs.find("alignment")) return "addresses are not known to be multiples of 16 bytes";
    if (is_load(t) &&
        (uses.written.contains(storage) || (!uses.written.empty() && may_alias(k, tensor.buffer))))
      return fmt::format("the kernel writes to {}", f[tensor.buffer].name);
    if (!is_load(t) && (uses.accesses.at(storage) > 1 || may_alias(k, tensor.buffer)))
      return fmt::format("the kernel uses {} elsewhere", f[tensor.buffer].name);
    auto it = uses.for_threads.find(f.storage(tile.buffer));
    return it == uses.for_threads.end() ? "" : it->second;
  }
  bool is_small(const Tile& t) const {
    return product(region_shape(tile_side(t))) * f[tile_side(t).buffer].dtype.bits / 8 <=
           access_bytes * thread_count(k);
  }
  // By the accelerator, with this barrier; null where threads do it.
  Stmt boxes(const Stmt& s, const Region* barrier) {
    auto& t = *s.as<Tile>();
    if (t.attrs.find("disable_tma") || is_small(t)) return {};
    std::string why = why_by_threads(t);
    Stmt made;
    if (why.empty()) {
      std::vector<Operand> operands = t.operands;
      if (is_load(t)) operands.push_back(*barrier);
      made = tma_copy_of(f, k, target, operands, t.span, why);
    }
    if (why.empty()) return made;
    f.notes.push_back({"move_boxes", "copy", fmt::format("by threads, not by TMA: {}", why), t.span, true});
    return {};
  }

  // The store, and a wait. The chip stores no box that begins below 0: there threads do it.
  Stmt stored(const Stmt& copy, const Stmt& by_boxes) {
    // Another turn may write the same elements again: then these have to be there.
    bool once = context.loops.empty() && context.whiles.empty();
    Stmt wait = instruction(once ? "cp_async_bulk_wait_group_read" : "cp_async_bulk_wait_group",
                            {imm(0, i32)}, copy->span);
    Stmt both = block({by_boxes, wait}, copy->span);
    Expr inside = begins_inside(tensor_side(*copy.as<Tile>()), facts);
    if (!inside) return both;
    std::string text = fmt::format("by TMA where {}, else by threads: it stores no box that begins below 0",
                                   print(inside, &f));
    f.notes.push_back({"move_boxes", "copy", std::move(text), copy->span});
    return where_inside(inside, both, copy);
  }

  // ── waiting ─────────────────────────────────────────────────────────────────────────────────────────
  Stmt instruction(std::string_view name, std::vector<Expr> args, Span span) const {
    return eval(call(*find_instr(name), std::move(args), span), span);
  }
  Region word_region() {
    if (!words) words = add_barrier_words(f, "landed", 1, k.body->span);
    f[words].shape = {imm(places + 1)};
    return {words, {{.min = imm(places), .extent = imm(1), .point = true}}};
  }
  void wait(Span span, std::vector<Stmt>& out) {
    Expr word = address(load(u64, words, {imm(places)}, span), "", span),
         number = uses.jumps ? Expr() : turn_of(context);
    Expr first = eq(floormod(k.thread, int64_t(target.warp)), imm(0));
    out.push_back(if_then(first, instruction("mbarrier_arrive", {word}, span), {}, span));
    BufferId counter;
    if (!number) {
      counter = f.add({.name = fmt::format("landed_{}_times", places),
                       .dtype = i32,
                       .scope = Scope::local,
                       .span = span});
      counters.push_back(counter);
      number = load(i32, counter, {}, span);
    }
    Expr phase = cast(i32, floormod(number, imm(2, number->dtype)));
    Expr ended = call(*find_instr("mbarrier_try_wait"), {word, phase}, span);
    out.push_back(while_loop(unary(UnaryOp::logical_not, ended), block({}, span), span));
    if (counter)
      out.push_back(store(counter, {}, binary(BinaryOp::add, load(i32, counter, {}), imm(1, i32)), span));
    places++;
  }

  // ── statements ──────────────────────────────────────────────────────────────────────────────────────
  // Of the statements from `at` on, the loads that may be begun together.
  std::vector<Stmt> loads_from(const std::vector<Stmt>& stmts, size_t& at) {
    std::vector<Stmt> made;
    std::set<BufferId> tiles;
    Region word = word_region();
    for (; at < stmts.size() && is_candidate(stmts[at]); at++) {
      auto& t = *stmts[at].as<Tile>();
      if (!is_load(t) || !tiles.insert(f.storage(tile_side(t).buffer)).second) break;
      Stmt by_boxes = boxes(stmts[at], &word);
      if (!by_boxes) break;
      made.push_back(by_boxes);
    }
    return made;
  }
  std::vector<Stmt> moved(const std::vector<Stmt>& stmts) {
    std::vector<Stmt> out;
    for (size_t i = 0; i < stmts.size();) {
      const Stmt& s = stmts[i];
      bool load = is_candidate(s) && is_load(*s.as<Tile>());
      std::vector<Stmt> loads = load ? loads_from(stmts, i) : std::vector<Stmt>{};
      if (!loads.empty()) {
        out.insert(out.end(), loads.begin(), loads.end());
        wait(loads.front()->span, out);
        continue;
      }
      i++;
      Stmt by_boxes = is_candidate(s) && !load ? boxes(s, nullptr) : Stmt();
      out.push_back(by_boxes ? stored(s, by_boxes) : is_candidate(s) ? s : (*this)(s));
    }
    return out;
  }
  using ScopedRewriter::operator();
  Stmt at(const Stmt& s) override {
    if (auto* n = s.as<Block>()) return block(moved(n->stmts), n->span);
    return is_candidate(s) ? block(moved({s}), s->span) : children(s);
  }

  Stmt run() {
    Stmt body = (*this)(k.body);
    std::vector<Stmt> out;
    if (places) {
      f[words].shape = {imm(places)};
      f[words].layout = row_major({places}).map();
      std::vector<int64_t> warps(size_t(places), (thread_count(k) + target.warp - 1) / target.warp);
      out = initialised(f, {{words, warps}}, k.body->span, eq(k.thread, imm(0)));
    }
    for (BufferId counter : counters) {
      out.push_back(alloc(counter, k.body->span));
      out.push_back(store(counter, {}, imm(0, i32), k.body->span));
    }
    std::vector<Stmt> rest = statements_of(body);
    out.insert(out.end(), rest.begin(), rest.end());
    return block(std::move(out), k.body->span);
  }
};

}  // namespace

Function move_boxes(Function f, const Target& target) {
  if (target.warpgroup.empty()) return f;
  for (Kernel& k : f.kernels) {
    if (k.attrs.find("own_barriers")) continue;  // so are those around its copies
    Stmt body = BoxMover(f, k, target).run();
    k.body = body;
  }
  return f;
}

}  // namespace tl
