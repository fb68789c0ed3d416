// canonicalize: one form for what the fronts may write in several.  First, so that no later pass sees a loop
// that does not count from 0, a parallel loop whose extent is known only at run time, or a thread index that
// is not an expression of Kernel::thread, or what depends on the width of a warp.
//
//   for i in serial(2, 8):            for i in serial(0, 8):
//     A[i] = thread_index(1)            A[i + 2] = tx // 32 % 4        with threads(32, 4)
#include <algorithm>

#include "arith/prove.h"
#include "arith/simplify.h"
#include "base/error.h"
#include "ir/depth.h"
#include "ir/rewrite.h"
#include "ops/own_copies.h"
#include "ops/parallel.h"
#include "ops/reducer.h"
#include "pass/bulk_updates.h"
#include "pass/check_convergence.h"
#include "pass/check_reach.h"
#include "pass/check_registers.h"
#include "pass/check_sizes.h"
#include "pass/check_slices.h"
#include "pass/earlier_rows.h"
#include "pass/form_teams.h"
#include "pass/name_elements.h"
#include "pass/passes.h"
#include "pass/read_first.h"
#include "pass/specialize_warps.h"
#include "pass/unused_tiles.h"
#include "pass/warp_width.h"
#include "target/effects.h"
#include "target/limits.h"
#include "target/said.h"

