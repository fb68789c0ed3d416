// Tensor maps for NVIDIA's copy engine.
#include <algorithm>

#include "base/error.h"
#include "base/tensor_map_rules.h"
#include "runtime/driver.h"

namespace tl {
namespace {

// CUtensorMapL2promotion.
int promotion_of(int fetch) { return fetch == 256 ? 3 : fetch == 128 ? 2 : fetch == 64 ? 1 : 0; }

// CUtensorMapDataType.  The bits decide what is moved; the kind only what a reduction would mean.
int type_of(const TensorMapSpec& map) {
  struct Row {
    const char* dtype;
    int bits, type;
  };
  static constexpr Row rows[] = {{"f16", 16, 6}, {"bf16", 16, 9}, {"f32", 32, 7}, {"f64", 64, 8},
                                 {"i32", 32, 3}, {"i64", 64, 5},  {"", 8, 0},     {"", 16, 1},
                                 {"", 32, 2},    {"", 64, 4}};
  for (auto& row : rows)
    if (row.bits == map.bits && (!*row.dtype || map.dtype == row.dtype)) return row.type;
  throw RuntimeError(fmt::format("tensor map {}: elements of {} bits", map.name, map.bits));
}

}  // namespace

EncodedTensorMap encode_tensor_map(const TensorMapSpec& map, const TensorMapView& view) {
  const CudaDriver& driver = cuda_driver();
  if (!driver.tensor_map_encode)
    throw RuntimeError(
        "the NVIDIA driver is older than CUDA 12.0 and does not support tensor maps; install a newer one");
  if (std::ranges::find(view.shape, 0) != view.shape.end()) return {};  // there is nothing to copy
  std::string rule = broken_rule(
      {reinterpret_cast<uintptr_t>(view.data), map.bits / 8, view.shape, view.strides, map.box, map.swizzle});
  if (!rule.empty()) throw RuntimeError(fmt::format("tensor map {}: {}", map.name, rule));
  constexpr size_t most = 5;
  size_t rank = view.shape.size();
  uint64_t extents[most], strides[most];
  unsigned box[most], steps[most];
  for (size_t d = 0; d < rank; d++) {  // the chip counts from the last dimension
    size_t from = rank - 1 - d;
    extents[d] = uint64_t(view.shape[from]);
    if (d) strides[d - 1] = uint64_t(view.strides[from] * map.bits / 8);
    box[d] = unsigned(map.box[from]);
    steps[d] = 1;
  }
  EncodedTensorMap out;
  int swizzle = map.swizzle == 128 ? 3 : map.swizzle / 32;
  int status = driver.tensor_map_encode(&out, type_of(map), unsigned(rank), const_cast<void*>(view.data),
                                        extents, strides, box, steps, 0, swizzle, promotion_of(map.fetch), 0);
  if (status != 0) throw RuntimeError(fmt::format("tensor map {}: {}", map.name, driver.describe(status)));
  return out;
}

}  // namespace tl
