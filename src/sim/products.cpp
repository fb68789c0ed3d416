#include "sim/products.h"

#include <algorithm>
#include <bit>
#include <deque>

#include "base/error.h"
#include "base/swizzle.h"
#include "sim/elements.h"
#include "target/check.h"
#include "target/hopper.h"

namespace tl::sim {
namespace {

using AsyncKind = AsyncInstr::AsyncKind;

constexpr int warp_threads = 32, group_warps = 4, rows_of_warp = 16;
constexpr int64_t tile_piece = 16;  // bytes that lie together in every layout of a tile

int64_t warp_number(const Warp& w) { return w.first / warp_threads; }
std::string line_of(const Code& code, int32_t site) {
  const Span& span = code.sites[size_t(site)].span;
  return span ? fmt::format(" on line {}", span.line) : "";
}

// ── the calls of a warpgroup ──────────────────────────────────────────────────────────────────────────
// The block's last warpgroup may lack warps; others than it are whole.
void require_warpgroup(const Execution& x) {
  x.require_whole_warp();
  constexpr int64_t size = WarpgroupInstr::threads;
  int64_t first = x.warp.first / size * size, all = x.warp.code->thread_count();
  if (first + size > all)
    stop(Finding::Kind::divergence, x.site.span,
         "{}: {} executes it, whose warpgroup, [{}, {}), has only {} threads, because the block has {}: a "
         "warpgroup is {} threads from a multiple of {} on; let a whole one execute it",
         x.site.intrinsic->name, describe_thread(x.warp, 0), first, first + size, all - first, all, size,
         size);
}

void take_step(const Execution& x, int64_t a = -1, int64_t b = -1) {
  require_warpgroup(x);
  x.warp.products->steps.push_back({x.site.intrinsic, x.site.site, a, b});
}

void fence_registers(const Execution& x) {
  take_step(x);
  Products& products = *x.warp.products;
  products.touched.assign(products.touched.size(), false);
  products.is_fenced = true;
}

void commit_products(const Execution& x) {
  take_step(x);
  x.warp.products->committed.push_back(x.warp.products->group++);
}

void wait_products(const Execution& x) {
  take_step(x);
  x.count(Counter::Kind::barrier);
  Products& products = *x.warp.products;
  auto left = size_t(x.value(0, 0).i);
  if (products.committed.size() <= left) return;
  uint32_t done = products.committed[products.committed.size() - left - 1];
  std::erase_if(products.committed, [&](uint32_t group) { return group <= done; });
  std::erase_if(products.held, [&](const HeldRegisters& h) { return h.group <= done; });
  if (BlockWatch* watch = x.warp.block->watch) watch->clocks.join_products(warp_number(x.warp), done);
}

// ── registers of warpgroups ───────────────────────────────────────────────────────────────────────────
int64_t registers_of_block(const Code& code) { return code.thread_count() * code.launch_registers; }

int64_t at_launch(const Code& code) { return std::min<int64_t>(255, code.launch_registers); }

template <bool more>
void set_registers(const Execution& x) {
  take_step(x);
  int64_t wanted = x.value(0, 0).i, &now = x.warp.products->registers;
  // What a thread has at its launch, the device compiler decides: at most so many, hardly less than half.
  int64_t least = now;
  if (now == 0) now = at_launch(*x.warp.code), least = now / 2;
  if (more ? wanted < least : wanted > now)
    x.report(0, Finding::Kind::fault,
             fmt::format("{}: the warpgroup has {} registers a thread, and {} are {}; let T.set_max_nreg {}",
                         x.site.intrinsic->name, now, wanted, more ? "fewer" : "more",
                         more ? "give registers back (is_inc 0)" : "take registers (is_inc 1)"));
  now = wanted;
}

// Nothing happens: later uses only stand behind it in the text.
void keep_results(const Execution&) {}

// ── a product ─────────────────────────────────────────────────────────────────────────────────────────
// A tile in shared memory, as its argument and the numbers behind it say.
struct SharedTile {
  const Execution& x;
  size_t arg;
  TileMode mode;
  int bits;
  int64_t begin;  // in the block's memory