namespace tl {
namespace {

Expr thread_coordinate(const Kernel& k, int64_t dim) {
  int64_t below = 1;
  for (int64_t d = 0; d < dim && d < int64_t(k.threads.size()); d++) below *= k.threads[size_t(d)];
  if (dim >= int64_t(k.threads.size())) return imm(0);
  Expr e = floordiv(k.thread, below);
  return dim + 1 == int64_t(k.threads.size()) ? e : floormod(e, k.threads[size_t(dim)]);
}

// The grid's barrier counts in a workspace of its own.
Expr counter_of(Function& f, std::optional<BufferId>& counter, Span span) {
  if (!counter) {
    counter = f.add({.name = "grid_barrier", .dtype = u64, .shape = {imm(1)}, .span = span});
    f.workspaces.push_back(*counter);
  }
  return call(address_of, {load(u64, *counter, {imm(0)})}, span);
}

Expr with_coordinates(const Expr& e, const Kernel& k) {
  return rewrite(e, [&](const Call& n, Rewriter& self) -> Expr {
    auto dim = n.intrinsic == &thread_index ? as_int(n.args[0]) : std::nullopt;
    if (n.intrinsic == &thread_number) return k.thread;
    return dim && *dim >= 0 && *dim <= 2 ? thread_coordinate(k, *dim) : self.children(n);
  });
}

[[noreturn]] void fail_lacking(const Call& n, const Target& target) {
  SaidInstr row = said(*n.intrinsic);
  fail(n.span, "{} is not an instruction of {}, only of {}: {}{}compile for a chip that has it", row.name,
       target.name, chips_with(*n.intrinsic), row.instead, row.instead.empty() ? "" : "; or ");
}

// Whether the loop's body may change what its start reads: the start is what it was before the first turn.
bool changes_start(const Function& f, const For& n) {
  std::set<BufferId> written;
  for (BufferId id : written_buffers(n.body)) written.insert(f.storage(id));
  return contains(
      n.min, [&](const Load& load) { return written.contains(f.storage(load.buffer)); },
      [](const Call&) { return true; });
}

Stmt from_zero(const Function& f, const For& n, Rewriter& self) {
  Expr start = n.min;
  std::vector<Stmt> out;
  if (changes_start(f, n)) {
    start = var("start", n.min->dtype);
    out.push_back(let(start, self(n.min), n.span));
  }
  Stmt body = substitute(n.body, {{n.var.get(), binary(BinaryOp::add, n.var, start)}});
  out.push_back(for_loop(n.var, zero(n.var->dtype), self(n.extent), n.loop, self(body), n.span, n.attrs));
  return out.size() == 1 ? out[0] : block(std::move(out), n.span);
}

Stmt body_of(Function& f, const Kernel& k, const Target& target) {
  std::optional<BufferId> counter;
  return rewrite(
      k.body,
      [&](const For& n, Rewriter& self) -> Stmt {
        return is_int(n.min, 0) ? self.children(n) : from_zero(f, n, self);
      },
      [&](const Group& n, Rewriter& self) -> Stmt {  // one thread does the work of all teams
        return target.has_threads() ? self.children(n) : self(n.body);
      },
      [&](const Eval& n, Rewriter& self) -> Stmt {  // one thread has no other to wait for
        auto* c = n.value.as<Call>();
        return c && c->intrinsic == &sync_threads && !target.has_threads() ? block({}, n.span)
                                                                           : self.children(n);
      },
      [&](const Call& n, Rewriter& self) -> Expr {
        bool lacking = target.lacks(*n.intrinsic);
        if ((is_thread_level(*n.intrinsic) || lacking) && !target.has_threads())
          fail(n.span,
               "{} is thread-level code, but {} runs one thread per block: run it on a GPU target or in the "
               "simulator of one (target='sim:…'), or write it with tile operators and T.Parallel",
               n.intrinsic == &thread_number || n.intrinsic == &thread_index ? "the number of a thread"
                                                                             : said(*n.intrinsic).name,
               said(target));
        if (lacking) fail_lacking(n, target);
        int bits = n.args.empty() ? 0 : n.args[0]->dtype.bits;
        if (auto why = target.language->why_not(n.intrinsic->name, bits); !why.empty())
          fail(n.span, "{} is not for {}: {}", n.intrinsic->name, said(target), why);
        if (n.intrinsic == &thread_number) return k.thread;
        if (n.intrinsic == &sync_grid && n.args.empty())
          return call(sync_grid, {counter_of(f, counter, n.span)}, n.span);
        if (n.intrinsic == &elected)  // one thread says or does it for its block
          return target.has_threads() ? eq(k.thread, cast(i64, n.args[0])) : imm(1, boolean);
        if (n.intrinsic == &random_sequence) {
          if (!target.has_threads()) return self(n.args[0]);
          return binary(BinaryOp::add, binary(BinaryOp::mul, self(n.args[0]), imm(thread_count(k), u64)),
                        cast(u64, k.thread));
        }
        if (n.intrinsic->name == "random_state") return self(n.args[0]);  // check_divided has read it
        if (n.intrinsic != &thread_index) return self.children(n);
        auto dim = as_int(n.args[0]);
        if (!dim || *dim < 0 || *dim > 2) fail(n.span, "thread_index takes a constant dimension: 0, 1 or 2");
        return thread_coordinate(k, *dim);
      });
}

// Names of numbers computed from variables alone go into the indices where they are used: how an access moves
// along a parallel loop is then to be read off its index.
Stmt with_plain_indices(const Stmt& loop) {
  VarMap values = names_written_out(loop, [](const Let& n) {
    return n.var->dtype.is_int() && n.var->dtype.lanes == 1 &&
           !contains(n.value, [](const Load&) { return true; }, [](const Call&) { return true; });
  });
  if (values.empty()) return loop;
  Stmt named = rewrite(loop, [&](const Let& n, Rewriter& self) -> Stmt {
    return values.contains(n.var.get()) ? block({}) : self.children(n);
  });
  return substitute(named, values);
}

// Does the kernel write a tensor that it touches elsewhere, too?
bool exchanges_in_tensors(const Function& f, const Kernel& k) {
  std::map<BufferId, Span> first;
  std::set<BufferId> written, several;
  visit_effects(k.body, [&](const Stmt& s, const Effect& e) {
    BufferId b = f.storage(e.buffer);
    if (f[b].scope != Scope::global) return;
    if (first.emplace(b, s->span).first->second != s->span) several.insert(b);
    if (e.writes()) written.insert(b);
  });
  return std::ranges::any_of(written, [&](BufferId b) { return several.contains(b); });
}

// A kernel with code for single threads orders its threads' accesses to tensors itself; see insert_sync. 2:
// it has some to order.
void mark_thread_level(const Function& f, Kernel& k) {
  if (contains(k.body,
               [](const Call& n) { return is_thread_level(*n.intrinsic) && n.intrinsic != &sync_grid; }))
    k.attrs.entries["thread_level"] = int64_t(exchanges_in_tensors(f, k) ? 2 : 1);
}

// What only later chips act upon.
void accept_hints(Function& f, Kernel& k, const Target& target) {
  if (!target.lacks(*find_instr("setmaxnreg_inc"))) return;  // assign_roles does
  for (std::string_view hint : {"disable_warp_group_reg_alloc", "no_set_max_nreg"})
    if (auto it = k.attrs.entries.find(hint); it != k.attrs.entries.end()) {
      f.notes.push_back(
          {"canonicalize", k.name,
           fmt::format("{} changes nothing: {} moves no registers between warp groups", hint, said(target)),
           k.span, false});
      k.attrs.entries.erase(it);
    }
}

// Where there is no cp.async, the program's own copies land at once.
void copy_in_order(Function& f, Kernel& k, const Target& target) {
  if (target.group_row(AsyncInstr::AsyncKind::copy)) return;
  Stmt body = with_copies_in_order(f, k.body);
  visit_nodes(k.body, [&](const Node& n) {
    if (n.kind != Kind::Tile && n.kind != Kind::Eval) return;
    Stmt s(static_cast<const StmtNode*>(&n));
    auto* e = s.as<Eval>();
    auto* c = e ? e->value.as<Call>() : nullptr;
    const AsyncInstr* row = c ? async_row_of(*c->intrinsic) : nullptr;
    bool copies = row && row->does == AsyncInstr::AsyncKind::copy && row->token == Token::copies;
    if (is_async_copy(s) || copies)
      f.notes.push_back({"canonicalize", copies ? "ptx_cp_async" : "async_copy",
                         fmt::format("is synchronous here: {} has no asynchronous copies", said(target)),
                         s->span, true});
  });
  k.body = std::move(body);
}

// The largest constant that a part of a sum is multiplied with.
__int128 largest_factor(const Expr& e) {
  if (auto v = as_int(e)) return *v < 0 ? -__int128(*v) : *v;
  if (auto* n = e.as<Unary>(); n && n->op == UnaryOp::neg) return largest_factor(n->a);
  auto* n = e.as<Binary>();
  if (n && (n->op == BinaryOp::add || n->op == BinaryOp::sub))
    return std::max(largest_factor(n->a), largest_factor(n->b));
  if (!n || n->op != BinaryOp::mul || (!as_int(n->a) && !as_int(n->b))) return 1;
  return largest_factor(n->a) * largest_factor(n->b);
}

// The simplifier makes 0 of x*65536*65536 in 32 bits, which hides that it wraps from the simulator: one of
// such constants is hidden from the simplifier.
Stmt with_plain_products(const Stmt& body) {
  return rewrite(body, [](const Binary& n, Rewriter& self) -> Expr {
    DType type = n.dtype;
    bool narrow = type.is_int() && type.is_signed() && type.lanes == 1 && type.bits < 64;
    bool folds = n.op == BinaryOp::mul && narrow && as_int(n.b) && !as_int(n.a) && largest_factor(n.a) > 1 &&
                 largest_factor(Expr(&n)) >= __int128(1) << (type.bits - 1);
    if (!folds) return self.children(n);
    return binary(n.op, self(n.a), call(block_uniform, {n.b}, type, n.span), n.span);
  });
}

// Where roles divide a loop, one turn of it may run beside those of other tiles: it stays a loop until then.
Stmt with_loops_of_one_turn(const Function& f, const Kernel& k) {
  Facts facts = facts_of(f, k);
  return rewrite(k.body, [&](const For& n, Rewriter& self) -> Stmt {
    bool one = n.loop == Loop::pipelined && n.attrs.get_int("num_stages") > 1 &&
               is_int(simplify(n.extent, facts), 1) &&
               contains(n.body, [](const Tile& t) { return t.op->name == "gemm"; });
    if (!one) return self.children(n);
    Attrs attrs = n.attrs;
    attrs.entries["may_divide"] = int64_t(1);
    return for_loop(n.var, n.min, n.extent, n.loop, n.body, n.span, std::move(attrs));
  });
}

}  // namespace

Function canonicalize(Function f, const Target& target) {
  f = specialize_warps(std::move(f), target);
  f = widen_reducers(std::move(f));
  for (Kernel& k : f.kernels) {
    k.body = without_unused_tiles(f, k.body);
    copy_in_order(f, k, target);
    k.body = with_bulk_updates(f, k, target);
    k.body = with_earlier_rows(k.body, target);
    if (k.threads.empty()) k.threads = {target.default_threads};
    if (!target.has_threads()) {
      check_repeated_updates(f, k, said(target));
      k.threads = {1};
    }
    check_limits(k, target);
    check_sizes(f, k, target);
    if (target.has_threads()) check_reach(f, k, target);
    k.body = with_warp_width(k.body, target);
    if (target.keeps_indices) k.body = with_plain_products(k.body);
    if (!k.thread) k.thread = var("tx");
    if (target.has_threads()) k.body = name_elements(f, k.body);
    k.body = read_first(f, k);
    auto resolve = [&](const Expr& e) { return with_coordinates(e, k); };
    if (target.has_threads()) {
      k.body = form_teams(f, k, target, resolve);
      k.body = check_convergence(f, k, resolve);
    }
    accept_hints(f, k, target);
    if (target.has_threads()) mark_thread_level(f, k);
    k.body = rewrite(body_of(f, k, target), [&](const For& n, Rewriter& self) -> Stmt {
      if (n.loop != Loop::parallel) return self.children(n);
      return with_plain_indices(with_constant_extents(f, n, thread_count(k)));
    });
    check_registers(k, target);
    if (!target.has_threads()) k.body = with_slices_checked(f, k);
    if (!target.warpgroup.empty()) k.body = with_loops_of_one_turn(f, k);
  }
  return f;
}

}  // namespace tl
