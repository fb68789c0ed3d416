#include "pass/rings.h"

#include <algorithm>

#include "target/effects.h"

namespace tl {
namespace {

bool waits_and_arrives(const Stmt& s) {
  bool waits = false, arrives = false;
  visit(s, [&](const Call& c) {
    using enum AsyncInstr::AsyncKind;
    const AsyncInstr* row = async_row_of(*c.intrinsic);
    if (!row || row->token != Token::phase) return;
    waits |= row->does == test;
    arrives |= row->does == arrive || row->does == arrive_expect || row->does == signal ||
               row->does == signal_counted || row->does == remote_arrive;
  });
  return waits && arrives;
}

}  // namespace

bool is_ring(std::span<const Stmt> groups) {
  return groups.size() > 1 && std::ranges::all_of(groups, waits_and_arrives);
}

bool has_ring(const Stmt& body) {
  return contains(body, [](const Block& n) {
    for (size_t i = 0; i < n.stmts.size(); i++)
      if (is_ring(std::span(n.stmts).subspan(i, section_length(n.stmts, i)))) return true;
    return false;
  });
}

bool waits_by_state(const Stmt& body) {
  return contains(body, [](const Call& c) {
    const AsyncInstr* row = async_row_of(*c.intrinsic);
    return row && row->takes_state();
  });
}

bool is_wait_of_all(const Stmt& s, const Varying& varying) {
  auto* loop = s.as<While>();
  auto* ended = loop ? loop->cond.as<Unary>() : nullptr;
  auto* test = ended && ended->op == UnaryOp::logical_not ? ended->a.as<Call>() : nullptr;
  const AsyncInstr* row = test ? async_row_of(*test->intrinsic) : nullptr;
  if (!row || row->does != AsyncInstr::AsyncKind::test || !is_empty(loop->body)) return false;
  auto differs = [&](const Expr& e) { return varying.differs(e); };
  return std::ranges::none_of(place_of(test->args[0])->index, differs) && !differs(test->args[1]);
}

}  // namespace tl
