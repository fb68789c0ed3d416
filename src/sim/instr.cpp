// The semantics of the instructions.
//
// Matrix instructions: products are exact; sums are taken in the accumulator's type (f16: in f32, rounded
// once at the end), one product after another in the order of k, beginning with C.  Tensor cores add
// several products at once and truncate: their last bits differ, within the bounds of f32 summation.
#include "sim/instr.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/output.h"
#include "ir/intrinsic.h"
#include "sim/elements.h"
#include "sim/message.h"
#include "sim/products.h"
#include "sim/undefined.h"
#include "sim/warp.h"
#include "target/check.h"
#include "target/user_rows.h"

namespace tl::sim {

std::byte* Execution::operand(size_t arg, int lane, int64_t bytes, int64_t alignment) const {
  char access = site.args[arg].access;
  if (access == 'x') operand(arg, lane, bytes, alignment, Touch::read);
  return operand(arg, lane, bytes, alignment, access == 'r' ? Touch::read : Touch::write);
}

std::byte* Execution::operand(size_t arg, int lane, int64_t bytes, int64_t alignment, Touch touch,
                              Holes* holes) const {
  const Place& p = place(arg);
  int64_t offset = value(arg, lane).i;
  auto [at, inside] = locate(warp, p, lane, offset, bytes, alignment, site.site);
  if (!warp.block->watch || !inside) return at;
  if (p.scope == Scope::fragment || p.scope == Scope::local)
    touch_registers(p, offset, bytes, lane_bit(lane), touch != Touch::read, holes);
  else
    warp.block->race_detector->access(warp, p, lane, at, bytes, touch, site.site, false, nullptr, holes);
  return at;
}

std::byte* Execution::reach(size_t arg, int lane, int64_t offset, int64_t bytes, int64_t alignment,
                            Touch touch, const Logical* begun, Holes* holes) const {
  const Place& p = place(arg);
  auto [at, inside] = locate(warp, p, lane, offset, bytes, alignment, site.site);
  if (inside && warp.block->watch)
    warp.block->race_detector->access(warp, p, lane, at, bytes, touch, site.site, false, begun, holes);
  return inside ? at : nullptr;
}

void Execution::touch_registers(const Place& p, int64_t offset, int64_t bytes, LaneMask those, bool writes,
                                Holes* holes) const {
  if (writes || !holes)
    return warp.block->race_detector->registers(warp, p, offset, bytes, those, writes, site.site);
  auto found = warp.block->race_detector->unwritten_registers(warp, p, offset, bytes, those, site.site);
  holes->insert(holes->end(), found.begin(), found.end());
}

std::array<std::byte*, max_lanes> Execution::operands(size_t arg, int64_t bytes, int64_t alignment,
                                                      Holes* holes, char access) const {
  std::array<std::byte*, max_lanes> all;
  int lane_count = warp.lane_count();
  const Place& p = place(arg);
  if (!site.args[arg].uniform || p.scope == Scope::global || p.scope == Scope::shared) {
    for (int lane = 0; lane < lane_count; lane++)
      for (Touch touch : {Touch::read, Touch::write})
        if (access != (touch == Touch::read ? 'w' : 'r'))
          all[size_t(lane)] = operand(arg, lane, bytes, alignment, touch, holes);
    return all;
  }
  int64_t offset = value(arg, 0).i;  // registers lie alike in every lane: one question for all
  auto [first, inside] = locate(warp, p, 0, offset, bytes, alignment, site.site);
  for (int lane = 0; lane < lane_count; lane++)
    all[size_t(lane)] = first + (inside ? lane * warp.code->lane_bytes : 0);
  if (!warp.block->watch || !inside) return all;
  if (access != 'w') touch_registers(p, offset, bytes, lanes, false, holes);
  if (access != 'r') touch_registers(p, offset, bytes, lanes, true, holes);
  return all;
}

void Execution::report(int lane, Finding::Kind kind, std::string text) const {
  Finding f{.kind = kind, .text = std::move(text)};
  warp.block->race_detector->report(warp, lane, std::move(f), site.site);
}

void Execution::count(Counter::Kind kind, int64_t flops) const {
  if (PerformanceCounters* t = warp.block->counters)
    t->instruction(site.site, kind, site.intrinsic->name, flops);
}

void Execution::require_whole_warp() const {
  if (lanes == warp.whole()) return;
  int missing = first_lane(~lanes), here = lanes ? first_lane(lanes) : 0;
  bool exists = has_lane(warp.alive, missing);
  stop(Finding::Kind::divergence, site.span,
       "{} needs all {} threads of the warp, but {} {}, while {} executes it; {}", site.intrinsic->name,
       warp.lane_count(),
       exists ? describe_thread(warp, missing) : fmt::format("thread {}", warp.first + missing),
       exists ? "does not take part" : "does not exist", describe_thread(warp, here),
       exists ? "move it out of the condition" : "make the number of threads a multiple of the warp");
}

namespace {

// ── matrix instructions ───────────────────────────────────────────────────────────────────────────────
// f(where in the operand's rows × cols, where in memory) for each of its elements.
template <class F>
void for_elements(const Execution& x, size_t arg, const OperandFragment& f, int bytes, Holes* holes, F each) {
  const int32_t* at = x.site.positions[arg].data();
  auto memory = x.operands(arg, f.registers * bytes, std::max(4, bytes), holes);
  for (size_t lane = 0; lane < size_t(x.warp.lane_count()); lane++)
    for (int reg = 0; reg < f.registers; reg++) each(size_t(*at++), memory[lane] + reg * bytes);
}

// What of its operands d, a, b a matrix instruction has found unwritten.  A row of A reaches a row of D, a
// column of B a column, an element of C its own; those of D are then as if they were not written.
struct MatrixHoles {
  const Execution& x;
  const MatrixInstr& row;
  std::array<Holes, 3> of = {};

