#include "pass/role_stamps.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "ir/build.h"
#include "target/instr.h"
#include "target/target.h"

namespace tl {
namespace {

// The next word in blocks that have no row: so far behind the row that no count reaches it.
constexpr int64_t nowhere = int64_t(1) << 30;

// The number of a block in its grid, and how many there are.
Expr number_of_block(const Kernel& k) {
  Expr number = imm(0);
  for (size_t d = k.grid.size(); d-- > 0;) number = number * cast(i64, k.grid[d]) + cast(i64, k.grid_vars[d]);
  return number;
}
Expr count_of_blocks(const Kernel& k) {
  Expr count = imm(1);
  for (auto& extent : k.grid) count = count * cast(i64, extent);
  return count;
}

// The last parameter; text may ask for a timeline without having one.
BufferId record_of(const Function& f, const Kernel& k) {
  using namespace role_record;
  BufferId last = f.params.empty() ? BufferId() : f.params.back().buffer;
  const std::vector<int64_t> wanted{int64_t(f.kernels.size()), blocks, roles, words};
  bool fits = last && f[last].dtype == i64 && f[last].shape.size() == wanted.size();
  for (size_t d = 0; d < wanted.size() && fits; d++) fits = is_int(f[last].shape[d], wanted[d]);
  if (!fits)
    fail(k.span, "a kernel with the attribute {} needs a record as its function's last parameter: i64[{}]",
         called, fmt::join(wanted, ", "));
  return last;
}

Expr clock(Span span) { return cast(i64, call(*find_instr("clock64"), {}, span)); }

}  // namespace

Function with_timeline(Function f) {
  using namespace role_record;
  std::string free(called);
  while (std::ranges::any_of(f.params, [&](auto& p) { return p.name == free; })) free += "_";
  BufferId record = f.add({.name = free,
                           .dtype = i64,
                           .shape = {imm(int64_t(f.kernels.size())), imm(blocks), imm(roles), imm(words)},
                           .span = f.span});
  f.params.push_back({.name = free, .buffer = record});
  for (Kernel& k : f.kernels) k.attrs.entries[std::string(called)] = int64_t(1);
  return f;
}

bool wants_timeline(const Kernel& k) { return k.attrs.get_int(role_record::called) != 0; }

RoleStamps::RoleStamps(Function& f, size_t kernel, std::vector<Stmt>& out)
    : f(f),
      k(f.kernels[kernel]),
      number(int64_t(kernel)),
      record(record_of(f, f.kernels[kernel])),
      block(var("recorded")) {
  Span span = k.body->span;
  next = f.add({.name = "next_stamp", .dtype = u32, .scope = Scope::local, .span = span});
  out.push_back(let(block, min(number_of_block(k), imm(role_record::blocks - 1)), span));
  out.push_back(alloc(next, span));
}

// All at one place: a tensor that is written at several ones may be exchanged, and gets barriers between
// them.
Stmt RoleStamps::write(const Expr& word, const Expr& value) const {
  return store(record, {imm(number), block, imm(role), word}, value, f[record].span);
}

Stmt RoleStamps::if_written(const Expr& fits, std::vector<Stmt> stmts, Span span) const {
  return if_then(binary(BinaryOp::logical_and, writer, fits), tl::block(std::move(stmts), span), {}, span);
}

Stmt RoleStamps::stamp(const std::string& interval, Edge edge, Span span) {
  using namespace role_record;
  auto it = std::ranges::find(intervals, interval);
  int64_t code = 2 * (it - intervals.begin()) + (edge == Edge::end);
  if (it == intervals.end()) intervals.push_back(interval);
  internal_check(code < int64_t(1) << stamp_bits, "so many intervals of a role");
  Expr word = var("word");
  Expr stamp = binary(BinaryOp::bit_or, binary(BinaryOp::shl, clock(span), imm(stamp_bits)), imm(code));
  return tl::block({let(word, cast(i64, next_word(span)), span),
                    if_written(lt(word, imm(words)), {write(word, stamp)}, span),
                    store(next, {}, next_word(span) + imm(1, u32), span)},
                   span);
}

Stmt RoleStamps::around(const std::string& interval, const Stmt& s) {
  return tl::block({stamp(interval, Edge::begin, s->span), s, stamp(interval, Edge::end, s->span)}, s->span);
}

Stmt RoleStamps::whole_role(const Stmt& s) const {
  using namespace role_record;
  Span span = s->span;
  Expr keeps = lt(number_of_block(k), imm(blocks)), count = cast(i64, next_word(span)) - imm(head);
  return tl::block({store(next, {}, select(keeps, imm(head, u32), imm(nowhere, u32)), span),
                    if_written(keeps, {write(imm(1), count_of_blocks(k)), write(imm(2), clock(span))}, span),
                    s, if_written(keeps, {write(imm(3), clock(span)), write(imm(0), count)}, span)},
                   span);
}

void RoleStamps::describe() const {
  k.attrs.entries[std::string(role_record::called)] = fmt::format("{}", fmt::join(intervals, ";"));
}

}  // namespace tl
