#include "pass/warp_width.h"

#include <algorithm>

#include "base/error.h"
#include "ir/text.h"
#include "pass/splice.h"

namespace tl {
namespace {

constexpr int narrow_bits = 32;

// Votes in both types, and what a warp is reduced by.
struct Vote {
  std::string_view narrow, wide;
};
constexpr Vote votes[] = {{"ballot_sync", "ballot_sync64"},
                          {"match_any_sync", "match_any_sync64"},
                          {"match_all_sync", "match_all_sync64"},
                          {"activemask", "activemask64"}};
struct Reduction {
  std::string_view name;
  BinaryOp op;
};
constexpr Reduction reductions[] = {{"warp_reduce_add", BinaryOp::add},
                                    {"warp_reduce_max", BinaryOp::max},
                                    {"warp_reduce_min", BinaryOp::min},
                                    {"warp_reduce_and", BinaryOp::bit_and},
                                    {"warp_reduce_or", BinaryOp::bit_or}};

const Reduction* reduction_of(const Expr& e) {
  auto* c = e.as<Call>();
  if (!c) return nullptr;
  auto it = std::find_if(std::begin(reductions), std::end(reductions),
                         [&](auto& r) { return r.name == c->intrinsic->name; });
  return it == std::end(reductions) ? nullptr : it;
}

bool is_shuffle(const Intrinsic& c) { return c.name.starts_with("shfl") && c.name.ends_with("_sync"); }
bool takes_mask(const Intrinsic& c) {  // as its last argument
  bool among =
      c.effect == Intrinsic::Effect::warp && (c.name.ends_with("_sync") || c.name.ends_with("_sync64"));
  return among || c.name == "sync_warp";
}

struct WarpWidth {
  const Target& target;
  int warp = target.warp;
  bool is_wide = warp > narrow_bits;
  DType mask_type = is_wide ? u64 : u32;

  // Of 32 lanes a number has its bits whatever its type is.
  Expr as_mask(const Expr& mask) const {
    auto number = as_int(mask);
    bool fits = number && *number >= 0 && *number <= 0xFFFFFFFF;
    return fits && !is_wide ? mask : cast(mask_type, mask, mask->span);
  }

  void check_shuffle(const Call& n) const {
    auto number = as_int(n.args[1]), width = as_int(n.args[2]);
    if (width && *width > warp)
      fail(n.span, "{}: width is {}, but a warp of {} has {} threads; it must be a power of two, at most {}",
           n.intrinsic->name, *width, target.name, warp, warp);
    if (number && n.intrinsic->name == "shfl_xor_sync" && *number >= warp)
      fail(n.span, "{}: {} is not a distance within a warp of {}: it must be 0 to {}", n.intrinsic->name,
           *number, target.name, warp - 1);
  }
  void check_barrier(const Call& n) const {
    if (n.intrinsic == &bar_sync_groups && as_int(n.args[1]).value_or(0) <= 0)
      fail(n.span, "{}: {}, the threads of a group, must be a positive constant", n.intrinsic->name,
           print(n.args[1]));
    if (!as_int(n.args[0]))  // and what is not known could be the number of a team's own barrier
      fail(n.span, "{}: {}, the number of a barrier, must be a constant: it is part of the instruction",
           n.intrinsic->name, print(n.args[0]));
    auto threads = n.args.size() == 2 ? as_int(n.args[1]) : std::nullopt;
    if (threads && *threads > 0 && *threads % warp)
      fail(n.span,
           "{}: {} threads; the number must be a multiple of {}, the threads of a warp of {}, as warps "
           "arrive whole",
           n.intrinsic->name, *threads, warp, target.name);
  }

  Expr vote(const Call& n, std::vector<Expr> args) const {
    for (auto& v : votes) {
      if (is_wide && n.intrinsic->name == v.narrow)
        fail(n.span,
             "{} gives 32 bits, one for each lane, but a warp of {} has {}; ask for 64: dtype='uint64'",
             v.narrow, target.name, warp);
      if (!is_wide && n.intrinsic->name == v.wide)
        return cast(u64, call(*find_intrinsic(v.narrow), std::move(args), n.span), n.span);
    }
    return call(*n.intrinsic, std::move(args), n.dtype, n.span);
  }

  Expr operator()(const Call& n, Rewriter& self) const {
    if (!target.has_threads()) return self.children(n);
    if (n.intrinsic->name == "warp_size") return imm(warp, i64, n.span);
    if (n.intrinsic->name == "all_lanes") return whole_warp(warp);
    if (reduction_of(Expr(&n)))
      fail(n.span, "{} must be assigned to a name of its own: y = {}(x)", n.intrinsic->name,
           n.intrinsic->name);
    if (is_named_barrier(*n.intrinsic) || n.intrinsic == &bar_sync_groups) check_barrier(n);
    if (!takes_mask(*n.intrinsic) && n.intrinsic->effect != Intrinsic::Effect::warp) return self.children(n);
    std::vector<Expr> args;
    for (auto& a : n.args) args.push_back(self(a));
    if (takes_mask(*n.intrinsic)) args.back() = as_mask(args.back());
    Expr result = vote(n, std::move(args));
    if (is_shuffle(*n.intrinsic)) check_shuffle(*result.as<Call>());
    return result;
  }

  // x; y = shfl_xor(x, half of the warp); x + y; …: the last of these is the value of that name.
  std::vector<Stmt> reduced(const Let& n, const Reduction& r) const {
    static const Intrinsic& shuffle = *find_intrinsic("shfl_xor_sync");
    Span span = n.value->span;
    std::vector<Stmt> out;
    auto named = [&](const Expr& e) {
      Expr v = var(n.var.as<Var>()->hint, e->dtype, span);
      out.push_back(let(v, e, n.span));
      return v;
    };
    Expr value = n.value.as<Call>()->args[0];
    if (!is_const(value) && !value.as<Var>()) value = named(value);
    for (int offset = warp / 2; offset > 0; offset /= 2) {
      Expr other = named(call(shuffle, {value, imm(offset), imm(warp), whole_warp(warp)}, span));
      Expr both = binary(r.op, value, other, span);
      if (offset > 1)
        value = named(both);
      else
        out.push_back(let(n.var, both, n.span));
    }
    return out;
  }
};

}  // namespace

Expr whole_warp(int warp) {
  return warp > narrow_bits ? imm(int64_t(~uint64_t(0) >> (64 - warp)), u64) : imm(0xFFFFFFFF, u32);
}

Stmt with_warp_width(const Stmt& body, const Target& target) {
  WarpWidth width{target};
  auto opened = [&](const Stmt& original, const Stmt& walked) {
    auto* named = target.has_threads() ? original.as<Let>() : nullptr;
    auto* reduction = named ? reduction_of(named->value) : nullptr;
    return reduction ? width.reduced(*named, *reduction) : std::vector<Stmt>{walked};
  };
  return rewrite(splice(body, opened), [&](const Call& n, Rewriter& self) { return width(n, self); });
}

}  // namespace tl
