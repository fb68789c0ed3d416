// form_teams, a part of canonicalize: after it, the Groups around a tile operator say which threads run it.
//
//   if tx < 128:                          group(0 : +128) {barrier=1}:
//     copy(A, As)                           copy(A, As)
//   else:                          ->     group(128 : +128) {barrier=2}:
//     gemm(Bs, Cs, Cl)                      gemm(Bs, Cs, Cl)
#include "pass/form_teams.h"

#include <algorithm>

#include "arith/simplify.h"
#include "base/error.h"
#include "ir/text.h"
#include "ops/op.h"
#include "pass/own_work.h"
#include "pass/thread_values.h"
#include "target/effects.h"

namespace tl {
namespace {

std::string range_text(const Team& t) { return fmt::format("[{}, {})", t.first, t.first + t.count); }

struct Former final : Rewriter {
  const Function& f;
  const Kernel& kernel;
  const Target& target;
  const Varying& varying;
  const std::function<Expr(const Expr&)>& resolve;
  Team team = whole_block(kernel);
  VarMap names = {};  // of thread indices and what is computed from them

  Former(const Function& f, const Kernel& k, const Target& t, const Varying& v,
         const std::function<Expr(const Expr&)>& resolve)
      : f(f),
        kernel(k),
        target(t),
        varying(v),
        resolve(resolve) {}

  bool works_together(const Stmt& s) const {
    bool found = false;
    if (s)
      walk(s, {}, [&](const Stmt& x, const WalkContext&) {
        found |= is_collective(x, f, varying);
        return !found;
      });
    return found;
  }

  // Of each thread of the team whether a condition holds, where it is about nothing but the thread.
  std::optional<Lanes> holds_for(const Expr& condition) const {
    Lanes threads;
    for (int64_t i = 0; i < team.count; i++) threads.push_back(team.first + i);
    return values_of(simplify(resolve(substitute(condition, names))), {{kernel.thread.get(), threads}},
                     threads.size());
  }

  // Those for which it holds, or does not, where they are one range; with count 0 if there are none.
  std::optional<Team> range_of(const Lanes& known, bool holds) const {
    Team found{.first = team.first, .count = 0};
    for (size_t i = 0; i < known.size(); i++) {
      if ((known[i] != 0) != holds) continue;
      int64_t thread = team.first + int64_t(i);
      if (found.count == 0) found.first = thread;
      if (thread != found.first + found.count) return std::nullopt;
      found.count++;
    }
    return found;
  }

  bool is_whole_warps(const Team& t) const {
    return t.first % target.warp == 0 && t.count % target.warp == 0;
  }

  // A named barrier without a count is that of the team's threads.
  Expr operator()(const Expr& e) override {
    auto* n = e.as<Call>();
    bool named = n && is_named_barrier(*n->intrinsic);
    if (!named || team == whole_block(kernel) || as_int(n->args[1]).value_or(0) >= 0) return children(e);
    return call(*n->intrinsic, {n->args[0], imm(team.count, n->args[1]->dtype)}, n->dtype, n->span);
  }
  Stmt operator()(const Stmt& s) override {
    if (is_collective(s, f, varying)) {
      check_warps(s);
      return s;
    }
    if (auto* n = s.as<If>(); n && (works_together(n->then_body) || works_together(n->else_body)))
      if (auto made = teams_of(*n, false)) return *made;
    if (auto* n = s.as<Let>(); n && n->value->dtype.is_int())
      names.emplace(n->var.get(), substitute(n->value, names));
    if (auto* n = s.as<Group>()) return within(*n);
    if (auto* n = s.as<Block>()) return beside(*n);
    return children(s);
  }

  void check_warps(const Stmt& s) const {
    auto* t = s.as<Tile>();
    if (is_whole_warps(team) || team == whole_block(kernel) || (t && row_of(*t).by_one)) return;
    fail(s->span,
         "{} would run on the threads {}, which are not whole warps of {}: the threads of a warp move tiles "
         "together, so let the range begin and end at multiples of {}",
         t ? fmt::format("the tile operator {}", t->op->said()) : "this parallel loop", range_text(team),
         target.warp, target.warp);
  }

