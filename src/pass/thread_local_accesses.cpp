// By enumeration of the threads: an index that depends on the thread alone has a number in each.
#include "pass/thread_local_accesses.h"

#include <algorithm>

#include "arith/simplify.h"
#include "ir/build.h"
#include "ops/op.h"

namespace tl {
namespace {

// Nothing but constants and this variable.
bool depends_only_on(const Expr& e, const Expr& thread) {
  return !contains(
      e, [](const Load&) { return true; }, [](const Call&) { return true; },
      [&](const Var& n) { return &n != thread.get(); });
}

}  // namespace

ThreadLocalAccesses::ThreadLocalAccesses(const Function& f, const Kernel& k) : kernel(k), varying{.f = f} {
  if (kernel.thread) varying.vars.emplace(kernel.thread.get(), "the thread's number in its block");
  varying.find(kernel.body);
  if (!kernel.thread) return;
  visit(kernel.body, [&](const Let& n) {  // in the order of the text, so that earlier ones are there
    Expr value = substitute(n.value, values);
    if (depends_only_on(value, kernel.thread)) values[n.var.get()] = value;
  });
}

bool ThreadLocalAccesses::differ(const std::vector<Expr>& index) const {
  return std::ranges::any_of(index, [&](const Expr& e) { return varying.differs(e); });
}

std::string ThreadLocalAccesses::own_numbers(BufferId b) const {
  auto it = varying.buffers.find(b);
  return it == varying.buffers.end() ? "" : it->second;
}

std::vector<std::vector<int64_t>> ThreadLocalAccesses::named(const std::vector<int64_t>& shape,
                                                             const std::vector<Expr>& index,
                                                             const Team& team) const {
  std::vector<Expr> resolved;
  for (auto& e : index) resolved.push_back(substitute(e, values));
  for (auto& e : resolved)
    if (!kernel.thread || !depends_only_on(e, kernel.thread)) return {};
  std::vector<std::vector<int64_t>> all;
  for (int64_t t = team.first; t < team.first + team.count; t++) {
    auto& here = all.emplace_back();
    for (size_t d = 0; d < resolved.size(); d++) {
      auto at =
          as_int(simplify(substitute(resolved[d], {{kernel.thread.get(), imm(t, kernel.thread->dtype)}})));
      if (!at || *at < 0 || *at >= shape[d]) return {};
      here.push_back(*at);
    }
  }
  return all;
}

bool ThreadLocalAccesses::cover(const std::vector<int64_t>& shape, const std::vector<Expr>& index,
                                const Team& team) const {
  auto elements = named(shape, index, team);
  return int64_t(std::set<std::vector<int64_t>>(elements.begin(), elements.end()).size()) == product(shape);
}

bool ThreadLocalAccesses::are_own(const Fragment& fragment, const std::vector<Expr>& index, bool is_store,
                                  const Team& team) const {
  if (!differ(index)) return false;
  auto elements = named(fragment.shape(), index, team);
  if (elements.empty()) return false;
  for (int64_t t = 0; t < team.count; t++) {
    bool mine = false;
    for (auto& [holder, reg] : holders(fragment, elements[size_t(t)])) {
      mine |= holder == t;
      if (is_store && holder < team.count && elements[size_t(holder)] != elements[size_t(t)]) return false;
    }
    if (!mine) return false;
  }
  return true;
}

}  // namespace tl
