// Places in shared memory whose parts are better summed up in another order than C++ would.
//
// Those that a thread looks up by some bits of a word, table[(word >> 8 & 255) * 32 + lane]: where no two
// parts of the sum have a bit in common, one instruction of three inputs makes the place in bytes out of the
// shifted word, the mask and what does not depend on the word.
//
// Those of the tiles that warpgroups multiply: what unrolled loops add is a constant for the device compiler,
// which it does not see behind the shift and the mask that make a descriptor of a place. Apart from the rest,
// it is one addition for an instruction: eight products of 64x128x16 then take 56 machine instructions, and
// not 100.
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "arith/prove.h"
#include "arith/simplify.h"
#include "codegen/c_like.h"
#include "ir/lookup.h"

namespace tl::c {
namespace {

// `mask` of the bits of `word` shifted to the right by `right`, and then by `left` to the left.
struct Bits {
  Expr word, right;
  uint64_t mask = 0;
  int left = 0;
};

std::optional<int> power_of_two(const Expr& e) {
  auto v = as_int(e);
  return v && *v > 0 && std::has_single_bit(uint64_t(*v)) ? std::optional(std::countr_zero(uint64_t(*v)))
                                                          : std::nullopt;
}

}  // namespace

static std::optional<Bits> bits_of(const Expr& e, const std::map<const ExprNode*, Expr>& masked) {
  if (auto* n = e.as<Cast>(); n && n->a->dtype.is_int()) return bits_of(n->a, masked);
  if (auto it = masked.find(e.get()); it != masked.end()) return bits_of(it->second, masked);
  auto* n = e.as<Binary>();
  if (!n) return {};
  if (auto k = power_of_two(n->b); k && n->op == BinaryOp::mul) {
    auto bits = bits_of(n->a, masked);
    if (bits) bits->left += *k;
    return bits;
  }
  auto mask = as_int(n->b);
  if (auto k = power_of_two(n->b); k && n->op == BinaryOp::floormod) mask = *mask - 1;
  if ((n->op != BinaryOp::bit_and && n->op != BinaryOp::floormod) || n->dtype != u32 || !mask) return {};
  if (n->op == BinaryOp::floormod && !power_of_two(n->b)) return {};
  Bits bits{.word = n->a, .right = imm(0), .mask = uint64_t(*mask)};
  auto* shifted = n->a.as<Binary>();
  if (shifted && shifted->op == BinaryOp::shr) bits.word = shifted->a, bits.right = shifted->b;
  if (auto k = power_of_two(shifted ? shifted->b : Expr()); k && shifted->op == BinaryOp::floordiv)
    bits.word = shifted->a, bits.right = imm(*k);
  return bits;
}

std::optional<std::string> Printer::looked_up(const Load& n) {
  const BufferInfo& info = f[n.buffer];
  auto* sum = n.index.size() == 1 ? n.index[0].as<Binary>() : nullptr;
  int bytes = info.dtype.bytes() * info.dtype.lanes;
  bool fits = info.scope == Scope::shared && std::has_single_bit(unsigned(bytes));
  if (!dialect.three_input_logic || !fits || !sum || sum->op != BinaryOp::add) return {};
  for (auto [part, rest] : {std::pair(sum->a, sum->b), std::pair(sum->b, sum->a)}) {
    auto bits = bits_of(part, masked);
    Interval range = bits ? range_of(rest) : Interval{};
    if (!bits || !bits->mask || has_load(rest)) continue;
    int left = bits->left + std::countr_zero(unsigned(bytes));
    int free_bits = std::countr_zero(bits->mask) + bits->left;
    if (free_bits > 30 || range.min < 0 || range.max >= int64_t(1) << free_bits) continue;
    if (bits->mask << left >> 32) continue;
    need("looked_up");
    return fmt::format("tl_looked_up({}, {}, {} - int({}), 0x{:x}u, u32({}))", buffers.at(n.buffer),
                       text(bits->word), left, text(bits->right), bits->mask << left,
                       text(simplify(rest * int64_t(bytes), facts)));
  }
  return {};
}

// Adds the parts of a sum that depend on these variables to `moving`, and the others to `rest`.
static void part(const Expr& e, const std::set<const ExprNode*>& vars, bool minus, Expr& moving, Expr& rest) {
  if (auto* n = e.as<Binary>(); n && (n->op == BinaryOp::add || n->op == BinaryOp::sub)) {
    part(n->a, vars, minus, moving, rest);
    part(n->b, vars, minus != (n->op == BinaryOp::sub), moving, rest);
    return;
  }
  Expr& sum = contains(e, [&](const Var& v) { return vars.contains(&v); }) ? moving : rest;
  if (minus)
    sum = (sum ? sum : imm(0, e->dtype)) - e;
  else
    sum = sum ? sum + e : e;
}

std::optional<std::string> Printer::tile_place(const Call& n, size_t argument) {
  auto* address = n.args[argument].as<Call>();
  if (!n.intrinsic->name.starts_with("wgmma_m64") || !address || address->intrinsic != &address_of) return {};
  auto& at = *address->args[0].as<Load>();
  const BufferInfo& info = f[at.buffer];
  if (info.scope != Scope::shared || at.index.size() != 1) return {};
  const Expr& whole = at.index[0];
  Expr moving, rest;
  part(whole, unrolled, false, moving, rest);
  int64_t unit = 16 * 8 / info.dtype.bits;
  Expr first = rest ? rest : imm(0, whole->dtype);
  bool whole_units = moving && can_prove(eq(floormod(moving, unit), imm(0, moving->dtype)), facts);
  if (!whole_units || range_of(first).min < 0)  // a place in front of the tile could be one outside
    return fmt::format("&{}, 0", element(at.buffer, {whole}));
  return fmt::format("&{}, {}", element(at.buffer, {first}), text(simplify(floordiv(moving, unit), facts)));
}

Text Printer::print_lookup(const Call& n) {
  auto it = tables.try_emplace(values_of(n), fmt::format("tl_table_{}", tables.size())).first;
  return {fmt::format("int({}[{}])", it->second, text(n.args[0]))};
}

std::string table_text(const std::vector<int64_t>& values, std::string_view name) {
  auto [least, most] = std::ranges::minmax(values);
  return fmt::format("\nstatic __device__ const {} {}[] = {{{}}};\n",
                     least >= 0 && most <= UINT16_MAX ? "unsigned short" : "int", name,
                     fmt::join(values, ", "));
}

}  // namespace tl::c
