#include "pass/check_slices.h"

#include "base/error.h"
#include "ir/text.h"
#include "ops/op.h"
#include "pass/walk.h"

namespace tl {
namespace {

struct SliceChecker final : ScopedRewriter {
  const Function& f;
  bool unclaimed;
  SliceChecker(const Function& f, bool unclaimed) : f(f), unclaimed(unclaimed) {}
  using ScopedRewriter::operator();

  void check(const Region& r, size_t d, Span span, std::vector<Stmt>& out) const {
    const Range& range = r.ranges[d];
    const BufferInfo& info = f[r.buffer];
    auto size = as_int(info.shape[d]);
    Expr first = cast(i64, range.min), inside;
    if (!size || !range.extent) return;
    // The end of one that a call places at the ends of the integers would wrap.
    for (Expr bound : {le(imm(0), first), le(first, imm(*size) - cast(i64, range.extent))})
      if (Expr c = simplify(bound, facts); !is_int(c, 1)) inside = both(inside, c);
    if (!inside) return;
    auto* widened = range.min.as<Cast>();
    std::string begin = print(widened ? widened->a : range.min, &f);
    std::string text = fmt::format(
        "the slice of {} begins at {} of dimension {} and has {} elements, which must lie in [0, {}): let it "
        "end inside, or make {} larger",
        info.name, begin, d, print(range.extent, &f), *size, info.name);
    std::string line = span.file ? fmt::format("{}:{}", *span.file, span.line) : "";
    out.push_back(
        eval(call(device_assert, {inside, string_imm(text, span), string_imm(line, span)}, none_type, span),
             span));
  }

  // A matrix instruction is given the places of whole rows.
  bool keeps_indices(const Tile& t) const {
    auto in = [&](size_t operand, Scope scope) {
      auto* r = std::get_if<Region>(&t.operands[operand]);
      return r && f[r->buffer].scope == scope;
    };
    bool by_matrices = t.op->name == "copy" && in(0, Scope::shared) && in(1, Scope::fragment);
    return row_of(t).nest && !by_matrices;
  }

  Stmt at(const Stmt& s) override {
    auto* t = s.as<Tile>();
    if (!t || t->body || (unclaimed && keeps_indices(*t))) return children(s);
    std::vector<Stmt> out;
    for (auto& o : t->operands)
      if (auto* r = std::get_if<Region>(&o); r && f[r->buffer].scope != Scope::global)
        for (size_t d = 0; d < r->ranges.size(); d++) check(*r, d, s->span, out);
    out.push_back(s);
    return block(std::move(out), s->span);
  }
};

}  // namespace

Stmt with_slices_checked(const Function& f, const Kernel& k, bool unclaimed) {
  SliceChecker checker(f, unclaimed);
  checker.enter(f, k);
  return checker(k.body);
}

}  // namespace tl
