#include "ops/multicast.h"

#include <bit>
#include <optional>
#include <set>

#include "arith/simplify.h"
#include "base/error.h"
#include "ir/build.h"
#include "ir/rewrite.h"
#include "ir/text.h"

namespace tl {
namespace {

struct Multicast {
  const Tile& t;
  const Function& f;
  const Kernel& k;
  std::vector<const Let*> names = {};

  Multicast(const Tile& t, const Function& f, const Kernel& k) : t(t), f(f), k(k) {
    visit(k.body, [&](const Let& n) { names.push_back(&n); });
  }

  Expr resolved(Expr e) const {
    for (size_t i = names.size(); i-- > 0;) e = substitute(e, {{names[i]->var.get(), names[i]->value}});
    return e;
  }
  // In the block of that rank of the first cluster, where all other variables are `others`; none: data are in
  // it.
  std::optional<int64_t> value(const Expr& e, int64_t rank, int64_t others) const {
    VarMap values;
    Expr whole = resolved(e);
    visit(whole, [&](const Var& v) { values[&v] = imm(others, v.dtype); });
    for (size_t d = 0; d < k.grid_vars.size(); d++) {
      int64_t blocks = d < k.cluster.size() ? k.cluster[d] : 1;
      values[k.grid_vars[d].get()] = imm(rank % blocks, k.grid_vars[d]->dtype);
      rank /= blocks;
    }
    return as_int(simplify(substitute(whole, values)));
  }
  // Does it differ between two blocks, whatever the other variables are?
  struct Difference {
    int64_t here, there;
  };
  std::optional<Difference> difference(const Expr& e, int64_t rank, int64_t other) const {
    std::optional<Difference> first;
    for (int64_t others : {0, 1}) {
      auto a = value(e, rank, others), b = value(e, other, others);
      if (!a || !b || *a == *b) return {};
      if (!first) first = {*a, *b};
    }
    return first;
  }

  // Under a condition on the block's rank not every block need come here.
  bool is_conditional() const {
    std::set<const ExprNode*> grid;
    for (auto& v : k.grid_vars) grid.insert(v.get());
    bool found = false;
    visit(k.body, [&](const If& n) {
      if (!contains(resolved(n.cond), [&](const Var& v) { return grid.contains(&v); })) return;
      visit(Stmt(&n), [&](const Tile& inner) { found |= inner.op == t.op && inner.span == t.span; });
    });
    return found;
  }

  Expr number_of(const char* attr) const {
    const AttrValue* v = t.attrs.find(attr);
    if (!v) return {};
    auto* number = std::get_if<int64_t>(v);
    return number ? imm(*number, i32) : std::get<Expr>(*v);
  }

  void check_place(const Region& r, std::string_view what, int64_t rank, int64_t issuer) const {
    for (size_t d = 0; d < r.ranges.size(); d++)
      if (auto differs = difference(r.ranges[d].min, rank, issuer))
        fail(t.span,
             "tma_copy: the blocks of cluster_mask {}, but {} begins at {} of dimension {} in the block of "
             "rank "
             "{}, and at {} in that of rank {}, which loads it for both; name the same in both "
             "(T.get_cluster_id() does not depend on the rank), or load without cluster_mask",
             what, f[r.buffer].name, differs->here, d, rank, differs->there, issuer);
  }

  void check() const {
    Expr mask = number_of("cluster_mask"), given = number_of("issuer");
    int64_t blocks = cluster_size(k);
    auto issuer_of = [&](int64_t rank) {
      auto bits = value(mask, rank, 0);
      if (given || !bits || *bits <= 0) return given ? value(given, rank, 0) : std::nullopt;
      return std::optional<int64_t>(std::countr_zero(uint64_t(*bits)));
    };
    for (int64_t rank = 0; rank < blocks; rank++) {
      auto bits = value(mask, rank, 0), issuer = issuer_of(rank);
      if (!bits || !issuer || !(*bits >> rank & 1) || *issuer < 0 || *issuer >= blocks) continue;
      for (int64_t other = 0; other < rank; other++)
        if (auto theirs = issuer_of(other); *bits >> other & 1 && theirs && *theirs != *issuer)
          fail(
              t.span,
              "tma_copy: one block issues the load for all of cluster_mask, but the block of rank {} says "
              "that "
              "rank {} does, and that of rank {} says rank {}: the tile would come twice, or never; give the "
              "same issuer in all of them",
              rank, *issuer, other, *theirs);
      check_place(std::get<Region>(t.operands[0]), "load one tile for all", rank, *issuer);
      check_place(std::get<Region>(t.operands[1]), "get the tile at the same place", rank, *issuer);
      check_place(std::get<Region>(t.operands[2]), "count its bytes at the same barrier", rank, *issuer);
    }
  }
};

}  // namespace

void check_multicast(const Tile& t, const Function& f, const Kernel& k) {
  Multicast m(t, f, k);
  if (t.attrs.find("cluster_mask") && cluster_size(k) > 1 && !m.is_conditional()) m.check();
}

}  // namespace tl
