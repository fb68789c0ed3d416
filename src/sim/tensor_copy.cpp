// Copies of boxes between a tensor and shared memory: (to, map, tensor, coordinates…, barrier) and (map,
// tensor, coordinates…, from).  Elements outside the tensor are read as 0 and never written; a barrier counts
// all bytes.
#include <algorithm>

#include "base/swizzle.h"
#include "base/tensor_map_rules.h"
#include "sim/async.h"

namespace tl::sim {
namespace {

constexpr int64_t box_alignment = 128;

// One lane's copy.
struct BoxCopy {
  const Execution& x;
  int lane;
  size_t map, shared;  // arguments
  const MapView& view = view_of(x, map);
  const TensorMap& m = *view.map;
  int64_t bytes = x.place(map + 1).type.bytes();  // of an element

  static const MapView& view_of(const Execution& x, size_t map) {
    auto& all = x.warp.block->maps;
    return *std::ranges::find_if(all, [&](auto& v) { return v.map->name == x.site.args[map].text; });
  }

  int64_t row_elements() const { return m.box.back(); }
  int64_t row_bytes() const { return row_elements() * bytes; }
  int64_t rows() const { return m.box_elements() / row_elements(); }
  int64_t coordinate(size_t d) const { return x.value(map + 2 + d, lane).i; }

  // Where it lies in shared memory of a block.
  std::byte* place_in(const Block& of, Touch touch, const Logical& by) const {
    return reach_in(x, of, shared, lane, x.value(shared, lane).i, rows() * row_bytes(), box_alignment, touch,
                    &by);
  }
  // What the launch would refuse, and what ends in an illegal instruction.
  void check(bool stores) const {
    const Tensor& t = x.warp.block->tensors[size_t(m.tensor.value)];
    std::string rule =
        broken_rule({reinterpret_cast<uintptr_t>(t.data), bytes, view.shape, view.strides, m.box, m.swizzle});
    if (!rule.empty()) stop(Finding::Kind::fault, x.site.span, "tensor map {}: {}", m.name, rule);
    size_t rank = m.box.size();
    if (int64_t last = coordinate(rank - 1); last * bytes % bulk_unit)
      stop(Finding::Kind::misaligned, x.site.span,
           "{}: the last coordinate is {}, which is {} bytes, in {}; it must be a multiple of {} bytes",
           x.site.intrinsic->name, last, last * bytes, describe_thread(x.warp, lane), bulk_unit);
    for (size_t d = 0; stores && d < rank; d++)
      if (coordinate(d) < 0)
        stop(Finding::Kind::outside, x.site.span,
             "{}: coordinate {} is {}, in {}; a loaded box may begin before its tensor, but a stored one may "
             "not",
             x.site.intrinsic->name, d, coordinate(d), describe_thread(x.warp, lane));
  }

  // Of a row of the box: where in the tensor it would begin, in elements, and which of its elements lie
  // there.
  struct Row {
    int64_t at = 0, first = 0, last = 0;
  };
  Row row(int64_t number) const {
    size_t rank = m.box.size();
    int64_t start = coordinate(rank - 1);
    auto inside = [&](int64_t element) { return std::clamp<int64_t>(element, 0, row_elements()); };
    Row r{.at = start, .first = inside(-start), .last = inside(view.shape.back() - start)};
    for (size_t d = rank - 1; d-- > 0; number /= m.box[d]) {
      int64_t c = coordinate(d) + number % m.box[d];
      if (c < 0 || c >= view.shape[d]) r.last = r.first;
      r.at += c * view.strides[d];
    }
    return r;
  }

