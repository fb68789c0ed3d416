// Calls that access memory through an address (atomics, explicit-width accesses), and external functions. An
// access is a call of a small function that the dialect writes, under the mask of its address.
#include "codegen/c_like.h"

namespace tl::c {
namespace {

// The first element of a place.
Expr first_index(const Load& at) {
  if (at.index.empty()) return imm(0);
  auto* run = at.index[0].as<Ramp>();
  return run ? run->base : at.index[0];
}

Expr mask_of(const Call& n) {
  auto* at = obeys_mask(*n.intrinsic) ? place_of(n.args[0]) : nullptr;
  return at ? at->mask : Expr();
}

}  // namespace

std::string Printer::pointer(const Expr& place) {
  auto* at = place_of(place);
  return "&" + element(at->buffer, {first_index(*at)});
}

std::string Printer::atomic_call(const Call& n) {
  const Load& at = *place_of(n.args[0]);
  bool has_value = n.args.size() == 3, returns = n.dtype != none_type;
  AtomicUse use{.op = n.intrinsic->atomic,
                .type = at.dtype,
                .element = type(at.dtype.scalar()),
                .order = order_of(n),
                .returns = returns,
                .global = f[at.buffer].scope == Scope::global};
  std::string_view order = memory_orders()[size_t(use.order)];
  use.name = fmt::format(
      "tl_{}_{}{}{}{}", n.intrinsic->name, to_string(use.type), use.global ? "" : "_shared",
      use.order == MemoryOrder::relaxed ? "" : fmt::format("_{}", order), returns && has_value ? "_old" : "");
  type(use.type);  // its section of the prelude
  atomics.emplace(use.name, use);
  std::string value;
  if (has_value) value = ", " + (use.type.lanes > 1 ? gathered(lanes(n.args[1], {})) : argument(n.args[1]));
  return fmt::format("{}({}{})", use.name, pointer(n.args[0]), value);
}

// A vector as an argument: what a function of CUDA's types takes for it, float4 say.
std::string Printer::by_value(const Expr& place) {
  need("by_value");
  return fmt::format("tl_by_value<{}, {}>({})", type(place_of(place)->dtype.scalar()),
                     *as_int(count_of(place)), pointer(place));
}

std::string Printer::foreign_call(const Call& n) {
  std::vector<std::string> args;
  for (size_t i = 2; i < n.args.size(); i++) {
    const Expr& a = n.args[i];
    auto* at = place_of(a);
    DType type = at ? at->dtype.scalar() : none_type;
    const std::string& own = type == f16 ? foreign_half : foreign_bfloat;
    bool casts = (type == f16 || type == bf16) && !own.empty();
    args.push_back(is_by_value(a) ? by_value(a)
                   : at && casts  ? fmt::format("({}*){}", own, pointer(a))
                   : at           ? pointer(a)
                                  : argument(a));
  }
  return fmt::format("{}({})", n.args[0].as<StringImm>()->value, fmt::join(args, ", "));
}

std::string Printer::memory_call(const Call& n) {
  if (n.intrinsic->atomic != Intrinsic::Atomic::none) return atomic_call(n);
  if (n.intrinsic == &inline_ptx) return dialect.assembly(*this, n);
  if (is_foreign(*n.intrinsic)) return foreign_call(n);
  std::string at = pointer(n.args[0]);
  if (n.intrinsic == &load_wide) return fmt::format("*(const u32*){}", at);
  if (n.args[1]->dtype.lanes == 1) return fmt::format("*(u32*){} = {}", at, text(n.args[1]));
  internal_error("a wide store of several lanes is a statement");
}

Text Printer::print_memory_call(const Call& n) {
  std::string s = memory_call(n);
  Expr mask = mask_of(n);
  Rank rank = n.intrinsic == &load_wide ? prefix : postfix;
  return mask ? Text{fmt::format("{} ? {} : {}", text(mask, or_rank), s, zero_of(n.dtype)), ternary}
              : Text{s, rank};
}

// At most 16 bytes an access.
std::vector<Expr> Printer::load_wide_lanes(const Call& n, const Guard& guard) {
  internal_check(!guard.per_lane, "a wide load that some lanes take");
  Expr mask = both(guard.cond, mask_of(n));
  if (mask) mask = hoisted(mask, "m");
  need("access");
  int count = std::min<int>(n.dtype.lanes, 4);
  std::vector<Expr> result;
  std::string at = pointer(n.args[0]);
  for (int first = 0; first < n.dtype.lanes; first += count) {
    std::string name = names.unique("wide"),
                value = fmt::format("tl_load<{}>((const u32*){} + {})", count, at, first);
    std::string t = type(n.dtype.with_lanes(count));
    line(mask ? fmt::format("{} {} = {{}};", t, name) : fmt::format("const {} {} = {};", t, name, value));
    if (mask) line(fmt::format("if ({}) {} = {};", text(mask), name, value));
    auto part = named_lanes(n.dtype.with_lanes(count), name);
    result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

void Printer::print_eval(const Eval& n) {
  auto* c = n.value.as<Call>();
  bool memory = c && (obeys_mask(*c->intrinsic) || is_foreign(*c->intrinsic));
  if (!memory) return line(text(n.value) + ";");
  Expr mask = mask_of(*c);
  if (c->intrinsic == &store_wide && c->args[1]->dtype.lanes > 1) {
    std::vector<Expr> values = lanes(c->args[1], {});
    need("access");
    size_t count = std::min<size_t>(values.size(), 4);
    for (size_t first = 0; first < values.size(); first += count) {
      std::vector<Expr> part(values.begin() + long(first), values.begin() + long(first + count));
      line(fmt::format("{}tl_store((u32*){} + {}, {});", mask ? fmt::format("if ({}) ", text(mask)) : "",
                       pointer(c->args[0]), first, gathered(part)));
    }
    return;
  }
  std::string s = memory_call(*c);  // may put temporaries in front
  line(fmt::format("{}{};", mask ? fmt::format("if ({}) ", text(mask)) : "", s));
}

}  // namespace tl::c