  // f(row, column, where it came from) for each such element of an operand.
  template <class F>
  void for_holes(size_t arg, const OperandFragment& f, DType type, F each) const {
    const int32_t* at = x.site.positions[arg].data();
    for (auto& hole : of[arg])
      for_lanes(hole.lanes, [&](int lane) {
        for (int64_t r = std::max<int64_t>(0, hole.at) / type.bytes();
             r < f.registers && r * type.bytes() < hole.at + hole.bytes; r++)
          each(at[lane * f.registers + r] / f.cols, at[lane * f.registers + r] % f.cols, hole.origin);
      });
  }
  void forget() const {
    if (of[0].empty() && of[1].empty() && of[2].empty()) return;
    std::vector<const Origin*> from(size_t(row.m * row.n));
    auto reach = [&](int i, int j, const Origin& o) {
      auto& first = from[size_t(i * row.n + j)];
      if (!first) first = &o;
    };
    for_holes(1, row.a, row.a_type, [&](int i, int, const Origin& o) {
      for (int j = 0; j < row.n; j++) reach(i, j, o);
    });
    for_holes(2, row.b, row.b_type, [&](int, int j, const Origin& o) {
      for (int i = 0; i < row.m; i++) reach(i, j, o);
    });
    for_holes(0, row.c, row.c_type, reach);
    const int32_t* at = x.site.positions[0].data();
    int64_t bytes = row.c_type.bytes();
    for (int lane = 0; lane < x.warp.lane_count(); lane++)
      for (int r = 0; r < row.c.registers; r++)
        if (const Origin* o = from[size_t(*at++)])
          x.warp.block->race_detector->forget_registers(x.warp, x.place(0), x.value(0, lane).i + r * bytes,
                                                        bytes, lane, *o);
  }
};

template <class T>
void read_operand(const Execution& x, size_t arg, const OperandFragment& f, DType type, std::vector<T>& to,
                  MatrixHoles& holes) {
  to.resize(size_t(f.rows * f.cols));
  with_element(type, [&](auto element) {
    for_elements(x, arg, f, element.bytes, &holes.of[arg], [&](size_t at, const std::byte* memory) {
      Scalar v = element.get(memory);
      to[at] = std::is_floating_point_v<T> ? T(v.d) : T(v.i);
    });
  });
  if constexpr (std::is_same_v<T, float>)  // the last bits of a tf32 are not looked at
    for (T& v : to)
      if (type == tf32) v = std::bit_cast<float>(std::bit_cast<uint32_t>(v) & ~uint32_t(0x1FFF));
}

// Sums of type T; `width` columns at a time, a number that the compiler sees.
template <class T, int width>
void accumulate(const MatrixInstr& m, const T* a, const T* b, T* c) {
  for (int i = 0; i < m.m; i++)
    for (int first = 0; first < m.n; first += width) {
      T sums[width];
      std::copy_n(c + i * m.n + first, width, sums);
      for (int k = 0; k < m.k; k++) {
        T factor = a[i * m.k + k];
        const T* row = b + k * m.n + first;
        for (int j = 0; j < width; j++) sums[j] += factor * row[j];
      }
      std::copy_n(sums, width, c + i * m.n + first);
    }
}

template <class T>
void multiply(const Execution& x, const MatrixInstr& m) {
  thread_local std::vector<T> a, b, c;
  MatrixHoles holes{x, m};
  read_operand(x, 0, m.c, m.c_type, c, holes);
  read_operand(x, 1, m.a, m.a_type, a, holes);
  read_operand(x, 2, m.b, m.b_type, b, holes);
  (m.n % 8 ? accumulate<T, 1> : accumulate<T, 8>)(m, a.data(), b.data(), c.data());
  with_element(m.c_type, [&](auto element) {
    for_elements(x, 0, m.c, element.bytes, nullptr, [&, sums = c.data()](size_t at, std::byte* memory) {
      T v = sums[at];
      element.put(memory, std::is_floating_point_v<T> ? scalar(double(v)) : scalar(int64_t(v)));
    });
  });
  holes.forget();
}

void matrix(const Execution& x) {
  x.require_whole_warp();
  auto& row = x.row<MatrixInstr>();
  x.count(Counter::Kind::matrix, 2 * int64_t(row.m) * row.n * row.k);
  if (row.c_type.is_int()) return multiply<uint32_t>(x, row);  // wraps
  if (row.c_type.bits == 64) return multiply<double>(x, row);
  multiply<float>(x, row);
}

// A row of the user's: its own `eval` says what it means.
void user_matrix(const Execution& x) {
  auto& row = x.row<MatrixInstr>();
  auto eval = eval_of(row);
  if (!eval) return matrix(x);
  x.require_whole_warp();
  x.count(Counter::Kind::matrix, 2 * int64_t(row.m) * row.n * row.k);
  MatrixHoles holes{x, row};
  auto read = [&](size_t arg, const OperandFragment& f, DType type) {
    std::vector<double> values(size_t(f.rows * f.cols));
    auto get = element_access(type).get;
    for_elements(x, arg, f, type.bytes(), &holes.of[arg], [&](size_t at, const std::byte* memory) {
      Scalar v = get(memory);
      values[at] = type.is_float() ? v.d : double(v.i);
    });
    return values;
  };
  auto c = read(0, row.c, row.c_type), a = read(1, row.a, row.a_type), b = read(2, row.b, row.b_type);
  std::vector<double> d = (*eval)(a, b, c);
  auto put = element_access(row.c_type).put;
  for_elements(x, 0, row.c, row.c_type.bytes(), nullptr, [&](size_t at, std::byte* memory) {
    put(memory, row.c_type.is_float() ? scalar(d[at]) : scalar(int64_t(d[at])));
  });
  holes.forget();
}

// ── copies of 8×8 blocks ──────────────────────────────────────────────────────────────────────────────
// Lane 8j+r gives the address of row r of block j.  Of each block lane l holds, in one 32-bit register, the
// elements (l/4, 2(l%4)) and (l/4, 2(l%4)+1), or their mirror images.
struct Blocks {
  static constexpr size_t registers = 0, memory = 1;  // which argument is which
  static constexpr int row_bytes = 16;
  const Execution& x;
  const CopyInstr& row = x.row<CopyInstr>();
  static constexpr int lane_count = 32;  // of the warps that have such an instruction
  std::array<std::byte*, max_lanes> held = x.operands(registers, 4 * row.matrices, 4);