  // Where the n-th piece of the box lies, in bytes from its beginning.
  int64_t piece_offset(int64_t n) const {
    int64_t begin = x.place(shared).address + x.value(shared, lane).i, at = begin + n * bulk_unit;
    return swizzled_address(at, m.swizzle) - begin;
  }
  // f(n-th piece, [first, last) of its elements inside the tensor, and the row's first byte in the tensor)
  template <class F>
  void for_pieces(F f) const {
    int64_t in_row = row_bytes() / bulk_unit, elements = bulk_unit / bytes;
    for (int64_t n = 0; n < rows() * in_row; n++) {
      Row r = row(n / in_row);
      int64_t begin = n % in_row * elements;
      auto part = [&](int64_t element) { return std::clamp<int64_t>(element - begin, 0, elements); };
      f(n, part(r.first), part(r.last), (r.at + begin) * bytes);
    }
  }
  // The tensor's side, row by row: each row's bytes are touched once.
  void touch_tensor(Touch touch, const Logical& by) const {
    for (int64_t n = 0; n < rows(); n++) {
      Row r = row(n);
      int64_t count = (r.last - r.first) * bytes;
      if (count > 0)
        count_bulk(x, x.reach(map + 1, lane, (r.at + r.first) * bytes, count, bytes, touch, &by), map + 1,
                   count);
    }
  }
  // An element's place in the tensor, touched before; null outside of it.
  std::byte* in_tensor(int64_t offset, int64_t count) const {
    const Tensor& t = x.warp.block->tensors[size_t(m.tensor.value)];
    return offset >= t.low * bytes && offset + count <= t.high * bytes ? t.data + offset : nullptr;
  }
};

// The box goes to a block's memory, and counts at its barrier.
void load_box(const BoxCopy& box, Block& of) {
  const Execution& x = box.x;
  size_t barrier = x.site.args.size() - 1;
  MBarrier& m = barrier_in(x, of, barrier, box.lane, Touch::atomic_update);
  Logical by = logical_of_barrier(x, of, m, box.lane);
  box.touch_tensor(Touch::read, by);
  std::byte* to = box.place_in(of, Touch::write, by);
  std::vector<Chunk> chunks;
  box.for_pieces([&](int64_t n, int64_t first, int64_t last, int64_t offset) {
    std::byte* piece = to ? to + box.piece_offset(n) : nullptr;
    int64_t before = (last > first ? first : 0) * box.bytes,
            given = std::max<int64_t>(0, last - first) * box.bytes;
    if (before) add_chunks(of, chunks, piece, nullptr, before, 0);
    add_chunks(of, chunks, piece ? piece + before : nullptr,
               given ? box.in_tensor(offset + before, given) : nullptr, bulk_unit - before, given);
  });
  begin_load(x, of, box.lane, barrier, m, std::move(chunks));
}

void store_box(const Execution& x, Touch touch, Combination combination) {
  size_t shared = x.site.args.size() - 1;
  for_lanes(x.lanes, [&](int lane) {
    BoxCopy box{.x = x, .lane = lane, .map = 0, .shared = shared};
    box.check(true);
    Groups& groups = engine_of(x).groups(Timeline::bulk_writes, x.warp.first + lane);
    Logical reads = logical(x, Timeline::bulk_reads, x.warp.first + lane, groups.epoch),
            writes = logical(x, Timeline::bulk_writes, x.warp.first + lane, groups.epoch);
    box.touch_tensor(touch, writes);
    int64_t begin = x.value(shared, lane).i;
    x.reach(shared, lane, begin, 0, box_alignment, Touch::read, &reads);
    std::vector<Chunk> chunks;
    box.for_pieces([&](int64_t n, int64_t first, int64_t last, int64_t offset) {
      int64_t before = first * box.bytes, count = (last - first) * box.bytes;
      if (count <= 0) return;
      std::byte* from =
          x.reach(shared, lane, begin + box.piece_offset(n) + before, count, 1, Touch::read, &reads);
      add_chunks(*x.warp.block, chunks, box.in_tensor(offset + before, count), from, count, count);
    });
    begin_store(x, lane, groups, std::move(chunks), combination);
  });
}

}  // namespace

void begin_tensor_load(const Execution& x) {
  for_lanes(x.lanes, [&](int lane) {
    BoxCopy box{.x = x, .lane = lane, .map = 1, .shared = 0};
    box.check(false);
    load_box(box, *x.warp.block);
  });
}

void begin_tensor_multicast(const Execution& x) {
  for_lanes(x.lanes, [&](int lane) {
    BoxCopy box{.x = x, .lane = lane, .map = 1, .shared = 0};
    box.check(false);
    int64_t mask = x.value(x.site.args.size() - 2, lane).i;
    if (mask == 0)
      stop(Finding::Kind::fault, x.site.span, "{}: the mask names no block, in {}", x.site.intrinsic->name,
           describe_thread(x.warp, lane));
    for (int64_t rank = 0; mask >> rank; rank++)
      if (mask >> rank & 1) load_box(box, block_of_rank(x, lane, rank));
  });
}

void begin_tensor_store(const Execution& x) { store_box(x, Touch::write, {}); }

void begin_tensor_reduce(const Execution& x) {
  std::string_view name = x.site.intrinsic->name;
  using Atomic = Intrinsic::Atomic;
  Atomic op = name.ends_with("add") ? Atomic::add : name.ends_with("min") ? Atomic::min : Atomic::max;
  DType type = x.place(1).type;
  if (!x.row<AsyncInstr>().combines(type))
    stop(Finding::Kind::fault, x.site.span, "{} combines elements of {}, not of {}", name,
         x.row<AsyncInstr>().types, to_string(type));
  store_box(x, Touch::atomic_update, {op, type});
}

}  // namespace tl::sim
