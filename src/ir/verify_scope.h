// The definitions that `verify` has in scope at a point of a function, and its checks of expressions there.
#pragma once
#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "ir/legality.h"

namespace tl {

struct VerifyScope {
  const Function& f;
  Level level;
  Span span = {};  // of the innermost statement or expression that has one
  std::optional<Team> team = {};
  std::vector<Loop> loops = {};            // around the statement, innermost last; a while counts as serial
  const ExprNode* statement = nullptr;     // the expression that is a statement of its own
  std::vector<const ExprNode*> vars = {};  // in scope, innermost last
  std::unordered_set<const ExprNode*> visible = {};
  std::vector<int> allocated = {};
  std::map<int, std::optional<Team>> owner = {};  // of a fragment: the team that touched it first

  uint8_t bit() const { return uint8_t(1 << int(level)); }
  template <class... A>
  [[noreturn]] void bad(fmt::format_string<A...> format, A&&... args) const {
    throw Violation{span, fmt::format(format, std::forward<A>(args)...)};
  }
  void require(bool ok, std::string_view text) const {
    if (!ok) bad("{}", text);
  }
  void legal(Kind kind) const {
    for (auto& row : kind_rows)
      if (row.kind == kind && !(row.levels & bit()))
        bad("at level {} there are no {}", to_string(level), row.what);
  }
  struct Here {  // the node's place, as long as it is looked at
    VerifyScope& scope;
    Span outer;
    Here(VerifyScope& scope, const Span& s) : scope(scope), outer(scope.span) {
      if (s) scope.span = s;
    }
    ~Here() {
      if (!std::uncaught_exceptions()) scope.span = outer;
    }
  };

  void define(const Expr& v) {
    require(v.as<Var>() != nullptr, "what is defined here is not a variable");
    if (!visible.insert(v.get()).second) bad("the variable {} is defined twice", v.as<Var>()->hint);
    vars.push_back(v.get());
  }
  struct Inside {  // a scope: what is defined in it ends with it
    VerifyScope& scope;
    size_t vars, buffers;
    explicit Inside(VerifyScope& scope)
        : scope(scope),
          vars(scope.vars.size()),
          buffers(scope.allocated.size()) {}
    ~Inside() {
      for (size_t i = vars; i < scope.vars.size(); i++) scope.visible.erase(scope.vars[i]);
      scope.vars.resize(vars);
      scope.allocated.resize(buffers);
    }
  };
  const BufferInfo& info(BufferId id) const {
    if (!id || size_t(id.value) >= f.buffers.size()) bad("there is no buffer {}", id.value);
    return f[id];
  }
  const BufferInfo& allocated_here(BufferId id) const {
    const BufferInfo& b = info(id);
    if (std::ranges::find(allocated, id.value) == allocated.end())
      bad("the buffer {} is used where it is not allocated", b.name);
    return b;
  }
  void touch(BufferId id) {
    const BufferInfo& b = allocated_here(id);
    if (b.scope != Scope::fragment) return;
    auto [it, first] = owner.emplace(id.value, team);
    if (it->second != team)
      bad("the fragment {} is used by two groups of threads, but a fragment belongs to one: move the value "
          "through shared memory",
          b.name);
  }
};

void verify_expr(VerifyScope& s, const Expr& e);
void verify_value(VerifyScope& s, const Expr& e);  // neither an address nor a call without a result
void verify_integer(VerifyScope& s, const Expr& e, std::string_view what);
void verify_boolean(VerifyScope& s, const Expr& e, int lanes, std::string_view what);
// At level tile an index that is added to others, of the tile or of its strides, which are i64.
void verify_width(const VerifyScope& s, const Expr& index, const std::string& buffer);
// The indices of a Load or Store; returns the lanes they select.
int verify_access(VerifyScope& s, BufferId id, const std::vector<Expr>& index);

}  // namespace tl
