// T.async_copy needs elements that lie together in the tensor and in the tile; T.ptx_cp_async needs addresses
// that are multiples of its bytes.  Only what is certain is an error: what only the call tells is looked at
// by begin_copies and by the simulator.
#include "pass/check_own_copies.h"

#include "arith/prove.h"
#include "base/error.h"
#include "ops/mapping.h"
#include "ops/own_copies.h"
#include "pass/schedule.h"
#include "pass/tile_use.h"
#include "target/effects.h"

namespace tl {
namespace {

// Of a buffer that lies row by row.
Expr row_major(const BufferInfo& info, const std::vector<Expr>& index) {
  Expr at = imm(0);
  for (size_t d = 0; d < index.size(); d++) at = at * cast(i64, info.shape[d]) + cast(i64, index[d]);
  return at;
}

struct CopyChecker {
  const Function& f;
  const Kernel& kernel;
  const Target& target;
  Facts facts = facts_of(f, kernel);

  void check_tile(const Tile& t, Team team) const {
    ParallelNest nest = *nest_of(Stmt(&t), f);
    LayoutDecisions none;
    std::string why = why_not_async(nest, {f, kernel, target, team, none});
    if (!why.empty())
      fail(t.span, "async_copy: cp.async cannot carry it, as {}; T.copy can, through registers", why);
  }

  // Of a thread whose address is certainly no multiple: which, and by how many elements; of all of them: -1.
  std::optional<std::pair<int64_t, int64_t>> misaligned(const Expr& offset, int64_t elements) const {
    auto rest = [&](const Expr& e) { return as_int(simplify(floormod(e, elements), facts)); };
    if (auto n = rest(offset)) return *n ? std::optional(std::pair(int64_t(-1), *n)) : std::nullopt;
    for (int64_t t = 1; t < std::min<int64_t>(32, thread_count(kernel)); t++)
      if (auto n = rest(substitute(offset, {{kernel.thread.get(), imm(t, kernel.thread->dtype)}})); n && *n)
        return std::pair(t, *n);
    return std::nullopt;
  }

  void check_call(const Call& c, const std::vector<const Let*>& names, Span span) const {
    const AsyncInstr* row = async_row_of(*c.intrinsic);
    if (!row || row->does != AsyncInstr::AsyncKind::copy || row->token != Token::copies) return;
    VarMap values;
    for (auto* n : names) values.insert_or_assign(n->var.get(), substitute(n->value, values));
    for (size_t i : {0, 1}) {
      const Load* place = place_of(c.args[i]);
      if (!place) return;
      const BufferInfo& info = f[place->buffer];
      bool in_rows = info.scope == Scope::shared && !info.alias_of;  // an address was taken of it
      if (place->index.size() != info.shape.size() || (!in_rows && info.scope != Scope::global)) continue;
      int64_t elements = row->bytes * 8 / info.dtype.bits;
      if (elements < 2) continue;
      Expr offset = info.strides.empty() && !info.layout ? row_major(info, place->index)
                                                         : tensor_offset(info, place->index);
      if (auto found = misaligned(substitute(offset, values), elements))
        fail(span,
             "ptx_cp_async: {} bytes are copied at addresses that are multiples of {}, but {} begins {} "
             "elements of {} behind one{}; copy fewer elements at a time, or begin elsewhere",
             row->bytes, row->bytes, i ? "what is read" : "what is written", found->second, info.name,
             found->first < 0 ? "" : fmt::format(" in thread {}", found->first));
    }
  }
};

}  // namespace

void check_own_copies(const Function& f, const Kernel& k, const Target& target) {
  CopyChecker checker{f, k, target};
  bool known = !k.attrs.find("alignment");  // else any address may come
  if (!target.group_row(AsyncInstr::AsyncKind::copy)) return;
  walk(k.body, {.team = whole_block(k)}, [&](const Stmt& s, const WalkContext& at) {
    if (is_async_copy(s) && known) checker.check_tile(*s.as<Tile>(), at.team);
    if (auto* n = s.as<Eval>())
      if (auto* c = n->value.as<Call>()) checker.check_call(*c, at.lets, n->span);
    return true;
  });
}

}  // namespace tl