  SharedTile(const Execution& x, size_t arg, size_t numbers, int bits)
      : x(x),
        arg(arg),
        mode{.swizzle = x.value(numbers, 0).i,
             .leading = x.value(numbers + 1, 0).i,
             .stride = x.value(numbers + 2, 0).i,
             .turned = x.value(numbers + 3, 0).i != 0},
        bits(bits),
        begin(x.place(arg).address + x.value(arg, 0).i) {
    check();
  }
  void check() const {
    const Place& p = x.place(arg);
    if (p.scope != Scope::shared)
      stop(Finding::Kind::fault, x.site.span, "{} multiplies tiles in shared memory, but {} is not shared",
           x.site.intrinsic->name, p.name);
    if (begin % tile_piece)
      stop(Finding::Kind::misaligned, x.site.span,
           "{}: the tile in {} begins at byte {} of the block's memory; it must begin at a multiple of {}",
           x.site.intrinsic->name, p.name, begin, tile_piece);
    for (int lane = 1; lane < x.warp.lane_count(); lane++)
      if (x.value(arg, lane).i != x.value(arg, 0).i)
        stop(Finding::Kind::divergence, x.site.span,
             "{}: threads of one warp name different tiles in {}; all of a warpgroup must name the same",
             x.site.intrinsic->name, p.name);
  }
  // How many elements lie together, and along which of (mn, k).
  int64_t together() const { return tile_piece * 8 / bits; }

  // f(mn, k, its first byte, or null where it is outside, what is unwritten there) for each tile_piece of
  // rows [first, last) of m or n, and k.
  template <class F>
  void for_pieces(int64_t first, int64_t last, int64_t depth, const Logical& by, F f) const {
    int64_t mn_step = mode.turned ? together() : 1, k_step = mode.turned ? 1 : together();
    for (int64_t mn = first; mn < last; mn += mn_step)
      for (int64_t k = 0; k < depth; k += k_step) {
        int64_t at = swizzled_address(begin + place_in_tile(mode, bits, mn, k), mode.swizzle);
        Holes holes;
        std::byte* bytes =
            x.reach(arg, 0, at - x.place(arg).address, tile_piece, tile_piece, Touch::read, &by, &holes);
        f(mn, k, bytes, holes);
      }
  }
};

struct Product {
  const Execution& x;
  const WarpgroupInstr& row = x.row<WarpgroupInstr>();
  int64_t n = x.value(3, 0).i;
  bool clear = x.value(4, 0).i != 0;
  Logical by = {};
  // Of D, by row and column of the warp's part: what was unwritten of what goes into it.
  std::vector<const Origin*> rows = std::vector<const Origin*>(rows_of_warp),
                             cols = std::vector<const Origin*>(size_t(n));
  std::deque<Origin> origins = {};

  // Which element of the warp's 16 × f.cols is in which register of which lane.
  static int64_t place_of(const OperandFragment& f, int lane, int reg) {
    auto [i, j] = element_of(f, lane, reg);
    return int64_t(i) * f.cols + j;
  }

  const Origin* remember(const Origin& o) {
    origins.push_back(o);
    return &origins.back();
  }

  template <class T>
  void read_tile(const SharedTile& tile, DType type, int64_t first, int64_t last, std::vector<T>& to,
                 int64_t mn_stride, int64_t k_stride, std::vector<const Origin*>& unwritten) {
    auto get = element_access(type).get;
    int64_t bytes = type.bits / 8;
    tile.for_pieces(
        first, last, row.k, by, [&](int64_t mn, int64_t k, const std::byte* at, const Holes& holes) {
          for (int64_t e = 0; at && e < tile.together(); e++) {
            int64_t i = mn - first + (tile.mode.turned ? e : 0), j = k + (tile.mode.turned ? 0 : e);
            Scalar v = get(at + e * bytes);
            to[size_t(i * mn_stride + j * k_stride)] = std::is_floating_point_v<T> ? T(v.d) : T(v.i);
            for (auto& hole : holes)
              if (hole.at < (e + 1) * bytes && e * bytes < hole.at + hole.bytes && !unwritten[size_t(i)])
                unwritten[size_t(i)] = remember(hole.origin);
          }
        });
  }

