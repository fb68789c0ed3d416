// The role that computes: the kernel's statements without the loads.  In a divided loop it waits for the
// slots of a turn, begins products and waits for them where something touches what they sum up or read, and
// gives slots back as soon as what reads them is done.
//
// Products that are begun a turn late (product_plan.cpp) stand behind the first ones of the next turn.  The
// first turn comes without them and stands in front of the loop, those of the last turn behind it: under a
// condition the device compiler would wait for every product.
//
//   for k in pipelined(n):             if n > 0:
//     copy(K[k], Ks)                     wait(full[0]); gemm(Q, Ks[0], S); wait for S
//     gemm(Q, Ks, S)                     softmax(S, P)
//     softmax(S, P)                ->    for k in serial(n - 1):
//     O = O * scale                        wait(full[k+1]); gemm(Q, Ks[k+1], S); gemm(P, Vs[k], O)
//     copy(V[k], Vs)                       wait for S; softmax(S)
//     gemm(P, Vs, O)                       wait for O; O = O * scale; …
//                                        gemm(P, Vs[n-1], O); wait for O
#include <algorithm>

#include "arith/prove.h"
#include "ir/text.h"
#include "ops/regions.h"
#include "ops/tma_boxes.h"
#include "pass/role_parts.h"
#include "pass/slots.h"
#include "pass/tile_use.h"
#include "target/effects.h"

namespace tl {
namespace {

bool is_in_ring(const RoleLoop& loop, BufferId b) {
  return std::ranges::any_of(loop.rings, [&](auto& r) { return std::ranges::count(r.tiles, b) > 0; });
}

// One turn of a loop, statement by statement.
struct Turn {
  const DividedKernel& all;
  const RoleLoop& loop;
  Expr number;  // of the turn
  std::vector<Stmt> out = {};

  // A product that has been begun: which statement of the body, and how many turns ago.
  struct Begun {
    size_t place;
    int64_t ago;
  };
  std::vector<Begun> begun = {};  // in this order
  std::vector<Stmt> beside = {};  // what threads have done since, beside the products

  const Stmt& at(size_t place) const { return loop.body[place]; }
  Span span() const { return loop.loop->span; }
  Expr number_of(int64_t ago) const { return ago ? number - ago : number; }

  Stmt with_slot(const Stmt& s, int64_t ago) const {
    Stmt made = s;
    auto& n = *loop.loop.as<For>();
    if (ago) made = substitute(made, {{n.var.get(), n.var - imm(ago, n.var->dtype)}});
    return with_slots(made, [&](BufferId b, size_t) -> Expr {
      return is_in_ring(loop, b) ? all.slot(loop, number_of(ago)) : Expr();
    });
  }

