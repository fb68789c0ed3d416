#include "pass/signal_fences.h"

#include "ir/rewrite.h"
#include "pass/varying.h"

namespace tl {
namespace {

bool is_arrival(const Call& call) {
  using enum AsyncInstr::AsyncKind;
  const AsyncInstr* row = async_row_of(*call.intrinsic);
  return is_named_barrier(*call.intrinsic) ||
         (row && (row->does == arrive || row->does == arrive_expect || row->does == remote_arrive));
}

bool arrives(const Stmt& s) {
  return contains(s, [](const Call& c) { return is_arrival(c); });
}

bool has_groups(const Stmt& s) {
  return contains(s, [](const Group&) { return true; });
}

struct FenceFinder {
  const Function& f;
  const Kernel& kernel;
  BlockAccesses accesses;
  SignalFences found = {};
  Team team = whole_block(kernel);  // whose statements are being walked
  Accesses beside = {};             // what other teams' products and copies of boxes do
  Accesses unfenced = {};           // what this team's threads have written since their last fence
  Stmt behind = {};                 // what follows the last of these, before threads meet or arrive

  Accesses by_proxy(const StatementAccesses& a) const {
    Accesses out;
    for (auto& [token, begun] : a.begun)
      if (token != Token::copies) out.add(begun, accesses.warp);
    return out;
  }
  Accesses by_threads(const StatementAccesses& a) const {
    Accesses out;
    auto add = [&](const std::map<BufferId, Footprint>& writes) {
      for (auto& [b, touched] : writes)
        if (f[b].scope == Scope::shared) Accesses::add(out.writes, b, touched, accesses.warp);
    };
    add(a.now.writes);
    auto copies = a.begun.find(Token::copies);
    if (copies != a.begun.end()) add(copies->second.writes);
    return out;
  }
  bool meets(const Accesses& written) const { return accesses.conflict(written, beside) != Conflict::none; }

  // Whose memory the other teams' proxy touches.
  std::string tiles() const {
    std::string names;
    for (auto& [b, footprint] : unfenced.writes)
      if (meets({.reads = {}, .writes = {{b, footprint}}})) names += (names.empty() ? "" : ", ") + f[b].name;
    return names;
  }
  void put_fence(const Stmt& s) {
    if (!meets(unfenced)) return;
    if (found.before.insert(behind.get()).second)
      found.notes.push_back(
          {"insert_sync", "fence_proxy_async",
           fmt::format("a fence stands in front of this arrival: threads have written {}, which products or "
                       "copies by TMA of another team touch (T.fence_proxy_async())",
                       tiles()),
           s->span});
    unfenced = {};
  }

  // Its statements one by one, where it may itself write and then arrive.
  void walk_inside(const Stmt& s) {
    Accesses before = unfenced, arms;
    if (auto* n = s.as<Block>()) return walk_all(n->stmts);
    if (auto* n = s.as<If>()) {
      walk(n->then_body);
      arms = std::exchange(unfenced, before);
      if (n->else_body) walk(n->else_body);
      unfenced.add(arms, accesses.warp);
      return;
    }
    const Stmt& body = s.as<For>() ? s.as<For>()->body : s.as<While>()->body;
    for (int turn = 0; turn < 2; turn++) walk(body);  // the end of an iteration precedes its beginning
    unfenced.add(before, accesses.warp);
  }
  void walk(const Stmt& s) {
    if (!behind) behind = s;
    const StatementAccesses& a = accesses.of(s, team);
    bool leaf = !s.as<Block>() && !s.as<For>() && !s.as<While>() && !s.as<If>() && !s.as<Group>();
    bool mixed = !leaf && (has_groups(s) || (arrives(s) && (s.as<Block>() || meets(by_threads(a)))));
    if (s.as<Group>()) return walk_section({&s, 1});
    if (mixed || (!leaf && a.fences)) return walk_inside(s);
    if (arrives(s)) put_fence(s);
    if (a.fences) unfenced = {};
    Accesses written = by_threads(a);
    if (meets(written)) behind = {};
    unfenced.add(written, accesses.warp);
  }

  void walk_all(std::span<const Stmt> stmts) {
    std::vector<Stmt> all(stmts.begin(), stmts.end());
    for (size_t i = 0; i < all.size();) {
      size_t groups = section_length(all, i);
      if (groups == 0)
        walk(all[i]);
      else
        walk_section(std::span(all).subspan(i, groups));
      i += std::max<size_t>(1, groups);
    }
  }
  void walk_section(std::span<const Stmt> groups) {
    auto outside = std::tuple(team, beside, unfenced, behind);
    for (auto& group : groups) {
      Accesses others = std::get<1>(outside);
      for (auto& other : groups)
        if (!other.same(group)) others.add(by_proxy(accesses.of(other, std::get<0>(outside))), accesses.warp);
      beside = std::move(others), unfenced = {}, behind = {}, team = team_of(*group.as<Group>());
      walk(group.as<Group>()->body);
    }
    std::tie(team, beside, unfenced, behind) = std::move(outside);
  }
};

}  // namespace

SignalFences fences_of_signals(const Function& f, const Kernel& k, int warp) {
  if (!arrives(k.body) || !has_groups(k.body)) return {};
  FenceFinder finder{.f = f, .kernel = k, .accesses = {f, k, warp}};
  finder.accesses.find();
  finder.walk(k.body);
  return std::move(finder.found);
}

}  // namespace tl