  template <class T>
  void read_registers(size_t arg, const OperandFragment& f, DType type, std::vector<T>& to,
                      std::vector<const Origin*>* unwritten_rows, std::vector<const Origin*>* unwritten) {
    auto get = element_access(type).get;
    int64_t bytes = type.bits / 8;
    Holes holes;
    auto memory = x.operands(arg, f.registers * bytes, std::max<int64_t>(4, bytes), &holes, 'r');
    for (int lane = 0; lane < warp_threads; lane++)
      for (int reg = 0; reg < f.registers; reg++) {
        Scalar v = get(memory[size_t(lane)] + reg * bytes);
        to[size_t(place_of(f, lane, reg))] = std::is_floating_point_v<T> ? T(v.d) : T(v.i);
      }
    for (auto& hole : holes)
      for_lanes(hole.lanes, [&](int lane) {
        for (int64_t reg = std::max<int64_t>(0, hole.at) / bytes;
             reg < f.registers && reg * bytes < hole.at + hole.bytes; reg++) {
          auto [i, j] = element_of(f, lane, int(reg));
          auto& origin = unwritten_rows ? (*unwritten_rows)[size_t(i)] : (*unwritten)[size_t(i * f.cols + j)];
          if (!origin) origin = remember(hole.origin);
        }
      });
  }

  template <class T>
  void run() {
    OperandFragment d = accumulator_of(n);
    thread_local std::vector<T> a, b, c;
    a.assign(size_t(rows_of_warp * row.k), 0), b.assign(size_t(row.k * n), 0),
        c.assign(size_t(rows_of_warp * n), 0);
    std::vector<const Origin*> elements(c.size());
    if (!clear) read_registers(0, d, row.c_type, c, nullptr, &elements);
    if (row.a_in_registers) {
      read_registers(1, a_fragment_of(row), row.a_type, a, &rows, nullptr);
    } else {
      int64_t first = warp_number(x.warp) % group_warps * rows_of_warp;
      SharedTile tile(x, 1, 5, row.a_type.bits);
      read_tile(tile, row.a_type, first, first + rows_of_warp, a, row.k, 1, rows);
    }
    read_tile(b_tile(), row.b_type, 0, n, b, 1, n, cols);
    if constexpr (std::is_same_v<T, float>)  // the last bits of a tf32 are not looked at
      if (row.a_type == tf32)
        for (auto* v : {&a, &b})
          for (float& f : *v) f = std::bit_cast<float>(std::bit_cast<uint32_t>(f) & ~uint32_t(0x1FFF));
    for (int64_t i = 0; i < rows_of_warp; i++)
      for (int64_t k = 0; k < row.k; k++)
        for (int64_t j = 0; j < n; j++)
          c[size_t(i * n + j)] += a[size_t(i * row.k + k)] * b[size_t(k * n + j)];
    write(d, c, elements);
  }
  SharedTile b_tile() const { return {x, 2, row.a_in_registers ? size_t(5) : size_t(9), row.b_type.bits}; }

  template <class T>
  void write(const OperandFragment& d, const std::vector<T>& c, const std::vector<const Origin*>& elements) {
    auto put = element_access(row.c_type).put;
    int64_t bytes = row.c_type.bytes();
    auto memory = x.operands(0, d.registers * bytes, std::max<int64_t>(4, bytes), nullptr, 'w');
    for (int lane = 0; lane < warp_threads; lane++)
      for (int reg = 0; reg < d.registers; reg++) {
        auto [i, j] = element_of(d, lane, reg);
        T v = c[size_t(int64_t(i) * n + j)];
        put(memory[size_t(lane)] + reg * bytes,
            std::is_floating_point_v<T> ? scalar(double(v)) : scalar(int64_t(v)));
        const Origin* o = elements[size_t(int64_t(i) * n + j)];
        if (!o) o = rows[size_t(i)] ? rows[size_t(i)] : cols[size_t(j)];
        if (o && x.warp.block->watch)
          x.warp.block->race_detector->forget_registers(x.warp, x.place(0), x.value(0, lane).i + reg * bytes,
                                                        bytes, lane, *o);
      }
  }