  // ── products ────────────────────────────────────────────────────────────────────────────────────────
  void begin(size_t place, int64_t ago) {
    const Stmt made = with_slot(at(place), ago);
    auto& t = *made.as<Tile>();
    auto& n = *loop.loop.as<For>();
    Attrs attrs = t.attrs;
    attrs.entries["in_flight"] = int64_t(1);
    if (all.clearing.contains(at(place).get())) attrs.entries["clear_accum"] = eq(n.var, n.min);
    wait_for_slots(place, ago);
    wait_where_touched(at(place));
    out.push_back(tile(*t.op, t.operands, std::move(attrs), t.span, t.body));
    begun.push_back({place, ago});
    beside.clear();
  }
  bool is_product(const Stmt& s) const { return loop.in_flight.contains(s.get()); }
  // May `s` only run when the product is done?
  bool meets(const Begun& b, const Stmt& s) const {
    auto& product = *at(b.place).as<Tile>();
    BufferId sums = region_of(product, 2).buffer;
    bool waits = !is_product(s) && contains(s, [](const Tile& t) { return t.op->name == "gemm"; });
    visit_effects(s, [&](const Stmt&, const Effect& e) {
      auto is = [&](BufferId b) { return all.f.storage(e.buffer) == all.f.storage(b); };
      if (is(sums)) waits |= !is_product(s) || region_of(*s.as<Tile>(), 2).buffer != sums;
      if (e.access != Access::read)
        for (size_t i : {0, 1}) waits |= is(region_of(product, i).buffer);
    });
    return waits;
  }
  void wait_where_touched(const Stmt& s) {
    size_t done = 0;
    for (size_t i = 0; i < begun.size(); i++)
      if (meets(begun[i], s)) done = i + 1;
    wait_for(done);
  }
  // For the first so many of those that are in flight.
  void wait_for(size_t done) {
    if (done == 0) return;
    keep_beside();
    out.push_back(all.wait_for_products(int64_t(begun.size() - done), span()));
    std::vector<Stmt> released;
    bool in_all_turns = true;
    for (size_t i = 0; i < done; i++) {
      in_all_turns &= begun[i].ago == 0 || !loop.late.empty();
      release(begun[i].place, begun[i].ago, released);
    }
    auto& n = *loop.loop.as<For>();
    if (in_all_turns)
      out.insert(out.end(), released.begin(), released.end());
    else if (!released.empty())  // the first turn has none before it
      out.push_back(if_then(lt(n.min, n.var), block(std::move(released), span()), {}, span()));
    begun.erase(begun.begin(), begun.begin() + std::ptrdiff_t(done));
    beside.clear();
  }
  // The device compiler moves what threads do beside products behind the wait for them, unless something in
  // front of it is stored that depends on that work.
  void keep_beside() {
    auto it = all.anchors.find(&loop);
    if (it == all.anchors.end()) return;
    for (auto& s : beside)
      if (s.same(loop.anchored)) {
        BufferId value = loop.anchor;
        out.push_back(
            make_tile(all.f, *find_op("copy"), {whole(all.f, value), whole(all.f, it->second)}, {}, s->span));
      }
  }

  // ── slots ───────────────────────────────────────────────────────────────────────────────────────────
  void wait_for_slots(size_t place, int64_t ago) {
    for (auto& ring : loop.rings)
      if (ring.first == place) out.push_back(all.wait_full(loop, ring, number_of(ago)));
  }
  // What stands at this place is done with them: whose last reader it was, is free.
  void release(size_t place, int64_t ago, std::vector<Stmt>& to) {
    for (auto& ring : loop.rings) {
      auto& readers = last_readers(ring);
      if (!std::erase(readers, place) || !readers.empty()) continue;
      to.push_back(all.arrive(all.words.at(&ring).empty, all.slot(loop, number_of(ago)), ring.read_by_threads,
                              at(place)->span));
    }
  }
  // Those that are not yet done. Where some are a turn late, the others have been done before them.
  std::vector<size_t>& last_readers(const RoleRing& ring) {
    auto [it, is_new] = left.try_emplace(&ring, ring.readers);
    auto ends_later = [&](size_t place) {
      return loop.late.empty() ? is_product(at(place)) : std::ranges::count(loop.late, place) > 0;
    };
    if (is_new && std::ranges::any_of(ring.readers, ends_later))
      std::erase_if(it->second, [&](size_t place) { return !ends_later(place); });
    return it->second;
  }
  std::map<const RoleRing*, std::vector<size_t>> left = {};  // readers of a slot that are not yet done

  // ── all of it ───────────────────────────────────────────────────────────────────────────────────────
  void begin_late() {
    for (size_t place : loop.late) begin(place, 1);
  }
  void run(bool with_late) {
    all.stamp(loop, RoleStamps::Edge::begin, out);
    bool all_stay = loop.late.empty() && !loop.in_flight.empty();
    if (all_stay)  // those of the turn before are still in flight
      for (size_t i = 0; i < loop.body.size(); i++)
        if (is_product(at(i))) begun.push_back({i, 1});
    size_t before = begun.size();
    for (size_t i = 0; i < loop.body.size(); i++) {
      if (with_late && i == loop.late_place) begin_late();
      if (std::ranges::count(loop.late, i)) continue;
      if (is_product(at(i))) {
        begin(i, 0);
        continue;
      }
      wait_where_touched(at(i));
      wait_for_slots(i, 0);
      out.push_back(with_slot(at(i), 0));
      beside.push_back(at(i));
      release(i, 0, out);
    }
    wait_for(all_stay ? before : begun.size());
    all.stamp(loop, RoleStamps::Edge::end, out);
    if (all.is_counted(&loop)) out.push_back(all.count(&loop, imm(1), span()));
  }
};

struct Computer : ScopedRewriter {
  DividedKernel& all;
  explicit Computer(DividedKernel& all) : all(all) { enter(all.f, all.k); }

