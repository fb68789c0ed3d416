// Loading A and B for matrix instructions.
//
// ldmatrix moves 8×8 blocks of 16-bit units: lane 8b + r gives the address of row r of block b, and lane l
// receives of every block the units (l / 4, 2 (l % 4)) and the one beside it, or with .trans their mirror. So
// it delivers an operand whose fragment is made of such blocks, with k along the units: an element is one of
// them, or half of one, or two (of which .trans would tear the latter apart).
#include "ops/gemm_mma_load.h"

#include <algorithm>

#include "arith/prove.h"
#include "base/error.h"
#include "layout/swizzle.h"
#include "ops/mapping.h"
#include "target/check.h"
#include "target/said.h"

namespace tl {
namespace {

using From = FragmentDigit::From;

// ── the fragment as blocks ────────────────────────────────────────────────────────────────────────────
// (along m or n, along k) of an operand's element.
std::array<int64_t, 2> outer_and_k(const OperandFragment& f, bool is_b, int lane, int reg) {
  auto [i, j] = element_of(f, lane, reg);
  return is_b ? std::array<int64_t, 2>{j, i} : std::array<int64_t, 2>{i, j};
}

// Where each of the fragment's blocks begins; empty if ldmatrix does not deliver it.
std::vector<std::array<int64_t, 2>> blocks_of(const OperandFragment& f, bool is_b, int bits) {
  if (bits != 32 && bits != 16 && bits != 8) return {};
  int per_block = 32 / bits;
  std::vector<std::array<int64_t, 2>> begins;
  for (int reg = 0; reg < f.registers; reg += per_block) begins.push_back(outer_and_k(f, is_b, 0, reg));
  size_t n = begins.size();
  if (f.registers % per_block || n > 4 || (n & (n - 1))) return {};
  constexpr int lanes = 32;  // that ldmatrix is executed by
  if (f.rows * f.cols != lanes * f.registers) return {};
  for (int lane = 0; lane < lanes; lane++)
    for (int reg = 0; reg < f.registers; reg++) {
      auto [outer, k] = begins[size_t(reg / per_block)];
      if (outer_and_k(f, is_b, lane, reg) !=
          std::array<int64_t, 2>{outer + lane / 4, k + per_block * (lane % 4) + reg % per_block})
        return {};
    }
  for (auto& b : begins)
    if (b[0] % 8 || b[1] % (4 * per_block)) return {};
  if (n == 4 && (begins[3][0] != begins[1][0] + begins[2][0] || begins[3][1] != begins[1][1] + begins[2][1]))
    return {};
  return begins;
}

// A sum over the digits of a lane: neighbours that are neighbours in the sum, too, are one digit.
struct LaneDigit {
  int64_t divisor, radix, stride;
};
Expr lane_sum(const Expr& lane, std::vector<LaneDigit> digits) {
  Expr sum = imm(0);
  std::erase_if(digits, [](auto& d) { return d.stride == 0; });
  for (size_t i = 0; i < digits.size(); i++) {
    LaneDigit d = digits[i];
    for (; i + 1 < digits.size() && digits[i + 1].divisor == d.divisor * d.radix &&
           digits[i + 1].stride == d.stride * d.radix;
         i++)
      d.radix *= digits[i + 1].radix;
    Expr v = floordiv(lane, d.divisor);
    if (d.divisor * d.radix < 32) v = floormod(v, d.radix);
    sum = sum + v * d.stride;
  }
  return sum;
}

// May ldmatrix read it?  The elements of every 16 bytes must lie together, at a multiple of 16 bytes.
bool has_aligned_rows(const SharedMatrix& m, const Facts& facts) {
  int last = int(m.layout.extents.size()) - 1, chunk = 128 / m.type.bits;
  if (!m.layout.terms || m.dims[1] != size_t(last)) return false;
  bool chunks = false;
  for (auto& t : *m.layout.terms) {
    bool inner = t.digit.input == last && t.digit.divisor == 1;
    if (inner && t.stride == 1 && t.xors.empty()) {
      chunks = t.digit.radix % chunk == 0 || t.digit.radix == m.layout.extents[size_t(last)];
    } else if (t.stride % chunk || (t.digit.input == last && t.digit.divisor % chunk)) {
      return false;
    }
    for (auto& x : t.xors)
      if (x.input == last && x.divisor % chunk) return false;
  }
  Modular start = modular_of(m.starts[size_t(last)], facts);
  return chunks && start.modulus % chunk == 0 && floor_mod(start.remainder, chunk) == 0;
}

std::string why_not_aligned(const SharedMatrix& m, const Region& r, const LowerContext& ctx) {
  Layout wanted = conflict_free(m.layout.extents, m.type.bits, true);
  int64_t room = room_for(r.buffer, ctx.function, ctx.kernel, ctx.target, ctx.layouts);
  if (wanted.ranges[0] > room && equal(m.layout, row_major(m.layout.extents)))
    return fmt::format("rows padded to 16 bytes would take {} elements, and the block has room for {}",
                       wanted.ranges[0], room);
  return "it does not begin at a multiple of 16 bytes in every row";
}

std::string ldmatrix_name(int64_t blocks, bool transposed) {
  return fmt::format("ldmatrix_x{}{}", blocks, transposed ? "_trans" : "");
}

// Memory lies (outer, k), or the other way round: then rows are k, and only .trans brings k into a register.
bool rows_are_k(const WarpShare& s) { return s.is_b != s.transposed; }

// ── writing the loads ─────────────────────────────────────────────────────────────────────────────────
struct Loader {
  const MatrixInstr& row;
  const OperandFragment& fragment;
  const WarpShare& s;
  const Expr& lane;
  const LowerContext& ctx;
  Facts& facts;
  Span span;

