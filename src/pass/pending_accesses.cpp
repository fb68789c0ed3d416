#include "pass/pending_accesses.h"

#include <algorithm>

namespace tl {

void Past::add(const Past& o, int warp) {
  pending.add(o.pending, warp);
  in_groups.add(o.in_groups, warp);
  unfenced.add(o.unfenced, warp);
  for (auto& [token, begun] : o.in_flight) in_flight[token].add(begun, warp);
}

void PendingAccesses::add(const PendingAccesses& o, int warp) {
  Past::add(o, warp);
  for (auto& [key, b] : o.beside) beside[key].all.add(b.all, warp), beside[key].own.add(b.own, warp);
}

Conflict PendingAccesses::conflict(const BlockAccesses& accesses, Accesses Past::* which, const Accesses& a,
                                   const StmtNode* ring) const {
  Conflict worst = accesses.conflict(this->*which, a);
  for (auto& [key, b] : beside)
    if (key.first != ring) worst = std::max(worst, accesses.conflict(b.all.*which, a));
  return worst;
}

void PendingAccesses::note(const Accesses& a, const Team& team, int warp) {
  pending.add(a, warp);
  if (team.groups) in_groups.add(a, warp);
}

// Writes of threads, which the asynchronous proxy sees behind a fence alone.
void PendingAccesses::note_unfenced(const Accesses& a, const std::set<BufferId>& by_proxy, int warp) {
  for (auto& [buffer, touched] : a.writes)
    if (by_proxy.contains(buffer)) Accesses::add(unfenced.writes, buffer, touched, warp);
}

// What was begun counts from where it is waited for: no barrier before that has ordered it.  Where all
// threads wait for a phase, each has waited for itself; what groups complete is known to their own thread
// alone.
void PendingAccesses::follow(const StatementAccesses& a, const Team& team, bool by_some,
                             const std::set<BufferId>& by_proxy, int warp) {
  note(a.now, team, warp);
  note_unfenced(a.now, by_proxy, warp);
  for (auto& [token, begun] : a.begun) in_flight[token].add(begun, warp);
  for (const Completion& c : a.completes) {
    if (c.token != Token::phase || by_some) note(in_flight[c.token], team, warp);
    if (c.token == Token::copies) note_unfenced(in_flight[c.token], by_proxy, warp);
    if (c.token != Token::phase && c.left == 0 && !by_some) in_flight.erase(c.token);
  }
}

void PendingAccesses::meet() {
  for (auto& [key, b] : beside)
    b.all.pending = {}, b.own.pending = {}, b.all.in_groups = {}, b.own.in_groups = {};
  pending = {}, in_groups = {};
}

bool PendingAccesses::pass_barrier(bool in_groups) {
  bool fences = !unfenced.empty();
  for (auto& [key, b] : beside) {
    fences |= !b.all.unfenced.empty();
    b.all.unfenced = {}, b.own.unfenced = {};
  }
  unfenced = {};
  if (in_groups) {
    for (auto& [key, b] : beside) b.all.in_groups = {}, b.own.in_groups = {};
    this->in_groups = {};
  } else {
    meet();
  }
  return fences;
}

std::set<BufferId> tiles_by_proxy(const Function& f, const Kernel& kernel) {
  std::set<BufferId> found;
  visit_effects(kernel.body, [&](const Stmt&, const Effect& e) {
    if (e.proxy != Proxy::async || f[e.buffer].scope != Scope::shared) return;
    for (size_t i = 0; i < f.buffers.size(); i++)
      if (BufferId b{int(i)}; f[b].scope == Scope::shared && overlap(f, e.buffer, b)) found.insert(b);
  });
  return found;
}

}  // namespace tl