  using ScopedRewriter::operator();
  Stmt at(const Stmt& s) override {
    if (auto* n = s.as<Block>()) return statements(*n);
    if (all.dropped.contains(s.get())) return block({}, s->span);
    if (const RoleLoop* loop = all.plan.find(s)) return loop->late.empty() ? turns(*loop) : shifted(*loop);
    for (auto& store : all.stores)
      if (store.copy.same(s)) return stored(store);
    return children(s);
  }
  Stmt stored(const StoreParts& store) {
    Stmt in_parts = store_in_parts(all.f, all.k, all.target, store);
    Expr inside = begins_inside(region_of(*store.copy.as<Tile>(), 1), facts);
    if (!inside) return in_parts;
    std::string text = fmt::format(
        "its parts are stored by TMA where {}, else it is stored by threads: TMA stores no "
        "box that begins below 0",
        print(inside, &all.f));
    all.f.notes.push_back({"assign_roles", "copy", std::move(text), store.copy->span});
    return where_inside(inside, in_parts, store.copy);
  }
  Stmt statements(const Block& b) {
    find_cleared(b);
    std::vector<Stmt> out;
    for (auto& s : b.stmts) {
      if (const RoleLoad* load = all.plan.find_load(s)) {
        Expr turn = all.turn(load, load->copy, context);
        out.push_back(all.wait_full(*load, turn));
        if (all.slots(*load) > 1) all.slots_beside.emplace(load->tile, all.slot(*load, turn));
        if (all.is_counted(load)) out.push_back(all.count(load, imm(1), s->span));
      } else {
        out.push_back((*this)(s));
      }
      release_loads(s, false, out);
    }
    return block(std::move(out), b.span);
  }
  // The tiles beside loops that `s` was the last to read: where that is a loop with late products, in front
  // of those that end it, unless these read the tile, too.
  void release_loads(const Stmt& s, bool before_end, std::vector<Stmt>& out) {
    const RoleLoop* loop = all.plan.find(s);
    for (auto& load : all.plan.loads) {
      if (!load.last.same(s)) continue;
      bool early = loop && !loop->late.empty() && std::ranges::none_of(loop->late, [&](size_t place) {
                     return use_of(all.f, loop->body[place], load.tile).touched;
                   });
      if (early != before_end) continue;
      auto slot = all.slots_beside.find(load.tile);
      out.push_back(all.arrive(all.words.at(&load).empty,
                               slot == all.slots_beside.end() ? imm(0) : slot->second, load.read_by_threads,
                               s->span));
    }
  }
  // Sums that are cleared in front of a loop whose first turn certainly comes: its first product may clear
  // them, which costs nothing.
  void find_cleared(const Block& b) {
    for (size_t i = 0; i < b.stmts.size(); i++) {
      auto* t = b.stmts[i].as<Tile>();
      if (!t || t->op->name != "clear" || !is_whole(region_of(*t, 0), all.f)) continue;
      BufferId sums = region_of(*t, 0).buffer;
      size_t next = i + 1;
      while (next < b.stmts.size() && !use_of(all.f, b.stmts[next], sums).touched) next++;
      const RoleLoop* loop = next < b.stmts.size() ? all.plan.find(b.stmts[next]) : nullptr;
      if (!loop || !loop->late.empty() || !has_turns(*loop)) continue;
      auto adds = [&](const Stmt& s) {
        return loop->in_flight.contains(s.get()) && region_of(*s.as<Tile>(), 2).buffer == sums;
      };
      auto first = std::ranges::find_if(loop->body, adds);
      if (first == loop->body.end() || first->as<Tile>()->attrs.find("clear_accum")) continue;
      all.clearing.insert(first->get());
      all.dropped.insert(t);
    }
  }
  bool has_turns(const RoleLoop& loop) const {
    return can_prove(le(imm(1), cast(i64, loop.loop.as<For>()->extent)), facts);
  }