  int64_t extent() const { return s.is_b ? row.n : row.m; }
  Expr at(const Expr& outer, const Expr& k) const {
    return rows_are_k(s) ? s.memory.at(k, outer, facts) : s.memory.at(outer, k, facts);
  }
  static Expr address(DType type, BufferId buffer, Expr index) {
    return call(address_of, {load(type, buffer, {std::move(index)})});
  }

  Stmt by_blocks(std::vector<std::array<int64_t, 2>> begins, int64_t tiles, const Expr& outer, const Expr& k,
                 const Expr& to) {
    int64_t blocks = int64_t(begins.size()) * tiles, divisor = 8;
    std::vector<LaneDigit> outers, ks;
    (rows_are_k(s) ? ks : outers).push_back({1, 8, 1});
    for (size_t b = 1; b < begins.size(); b *= 2, divisor *= 2) {
      outers.push_back({divisor, 2, begins[b][0]});
      ks.push_back({divisor, 2, begins[b][1]});
    }
    if (tiles > 1) outers.push_back({divisor, tiles, extent()});
    const CopyInstr* copy = ctx.target.copy_named(ldmatrix_name(blocks, rows_are_k(s)));
    internal_check(copy, "the row that was asked for before");
    Expr from = at(outer + lane_sum(lane, outers), k + lane_sum(lane, ks));
    Stmt loads = eval(call(copy->intrinsic, {address(s.memory.type, s.registers, to),
                                             address(s.memory.type, s.memory.buffer, from)}),
                      span);
    if (s.factor != tf32) return loads;
    int64_t n = fragment.registers * tiles;
    Expr r = facts.loop_var("r", n), value = as_operand(tf32, load(tf32, s.registers, {to + r}, span), span);
    return block({loads, for_loop(r, n, Loop::unrolled, store(s.registers, {to + r}, value, span), span)},
                 span);
  }

  // The index in memory of register `reg` of this lane.
  Expr element(const Expr& outer, const Expr& k, const Expr& reg) const {
    Expr o = outer, kk = k;
    for (auto& d : fragment.digits) {
      Expr v = floormod(floordiv(d.from == From::lane ? lane : reg, d.divisor), d.radix);
      o = o + v * (s.is_b ? d.col : d.row);
      kk = kk + v * (s.is_b ? d.row : d.col);
    }
    return at(o, kk);
  }

  // How many registers in a row lie together, in memory too.
  int64_t together(const Expr& outer, const Expr& k) {
    auto first =
        std::ranges::find_if(fragment.digits, [](auto& d) { return d.from == From::reg && d.divisor == 1; });
    if (first == fragment.digits.end()) return 1;
    for (int64_t n = std::min(ctx.target.lanes(s.memory.type), first->radix); n > 1; n--) {
      if ((n & (n - 1)) || first->radix % n) continue;
      Facts inside = facts;
      Expr v = var("v"), r = var("r");
      inside.bind(v, Interval{0, n - 1});
      inside.bind(r, Interval{0, fragment.registers / n - 1});
      std::swap(inside, facts);
      Expr index = element(outer, k, r * n + v);
      std::swap(inside, facts);
      auto linear = linear_in(index, v, inside);
      if (!linear || linear->stride != 1) continue;
      Modular start = modular_of(linear->base, inside);
      if (start.modulus % n == 0 && floor_mod(start.remainder, n) == 0) return n;
    }
    return 1;
  }