  // ── hazards of registers ──────────────────────────────────────────────────────────────────────────
  HeldRegisters held(size_t arg, int64_t registers, DType type, bool writes, uint32_t group) const {
    int64_t at = x.place(arg).address + x.value(arg, 0).i;
    return {at, at + registers * type.bits / 8, writes, group, n, &row, x.site.site};
  }
  void check_held(const HeldRegisters& mine, const Place& p, const Products& products) const {
    int64_t unit = x.warp.code->register_unit;
    bool touched = !products.is_fenced;
    for (int64_t i = mine.begin / unit; i * unit < mine.end; i++) touched |= products.touched[size_t(i)];
    for (auto& other : products.held) {
      if (other.end <= mine.begin || mine.end <= other.begin || !(mine.writes || other.writes)) continue;
      bool accumulates = mine.writes && other.writes && other.n == mine.n && other.begin == mine.begin;
      if (!accumulates)
        x.report(
            0, Finding::Kind::race,
            fmt::format("{} uses registers of {} that a product begun{} still {}; wait for that one first "
                        "(T.wait_wgmma)",
                        x.site.intrinsic->name, p.name, line_of(*x.warp.code, other.site),
                        other.writes ? "writes" : "reads"));
    }
    if (touched)
      x.report(
          0, Finding::Kind::fence,
          fmt::format("{}: threads have used registers of {} since the last wgmma_fence of their warpgroup, "
                      "so the product may not see that; let a wgmma_fence() stand before it",
                      x.site.intrinsic->name, p.name));
  }
};

}  // namespace

void begin_product(const Execution& x) {
  Product p{.x = x};
  if (!p.row.takes(p.n))
    stop(Finding::Kind::fault, x.site.span, "{}: there is no such product of {} columns",
         x.site.intrinsic->name, p.n);
  int64_t a = p.row.a_in_registers ? -1 : x.place(1).address + x.value(1, 0).i;
  take_step(x, a, x.place(2).address + x.value(2, 0).i);
  x.count(Counter::Kind::matrix, 2 * int64_t(rows_of_warp) * p.n * p.row.k);
  Products& products = *x.warp.products;
  std::vector<HeldRegisters> mine{p.held(0, p.n / 2, p.row.c_type, true, products.group)};
  if (p.row.a_in_registers) mine.push_back(p.held(1, p.row.k / 2, p.row.a_type, false, products.group));
  if (x.warp.block->watch) {
    for (size_t i = 0; i < mine.size(); i++) p.check_held(mine[i], x.place(i), products);
    p.by = {.slot = x.warp.block->watch->clocks.slot_of_products(warp_number(x.warp)),
            .epoch = products.group,
            .by_proxy = true};
  }
  auto in_flight = std::move(x.warp.products);  // its own accesses are none of a thread's
  if (p.row.c_type.is_int())
    p.run<uint32_t>();
  else
    p.run<float>();
  x.warp.products = std::move(in_flight);
  products.held.insert(products.held.end(), mine.begin(), mine.end());
}

void touch_held(Warp& w, const Place& p, int64_t begin, int64_t end, LaneMask lanes, bool writes,
                int32_t site) {
  Products& products = *w.products;
  int64_t unit = w.code->register_unit;
  for (int64_t i = begin / unit; i * unit < end; i++) products.touched[size_t(i)] = true;
  for (auto& held : products.held) {
    if (held.end <= begin || end <= held.begin || !(writes || held.writes)) continue;
    Finding f{
        .kind = Finding::Kind::race,
        .text = fmt::format("{} {} {} while a product begun{} that {} it is in flight; wait for it first "
                            "(T.wait_wgmma)",
                            describe_thread(w, first_lane(lanes)), writes ? "writes" : "reads", p.name,
                            line_of(*w.code, held.site), held.writes ? "writes" : "reads")};
    f.buffer = p.name;
    w.block->race_detector->report(w, first_lane(lanes), std::move(f), site, held.site, p.number);
  }
}

Semantics warpgroup_semantics(AsyncKind does) {
  switch (does) {
    case AsyncKind::gemm_fence:
      return fence_registers;
    case AsyncKind::gemm_commit:
      return commit_products;
    case AsyncKind::gemm_wait:
      return wait_products;
    case AsyncKind::gemm_results:
      return keep_results;
    case AsyncKind::more_registers:
      return set_registers<true>;
    case AsyncKind::fewer_registers:
      return set_registers<false>;
    default:
      return nullptr;
  }
}

namespace {

// Whoever takes registers waits until there are so many: for ever, where all warpgroups together want more.
void check_registers(RaceDetector& detector, std::vector<Warp>& warps) {
  int64_t sum = 0;
  Warp* last = nullptr;
  for (auto& w : warps) {
    int64_t mine = w.products && w.products->registers ? w.products->registers : at_launch(*w.code);
    sum += mine * warp_threads;
    if (w.products && w.products->registers > at_launch(*w.code)) last = &w;
  }
  if (warps.empty() || !last || sum <= registers_of_block(*last->code)) return;
  detector.report(
      *last, 0,
      {.kind = Finding::Kind::deadlock,
       .text = fmt::format("the block's warps take {} registers in all (T.set_max_nreg), but there are {}: "
                           "the last one waits for ever; give more back in other warpgroups",
                           sum, registers_of_block(*last->code))},
      last->products->steps.front().site);
}

// The one of two warps that executes what the other leaves out, as far as the next calls tell, and that call.
struct Extra {
  Warp& by;
  const Warp& other;
  const WarpgroupStep* step;
  const WarpgroupStep* instead;  // the other one's; null: it has none left
};
Extra extra_of(Warp& leader, Warp& w, size_t first) {
  auto &its = leader.products->steps, &mine = w.products->steps;
  auto at = [&](auto& steps) { return first < steps.size() ? &steps[first] : nullptr; };
  auto comes = [&](auto& steps, auto* step) {
    return std::find(steps.begin() + int64_t(first), steps.end(), *step) != steps.end();
  };
  const WarpgroupStep *here = at(mine), *there = at(its);
  bool is_leader = !here || (there && comes(its, here) && !comes(mine, there));
  return is_leader ? Extra{leader, w, there, here} : Extra{w, leader, here, there};
}

// All warps of a warpgroup execute the same calls, with the same tiles.
void check_agreement(RaceDetector& detector, Warp& leader, Warp& w) {
  auto &mine = w.products->steps, &its = leader.products->steps;
  auto [here, there] = std::ranges::mismatch(mine, its);
  if (here == mine.end() && there == its.end()) return;
  Extra extra = extra_of(leader, w, size_t(here - mine.begin()));
  const WarpgroupStep &step = *extra.step, *instead = extra.instead;
  std::string_view name = step.intrinsic->name;
  std::string instead_of_it =
      instead ? fmt::format("goes on with {}{}", instead->intrinsic->name, line_of(*w.code, instead->site))
              : "ends without it";
  std::string text =
      instead && instead->site == step.site
          ? fmt::format(
                "warps {} and {} of one warpgroup name different tiles in {}; all four must name the "
                "same",
                warp_number(leader), warp_number(w), name)
          : fmt::format(
                "{} is for whole warpgroups: warp {} executes it here, but warp {} of the same one {}; "
                "all four warps must come here together: move it out of the condition",
                name, warp_number(extra.by), warp_number(extra.other), instead_of_it);
  detector.report(extra.by, 0, {.kind = Finding::Kind::divergence, .text = text}, step.site);
}

}  // namespace

void check_products(RaceDetector& detector, std::vector<Warp>& warps) {
  check_registers(detector, warps);
  for (auto& w : warps) {
    if (!w.products) continue;
    if (!w.products->held.empty()) {
      int32_t site = w.products->held.back().site;
      detector.report(
          w, 0,
          {.kind = Finding::Kind::race,
           .text = fmt::format("warp {} has begun a product that is still in flight when it ends; close "
                               "its group and wait for it (T.warpgroup_commit_batch(), T.wait_wgmma(0))",
                               warp_number(w))},
          site);
    }
    Warp& leader = warps[size_t(warp_number(w) / group_warps * group_warps)];
    if (leader.products) check_agreement(detector, leader, w);
  }
}

}  // namespace tl::sim