  // ── products that end in their turn, or stay until those of the next one have begun ─────────────────
  Stmt turns(const RoleLoop& loop) {
    auto& n = *loop.loop.as<For>();
    std::vector<Stmt> out = loop.allocs, in_turn;
    Expr number = all.named_turn(loop, context, in_turn);
    Turn turn{.all = all, .loop = loop, .number = number, .out = std::move(in_turn)};
    turn.run(false);
    out.push_back(for_loop(n.var, n.min, n.extent, Loop::serial, block(std::move(turn.out), n.span), n.span));
    if (!loop.in_flight.empty()) drain(loop, number, out);
    return block(std::move(out), n.span);
  }
  // Behind the loop. Its last slots are given back where it may be reached again; where it had no turn, at a
  // word that nobody waits for: a condition would keep the device compiler from letting products run.
  void drain(const RoleLoop& loop, const Expr& turn, std::vector<Stmt>& out) {
    auto& n = *loop.loop.as<For>();
    out.push_back(all.wait_for_products(0, n.span));
    if (context.loops.size() < 2 && context.whiles.empty()) return;
    Expr last = all.is_counted(&loop)
                    ? cast(i64, load(i32, all.counters.at(&loop), {}, n.span)) - 1
                    : substitute(turn, {{n.var.get(), n.min + n.extent - imm(1, n.extent->dtype)}});
    Expr slot = all.slot(loop, last);
    if (!as_int(n.extent)) slot = select(lt(imm(0, n.extent->dtype), n.extent), slot, imm(loop.slots));
    for (auto& ring : loop.rings)
      out.push_back(all.arrive(all.words.at(&ring).empty, slot, ring.read_by_threads, n.span));
  }

  // ── products that are begun a turn late ─────────────────────────────────────────────────────────────
  // The statements of a part, in which the loop's variable has a value.
  template <class Write>
  std::vector<Stmt> part(const RoleLoop& loop, const Expr& value, Write write) {
    auto& n = *loop.loop.as<For>();
    std::vector<Stmt> out;
    Expr number = all.named_turn(loop, context, out);
    Turn turn{.all = all, .loop = loop, .number = number, .out = std::move(out)};
    write(turn);
    Stmt whole = block(std::move(turn.out), n.span);
    return statements_of(renamed(substitute(whole, {{n.var.get(), value}})));
  }
  Stmt shifted(const RoleLoop& loop) {
    auto& n = *loop.loop.as<For>();
    Expr one = imm(1, n.extent->dtype), later = var(n.var.as<Var>()->hint, n.var->dtype);
    std::vector<Stmt> out = loop.allocs;
    for (auto& s : part(loop, n.min, [](Turn& t) { t.run(false); })) out.push_back(s);
    std::vector<Stmt> later_turn = part(loop, n.min + later + one, [](Turn& t) { t.run(true); });
    out.push_back(for_loop(later, imm(0, n.extent->dtype), n.extent - one, Loop::serial,
                           block(std::move(later_turn), n.span), n.span));
    std::vector<Stmt> released;
    release_loads(loop.loop, true, released);
    out.insert(out.end(), released.begin(), released.end());
    for (auto& s : part(loop, n.min + n.extent, [](Turn& t) {
           t.begin_late();
           t.wait_for(t.begun.size());
         }))
      out.push_back(s);
    Stmt all_turns = block(std::move(out), n.span);
    if (has_turns(loop)) return all_turns;
    Stmt without_turns = released.empty() ? Stmt() : block(std::move(released), n.span);
    return if_then(lt(imm(0, n.extent->dtype), n.extent), all_turns, without_turns, n.span);
  }
};

}  // namespace

Stmt computing_part(DividedKernel& all) {
  Stmt part = Computer(all)(all.k.body);
  if (all.slots_beside.empty()) return part;
  return with_slots(part, [&](BufferId b, size_t) {
    auto it = all.slots_beside.find(b);
    return it == all.slots_beside.end() ? Expr() : it->second;
  });
}

}  // namespace tl