  Stmt by_elements(const Expr& outer, const Expr& k, const Expr& to) {
    int64_t n = together(outer, k);
    Expr r = facts.loop_var("r", fragment.registers / n), v = n > 1 ? facts.loop_var("v", n) : Expr{};
    Expr reg = n > 1 ? r * n + v : r;
    Expr value = load(s.memory.type, s.memory.buffer, {element(outer, k, reg)}, span);
    Stmt body = store(s.registers, {to + reg}, as_operand(s.factor, value, span), span);
    if (n > 1) body = for_loop(v, n, Loop::vectorized, body, span);
    return for_loop(r, fragment.registers / n, Loop::unrolled, body, span);
  }

  // How many tiles one ldmatrix loads.
  int64_t tiles_at_once(size_t blocks) const {
    bool follow = s.tile_stride == fragment.registers;
    int64_t n = 1;
    while (follow && int64_t(blocks) * n * 2 <= 4 && s.tiles % (n * 2) == 0 &&
           (s.all_tiles % (n * 2) == 0 || s.all_tiles % s.parts == 0))
      n *= 2;
    return n;
  }

  Stmt run(const Expr& k, bool ldmatrix) {
    auto begins =
        ldmatrix ? blocks_of(fragment, s.is_b, s.memory.type.bits) : std::vector<std::array<int64_t, 2>>{};
    int64_t n = begins.empty() ? 1 : tiles_at_once(begins.size());
    Expr i = facts.loop_var(s.is_b ? "nj" : "mi", s.tiles / n);
    Expr outer = s.part * (s.tiles * extent()) + i * (n * extent()), to = i * (n * s.tile_stride);
    Expr inside = s.all_tiles % s.parts ? lt(s.part * s.tiles + i * n, imm(s.all_tiles)) : Expr{};
    Stmt body = begins.empty() ? by_elements(outer, k, to) : by_blocks(begins, n, outer, k, to);
    return for_loop(i, s.tiles / n, Loop::unrolled, if_then(inside, body, {}, span), span);
  }
};

const OperandFragment& fragment_of(const MatrixInstr& row, const WarpShare& s) {
  return s.is_b ? row.b : row.a;
}

bool loads_by_ldmatrix(const MatrixInstr& row, const WarpShare& s, const LowerContext& ctx,
                       const Facts& facts) {
  auto begins = blocks_of(fragment_of(row, s), s.is_b, s.memory.type.bits);
  bool torn = rows_are_k(s) && s.memory.type.bits != 16;
  return !begins.empty() && !torn && s.factor == s.memory.type &&
         ctx.target.copy_named(ldmatrix_name(1, rows_are_k(s))) && has_aligned_rows(s.memory, facts);
}

}  // namespace

std::string why_not_ldmatrix(const MatrixInstr& row, const WarpShare& s, const Region& r,
                             const LowerContext& ctx, const Facts& facts) {
  int bits = s.memory.type.bits;
  if (loads_by_ldmatrix(row, s, ctx, facts)) return "";
  if (s.factor != s.memory.type)
    return fmt::format("{} becomes {} on the way", to_string(s.memory.type), to_string(s.factor));
  if (bits > 32 || bits < 8) return fmt::format("its elements have {} bits", bits);
  if (blocks_of(fragment_of(row, s), s.is_b, bits).empty())
    return fmt::format("that does not deliver the fragment of {}", row.intrinsic.name);
  if (rows_are_k(s) && bits != 16)
    return fmt::format("k is not along its rows, and elements of {} bits cannot be transposed on the way",
                       bits);
  if (has_aligned_rows(s.memory, facts)) return fmt::format("{} has no such instruction", said(ctx.target));
  return why_not_aligned(s.memory, r, ctx);
}

Stmt load_share(const MatrixInstr& row, const WarpShare& s, const Expr& k, const Expr& lane,
                const LowerContext& ctx, Facts& facts, Span span) {
  Loader l{.row = row,
           .fragment = fragment_of(row, s),
           .s = s,
           .lane = lane,
           .ctx = ctx,
           .facts = facts,
           .span = span};
  return l.run(k, loads_by_ldmatrix(row, s, ctx, facts));
}

}  // namespace tl