  std::byte* row_at(int block, int r, Holes* holes) const {
    Touch touch = x.site.args[memory].access == 'r' ? Touch::read : Touch::write;
    return x.operand(memory, 8 * block + r, row_bytes, row_bytes, touch, holes);
  }
  // Registers that were loaded from what is not written are not either.
  void forget(int block, const Holes& holes) const {
    for (auto& hole : holes)
      for (int lane = 0; lane < lane_count; lane++)
        for (int e = 0; e < 2; e++) {
          auto [i, j] = element(lane, e);
          if (!(hole.lanes >> (8 * block + i) & 1) || 2 * j + 2 <= hole.at || 2 * j >= hole.at + hole.bytes)
            continue;
          x.warp.block->race_detector->forget_registers(x.warp, x.place(registers),
                                                        x.value(registers, lane).i + 4 * block + 2 * e, 2,
                                                        lane, hole.origin);
        }
  }
  // In the block's rows, what a lane's register holds in its half e.
  std::array<int, 2> element(int lane, int e) const {
    std::array at{lane / 4, 2 * (lane % 4) + e};
    if (row.transposed) std::swap(at[0], at[1]);
    return at;
  }
  // f(element in the block's rows, element in a lane's registers), both of 16 bits
  template <class F>
  void for_elements(Counter::Kind kind, F f) const {
    PerformanceCounters::Addresses addresses(x.warp.block->counters);
    for (int block = 0; block < row.matrices; block++) {
      std::array<std::byte*, 8> rows;
      Holes holes;
      for (int r = 0; r < 8; r++) addresses.set(8 * block + r, rows[size_t(r)] = row_at(block, r, &holes));
      for (int lane = 0; lane < lane_count; lane++) {
        std::byte* to = held[size_t(lane)] + 4 * block;
        for (int e = 0; e < 2; e++) {
          auto [i, j] = element(lane, e);
          f(rows[size_t(i)] + 2 * j, to + 2 * e);
        }
      }
      if (!holes.empty()) forget(block, holes);
    }
    addresses.count(x.warp, x.place(memory), row_bytes, x.site.site, kind, x.site.intrinsic->name);
  }
};

void check_shared(const Execution& x) {
  const Place& p = x.place(Blocks::memory);
  if (p.scope == Scope::shared) return;
  stop(Finding::Kind::fault, x.site.span, "{} moves shared memory, but {} is not shared",
       x.site.intrinsic->name, p.name);
}
void load_blocks(const Execution& x) {
  x.require_whole_warp();
  check_shared(x);
  Blocks{x}.for_elements(Counter::Kind::ldmatrix,
                         [](std::byte* memory, std::byte* reg) { std::memcpy(reg, memory, 2); });
}
void store_blocks(const Execution& x) {
  x.require_whole_warp();
  check_shared(x);
  Blocks{x}.for_elements(Counter::Kind::stmatrix,
                         [](std::byte* memory, std::byte* reg) { std::memcpy(memory, reg, 2); });
}

// ── threads ───────────────────────────────────────────────────────────────────────────────────────────
void thread_coordinate(const Execution& x) {
  const int64_t* extent = x.warp.code->threads;
  for_lanes(x.lanes, [&](int lane) {
    int64_t thread = x.warp.first + lane, dim = x.value(0, lane).i;
    x.give(lane, scalar(dim == 0   ? thread % extent[0]
                        : dim == 1 ? thread / extent[0] % extent[1]
                                   : thread / extent[0] / extent[1]));
  });
}

void thread_number(const Execution& x) {
  for_lanes(x.lanes, [&](int lane) { x.give(lane, scalar(x.warp.first + lane)); });
}

// A handle is its offset in bytes within its buffer; translate.cpp has computed it.
void handle_value(const Execution& x) {
  for_lanes(x.lanes, [&](int lane) { x.give(lane, x.value(0, lane)); });
}

// Each thread gets the value of another one of its warp: `from(lane, number, lanes of the warp)`, its own
// where that is no lane.
template <int (*from)(int lane, int number, int warp)>
void shuffle(const Execution& x) {
  x.require_whole_warp();
  x.count(Counter::Kind::shuffle);
  std::array<Scalar, max_lanes> taken;
  std::array<int8_t, max_lanes> source;
  int lane_count = x.warp.lane_count();
  for (int lane = 0; lane < lane_count; lane++) {
    int other = from(lane, int(x.value(1, lane).i), lane_count);
    if (other < 0 || other >= lane_count) other = lane;
    taken[size_t(lane)] = x.value(0, other);
    source[size_t(lane)] = int8_t(other);
  }
  if (x.warp.block->watch) follow_shuffle(x.warp, x.site, x.lanes, source);
  for (int lane = 0; lane < lane_count; lane++) x.give(lane, taken[size_t(lane)]);
}
int given_lane(int, int number, int warp) { return number & (warp - 1); }
int xor_lane(int lane, int number, int) { return lane ^ number; }
int lane_below(int lane, int number, int) { return lane - number; }
int lane_above(int lane, int number, int) { return lane + number; }

// ── messages ──────────────────────────────────────────────────────────────────────────────────────────
std::string thread_text(const Execution& x, int lane) {
  const int64_t* extent = x.warp.code->threads;
  int64_t thread = x.warp.first + lane;
  return fmt::format("thread=({}, {}, {})", thread % extent[0], thread / extent[0] % extent[1],
                     thread / extent[0] / extent[1]);
}
void print_line(const Execution& x) {
  for_lanes(x.lanes, [&](int lane) {
    auto value = [&](size_t i) { return std::pair(x.value(i + 1, lane), x.site.args[i + 1].type); };
    write_output(format_message(x.site.args[0].text, thread_text(x, lane), value));
  });
}
void check_assertion(const Execution& x) {
  for_lanes(x.lanes, [&](int lane) {
    if (!x.value(0, lane).i)
      x.report(lane, Finding::Kind::assertion,
               assertion_text(x.site.args[1].text, describe_thread(x.warp, lane)));
  });
}
void check_assumption(const Execution& x) {
  for_lanes(x.lanes, [&](int lane) {
    if (!x.value(0, lane).i)
      x.report(lane, Finding::Kind::assertion, assumption_text(describe_thread(x.warp, lane)));
  });
}

void nothing(const Execution&) {}

// ── the table: thread-level rows by name ──────────────────────────────────────────────────────────────
constexpr ThreadRow thread_rows[] = {
    {"thread_index", thread_coordinate},
    {"thread_number", thread_number},
    {"address_of", handle_value},
    {"shfl", shuffle<given_lane>},
    {"shfl_xor", shuffle<xor_lane>},
    {"shfl_up", shuffle<lane_below>},
    {"shfl_down", shuffle<lane_above>},
    {"print", print_line},
    {"device_assert", check_assertion},
    {"assume_true", check_assumption},
    {"breakpoint", stop_here},
    {"pdl_sync", nothing},
    {"pdl_trigger", nothing},
};

bool computes(const MatrixInstr& row) {
  auto known = [](DType t) { return t.is_int() ? t.bits <= 32 : t.is_float(); };
  return known(row.a_type) && known(row.b_type) && known(row.c_type) &&
         row.c_type.is_int() == row.a_type.is_int();
}

}  // namespace

// Per operand d, a, b: which of its elements each register of each lane holds.
std::vector<std::vector<int32_t>> positions_of(const MatrixInstr& row) {
  std::vector<std::vector<int32_t>> all;
  for (auto* f : {&row.c, &row.a, &row.b}) {
    auto& positions = all.emplace_back();
    for (int lane = 0; lane < f->rows * f->cols / f->registers; lane++)
      for (int reg = 0; reg < f->registers; reg++) {
        auto [i, j] = element_of(*f, lane, reg);
        positions.push_back(i * f->cols + j);
      }
  }
  return all;
}

InstrRow semantics_of(const Intrinsic& intrinsic) {
  for (std::span<const ThreadRow> rows : {std::span<const ThreadRow>(thread_rows), warp_rows()})
    for (auto& row : rows)
      if (row.name == intrinsic.name) return {.run = row.run};
  if (auto run = memory_semantics(intrinsic)) return {.run = run};
  for (const Target* t : all_targets()) {
    for (auto* row : t->matrix)
      if (row->intrinsic.name == intrinsic.name)
        return {.run = computes(*row) ? matrix : nullptr, .row = row, .positions = positions_of(*row)};
    for (auto* row : t->copies)
      if (row->intrinsic.name == intrinsic.name)
        return {.run = row->intrinsic.access == "wr"   ? load_blocks
                       : row->intrinsic.access == "rr" ? nullptr
                                                       : store_blocks,
                .row = row};
    for (auto& row : t->async)
      if (row.intrinsic.name == intrinsic.name)
        return {.run = async_semantics(row.does), .row = &row, .async = &row};
    for (auto& row : t->warpgroup)
      if (row.intrinsic.name == intrinsic.name) return {.run = begin_product, .row = &row, .warpgroup = &row};
  }
  if (auto* row = find_user_row(intrinsic.name))
    return {.run = computes(*row) || eval_of(*row) ? user_matrix : nullptr,
            .row = row,
            .positions = positions_of(*row)};
  return {};
}

}  // namespace tl::sim