  // The arms of a condition on the thread as teams; nothing where it is no range.  `whole`: of whole warps
  // only.
  std::optional<Stmt> teams_of(const If& n, bool whole) {
    auto known = holds_for(n.cond);
    if (!known) return std::nullopt;
    auto yes = range_of(*known, true), no = n.else_body ? range_of(*known, false) : Team();
    if (!yes || !no) {
      if (works_together(yes ? n.else_body : n.then_body))
        fail(n.span,
             "the threads for which this condition {} do not form one range, but the tile operators under it "
             "need the threads [first, last) of a team: give each range an `if` of its own",
             yes ? "does not hold" : "holds");
      return std::nullopt;
    }
    if (whole && !(is_whole_warps(*yes) && is_whole_warps(*no))) return std::nullopt;
    std::vector<Stmt> all;
    for (auto& [range, body] : {std::pair(*yes, n.then_body), std::pair(*no, n.else_body)})
      if (range == team && body)
        all.push_back((*this)(body));
      else if (range.count && body)
        all.push_back(within(*group(range.first, range.count, body, n.span).as<Group>()));
    return block(std::move(all), n.span);
  }

  Stmt within(const Group& n) {
    int64_t first = std::max(n.first, team.first);
    int64_t last = std::min(n.first + n.count, team.first + team.count);
    if (first >= last)
      fail(n.span, "the threads {} are not among those that reach this statement, {}", range_text(team_of(n)),
           range_text(team));
    Team outer = std::exchange(team, Team{.first = first, .count = last - first});
    Stmt body = (*this)(n.body);
    team = outer;
    return group(first, last - first, body, n.span, n.max_regs, n.attrs);
  }

