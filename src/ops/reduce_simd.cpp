// A reduction by one thread, in vectors along the last dimension: of independent sums where that is the
// folded one, joined at the end, else of neighbouring results.
//
//   acc[0…31] = 0;  for c:  acc[v] += S[i, c*32 + v];  acc[0…15] += acc[16…31], …;  dst[i] = acc[0]
#include <algorithm>

#include "arith/prove.h"
#include "ops/reduce.h"

namespace tl {
namespace {

struct Serial {
  const Reduce& r;
  LowerContext& ctx;
  Facts facts = facts_of(ctx.function, ctx.kernel);
  int64_t last = r.shape.back(), width = 1;  // of acc: a power of two
  BufferId acc = {};
  std::vector<Expr> at_vars = {};  // of src; the last and the folded one are replaced

  Stmt vector(const Expr& v, int64_t n, Stmt body) const {
    return for_loop(v, n, Loop::vectorized, std::move(body), r.at());
  }
  Expr sum(Expr i) const { return load(r.acc, acc, {std::move(i)}); }

  // acc[from + v] takes in the `n` elements of src from `first` on.
  Stmt take(const Expr& first, int64_t from, int64_t n) {
    Expr v = facts.loop_var("v", n);
    std::vector<Expr> index = at_vars;
    index.back() = first + v;
    Expr place = physical_index(ctx.layouts, ctx.function, r.src.buffer, in_buffer(r.src, index), facts);
    Expr x = load(ctx.function, r.src.buffer, {place}, r.at());
    return vector(v, n, store(acc, {v + from}, combine(r, sum(v + from), contribution(r, x)), r.at()));
  }
  Stmt give(const std::vector<Expr>& at, const Expr& value) const {
    Expr to = physical_index(ctx.layouts, ctx.function, r.dst.buffer, in_buffer(r.dst, folded(r, at)), facts);
    return store(r.dst.buffer, {to}, result(r, load(ctx.function, r.dst.buffer, {to}), value), r.at());
  }
  Stmt start(int64_t n) {
    Expr v = facts.loop_var("v", n);
    return vector(v, n, store(acc, {v}, identity(r), r.at()));
  }
  Stmt along_last();
  Stmt beside(const Expr& first, int64_t n);
  Stmt run();
};

Stmt Serial::along_last() {
  std::vector<Stmt> out{start(width)};
  int64_t turns = last / width, done = turns * width;
  Expr c = facts.loop_var("c", turns);
  out.push_back(for_loop(c, turns, Loop::serial, take(c * width, 0, width), r.at()));
  for (int64_t n = width / 2; n; n /= 2)  // a rest in ever shorter vectors
    if ((last - done) & n) {
      out.push_back(take(imm(done), 0, n));
      done += n;
    }
  for (int64_t half = width / 2; half; half /= 2) {
    Expr v = facts.loop_var("v", half);
    out.push_back(vector(v, half, store(acc, {v}, combine(r, sum(v), sum(v + half)), r.at())));
  }
  out.push_back(give(at_vars, sum(imm(0))));
  return block(std::move(out), r.at());
}

// `n` neighbouring results.
Stmt Serial::beside(const Expr& first, int64_t n) {
  Expr k = facts.loop_var("k", r.shape[r.dim]), v = facts.loop_var("v", n);
  at_vars[r.dim] = k;
  Stmt all = for_loop(k, r.shape[r.dim], Loop::serial, take(first, 0, n), r.at());
  std::vector<Expr> index = at_vars;
  index.back() = first + v;
  return block({start(n), all, vector(v, n, give(index, sum(v)))}, r.at());
}

Stmt Serial::run() {
  for (size_t d = 0; d < r.shape.size(); d++) at_vars.push_back(facts.loop_var(loop_name(d), r.shape[d]));
  std::vector<Expr> loops = at_vars;
  while (width * 2 <= std::min<int64_t>(last, 4 * ctx.target.lanes(r.acc))) width *= 2;
  acc = ctx.scratch({.name = "acc",
                     .dtype = r.acc,
                     .shape = {imm(width)},
                     .scope = Scope::local,
                     .span = r.at(),
                     .elements = width});
  std::vector<Stmt> out;
  if (r.dim + 1 == r.shape.size()) {
    out.push_back(along_last());
  } else {
    int64_t turns = last / width, done = turns * width;
    Expr c = facts.loop_var("c", turns);
    out.push_back(for_loop(c, turns, Loop::serial, beside(c * width, width), r.at()));
    for (int64_t n = width / 2; n; n /= 2)
      if ((last - done) & n) {
        out.push_back(beside(imm(done), n));
        done += n;
      }
  }
  Stmt s = block(std::move(out), r.at());
  for (size_t d = r.shape.size() - 1; d-- > 0;)
    if (d != r.dim) s = for_loop(loops[d], r.shape[d], Loop::serial, s, r.at());
  return s;
}

}  // namespace

Stmt reduce_by_vectors(const Reduce& r, LowerContext& ctx) { return Serial{.r = r, .ctx = ctx}.run(); }

}  // namespace tl
