// Places in shared memory that a thread looks up by some bits of a word, table[(word >> 8 & 255) * 32 +
// lane]: where no two parts of the sum have a bit in common, one instruction of three inputs makes the place
// in bytes out of the shifted word, the mask and what does not depend on the word.
#include <bit>

#include "arith/simplify.h"
#include "codegen/c_like.h"

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

}  // namespace tl::c