  // What other teams do beside a team is a team's work as well, of whichever kind it is.
  Stmt beside(const Block& b) {
    std::vector<Stmt> out;
    for (auto& s : b.stmts) out.push_back((*this)(s));
    auto may_be = [&](const Stmt& s) {
      auto* n = s.as<If>();
      auto known = n && !has_control(s) ? holds_for(n->cond) : std::nullopt;
      return s.as<Group>() || (known && range_of(*known, true));
    };
    for (size_t i = 0; i < out.size(); i++) {
      size_t end = i;
      bool has_team = false;
      for (; end < out.size() && may_be(out[end]); end++) has_team |= out[end].as<Group>() != nullptr;
      for (size_t j = i; has_team && j < end; j++)
        if (auto* n = out[j].as<If>())
          if (auto made = teams_of(*n, true)) out[j] = *made;
      i = std::max(i, end);
    }
    return block(std::move(out), b.span);
  }
};

// Every team of more than a warp gets a barrier that neither the program nor another team has.
Stmt with_barriers(const Kernel& k, const Target& target, const Stmt& body) {
  std::set<int64_t> taken{0};
  auto take = [&](const Call& n) {
    if (is_named_barrier(*n.intrinsic)) taken.insert(as_int(n.args[0]).value());  // warp_width saw to it
  };
  visit(body, take, [&](const Group& n) {
    taken.insert(n.attrs.get_int("barrier"));
    if (int64_t first = n.attrs.get_int("group_barriers"))
      for (int64_t g = 0; g < n.count / Team::group; g++) taken.insert(first + g);
  });
  std::map<std::pair<int64_t, int64_t>, int64_t> ids;
  return rewrite(body, [&](const Group& n, Rewriter& self) -> Stmt {
    Attrs attrs = n.attrs;
    bool needs = n.count > target.warp && !(n.first == 0 && n.count == thread_count(k));
    if (needs && !attrs.find("barrier")) {
      auto [it, is_new] = ids.try_emplace({n.first, n.count}, 1);
      while (is_new && taken.contains(it->second)) it->second++;
      constexpr int64_t last = 15;  // of the block's barriers
      if (it->second > last)
        fail(n.span,
             "no barrier is left for the threads [{}, {}): a block has {}, and the program and its other "
             "teams take all of them",
             n.first, n.first + n.count, last + 1);
      taken.insert(it->second);
      attrs.entries["barrier"] = it->second;
    }
    return group(n.first, n.count, self(n.body), n.span, n.max_regs, std::move(attrs));
  });
}

// Registers are their threads' own: a fragment belongs to the one team that touches it.
void check_fragments(const Function& f, const Kernel& k, const Stmt& body) {
  std::map<BufferId, std::pair<Team, Span>> owner;
  walk(body, {.team = whole_block(k)}, [&](const Stmt& s, const WalkContext& at) {
    Team here{.first = at.team.first, .count = at.team.count};
    for (auto& e : effects_of(s).list) {
      if (f[e.buffer].scope != Scope::fragment) continue;
      auto& [team, span] = owner.try_emplace(f.storage(e.buffer), here, s->span).first->second;
      if (team == here) continue;
      fail(s->span,
           "the fragment {} is used here by the threads {} and on line {} by {}, but registers belong to one "
           "team: move the value through shared memory",
           f[e.buffer].name, range_text(here), span.line, range_text(team));
    }
    return true;
  });
}

// ── barriers of the whole block inside a team ─────────────────────────────────────────────────────────
// How often a thread comes to the block's barrier in a statement; null where only a run tells.
Expr times_at_barrier(const Stmt& s) {
  if (!s) return imm(0);
  if (auto* n = s.as<If>()) {
    Expr yes = times_at_barrier(n->then_body), no = times_at_barrier(n->else_body);
    if (!yes || !no) return {};
    return equal(yes, no) ? yes : select(n->cond, yes, no);
  }
  if (auto* n = s.as<For>()) {
    Expr each = times_at_barrier(n->body);
    if (!each || uses_var(each, n->var)) return {};
    return simplify(each * cast(i64, n->extent));
  }
  bool found = effects_of(s).meets;
  Expr sum = imm(found ? 1 : 0);
  if (auto* n = s.as<While>()) {
    Expr each = times_at_barrier(n->body);
    return each && is_int(each, 0) && !found ? imm(0) : Expr();
  }
  if (auto* n = s.as<Group>()) return times_at_barrier(n->body);
  if (s.as<Block>())
    for (auto& inner : statements_of(s)) {
      Expr one = times_at_barrier(inner);
      if (!one) return {};
      sum = sum + one;
    }
  return simplify(sum);
}

std::string often(const Expr& times) {
  auto n = as_int(times);
  return !n ? print(times) + " times" : *n == 0 ? "never" : *n == 1 ? "once" : fmt::format("{} times", *n);
}

void check_section(const Kernel& k, std::span<const Stmt> groups) {
  Expr first;
  int64_t threads = 0;
  bool any = false;
  Team of_first = team_of(*groups[0].as<Group>());
  for (auto& s : groups) {
    Team team = team_of(*s.as<Group>());
    Expr times = times_at_barrier(s);
    threads += team.count;
    if (!times) return;
    any |= !is_int(times, 0);
    if (!first) first = times;
    if (!equal(simplify(times), simplify(first)))
      fail(s->span,
           "T.sync_threads() is the barrier of the whole block, but the threads {} reach it {} and the "
           "threads {} {}: let all teams reach it equally often, or use T.sync_threads(id) for the threads "
           "of one team",
           range_text(team), often(times), range_text(of_first), often(first));
  }
  if (any && threads != thread_count(k))
    fail(groups[0]->span,
         "T.sync_threads() is the barrier of the whole block of {} threads, but only {} of them reach it "
         "here: use a named barrier, T.sync_threads(id)",
         thread_count(k), threads);
}

void check_block_barriers(const Kernel& k, const Stmt& body) {
  auto check = [&](std::span<const Stmt> stmts) {
    for (size_t i = 0; i < stmts.size(); i++)
      if (size_t groups = section_length(stmts, i)) {
        check_section(k, stmts.subspan(i, groups));
        i += groups - 1;
      }
  };
  check({&body, 1});
  walk(body, {.team = whole_block(k)}, [&](const Stmt& s, const WalkContext& at) {
    if (at.team != whole_block(k)) return false;
    if (auto* n = s.as<For>()) check({&n->body, 1});
    if (auto* n = s.as<While>()) check({&n->body, 1});
    if (auto* n = s.as<If>()) check({&n->then_body, 1});
    if (auto* n = s.as<If>(); n && n->else_body) check({&n->else_body, 1});
    if (s.as<Block>()) check(statements_of(s));
    return true;
  });
}

}  // namespace

bool is_collective(const Stmt& s, const Function& f, const Varying& varying) {
  auto* loop = s.as<For>();
  auto* t = s.as<Tile>();
  bool together = (t && !t->body) || (loop && loop->loop == Loop::parallel);
  return together && !is_own_work(s, f, varying);
}

Stmt form_teams(const Function& f, const Kernel& k, const Target& target,
                const std::function<Expr(const Expr&)>& resolve) {
  Varying varying{.f = f};
  varying.find(k.body);
  Stmt body = with_barriers(k, target, Former(f, k, target, varying, resolve)(k.body));
  check_fragments(f, k, body);
  check_block_barriers(k, body);
  return body;
}

}  // namespace tl
