#include "pass/own_fences.h"

#include <algorithm>
#include <set>

#include "ir/rewrite.h"
#include "pass/block_accesses.h"
#include "pass/pending_accesses.h"
#include "pass/splice.h"

namespace tl {
namespace {

struct OwnFences {
  const Function& f;
  const Kernel& kernel;
  std::set<BufferId> by_proxy = {};
  std::set<BufferId> written = {};  // by threads, since their last fence; of these tiles
  std::set<const StmtNode*> fenced = {};

  bool is_own_affair(BufferId b) const { return b.value < kernel.attrs.get_int("own_barriers"); }

  void leaf(const Stmt& s) {
    Effects effects = effects_of(s);
    if (effects.fences) written.clear();
    for (const Effect& e : effects.list) {
      if (e.proxy != Proxy::async || e.begins == Token::none || f[e.buffer].scope != Scope::shared) continue;
      bool unfenced = std::ranges::any_of(written, [&](BufferId b) { return overlap(f, b, e.buffer); });
      if (!unfenced || is_own_affair(e.buffer)) continue;
      fenced.insert(s.get());
      written.clear();
    }
    for (const Effect& e : effects.list)
      if (e.writes() && e.proxy == Proxy::generic && !e.is_phase && by_proxy.contains(e.buffer))
        written.insert(e.buffer);
  }

  void walk_groups(std::span<const Stmt> groups) {
    std::set<BufferId> before = written, after;
    for (const Stmt& group : groups) {
      written = before;
      walk(group.as<Group>()->body);
      after.insert(written.begin(), written.end());
    }
    written = std::move(after);
  }
  void walk_block(const Block& n) {
    for (size_t i = 0; i < n.stmts.size();) {
      size_t groups = section_length(n.stmts, i);
      if (groups == 0)
        walk(n.stmts[i]);
      else
        walk_groups(std::span(n.stmts).subspan(i, groups));
      i += std::max<size_t>(1, groups);
    }
  }
  void walk_if(const If& n) {
    std::set<BufferId> before = written;
    walk(n.then_body);
    std::set<BufferId> then = std::exchange(written, std::move(before));
    walk(n.else_body);
    written.insert(then.begin(), then.end());
  }
  void walk_loop(const Stmt& body) {
    std::set<BufferId> before = written;
    for (int turn = 0; turn < 2; turn++) walk(body);  // the end of an iteration precedes its beginning
    written.insert(before.begin(), before.end());
  }
  void walk(const Stmt& s) {
    if (!s) return;
    if (auto* n = s.as<Block>()) return walk_block(*n);
    if (auto* n = s.as<If>()) return walk_if(*n);
    if (auto* n = s.as<For>()) return walk_loop(n->body);
    if (auto* n = s.as<While>()) return walk_loop(n->body);
    if (s.as<Group>()) return walk_groups({&s, 1});
    leaf(s);
  }
};

}  // namespace

Stmt with_own_fences(const Function& f, const Kernel& k) {
  OwnFences fences{.f = f, .kernel = k, .by_proxy = tiles_by_proxy(f, k)};
  if (fences.by_proxy.empty()) return k.body;
  fences.walk(k.body);
  if (fences.fenced.empty()) return k.body;
  return splice(k.body, [&](const Stmt& original, const Stmt& walked) {
    std::vector<Stmt> out;
    if (fences.fenced.contains(original.get()))
      out.push_back(eval(call(*find_instr("fence_proxy_async_shared"), {}), original->span));
    out.push_back(walked);
    return out;
  });
}

}  // namespace tl
