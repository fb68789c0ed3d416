// The rules for tensor maps that can be checked on constants; the runtime checks the rest on the arguments.
#include "ir/tensor_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/product.h"
#include "base/tensor_map_rules.h"
#include "ir/build.h"
#include "ir/kernel.h"

namespace tl {

int64_t TensorMap::box_elements() const { return product(box); }

const TensorMap* find_tensor_map(const Function& f, std::string_view name) {
  auto it = std::ranges::find_if(f.maps, [&](auto& m) { return m.name == name; });
  return it == f.maps.end() ? nullptr : &*it;
}

std::vector<Expr> shape_of(const Function& f, const TensorMap& map) {
  return map.shape.empty() ? f[map.tensor].shape : map.shape;
}

std::vector<Expr> strides_of(const Function& f, const TensorMap& map) {
  std::vector<Expr> strides = map.shape.empty() && map.strides.empty() ? f[map.tensor].strides : map.strides;
  std::vector<Expr> shape = shape_of(f, map);
  if (!strides.empty()) return strides;
  strides.resize(shape.size());
  Expr stride = imm(1);
  for (size_t d = shape.size(); d-- > 0; stride = stride * shape[d]) strides[d] = stride;
  return strides;
}

std::string broken_rule(const Function& f, const TensorMap& map) {
  const BufferInfo& tensor = f[map.tensor];
  if (tensor.scope != Scope::global) return fmt::format("{} is not in global memory", tensor.name);
  bool given = std::ranges::any_of(f.params, [&](auto& p) { return p.buffer == map.tensor; });
  if (!given && std::ranges::find(f.workspaces, map.tensor) == f.workspaces.end())
    return fmt::format("{} is neither a parameter nor a workspace, so its address is not known at launch",
                       tensor.name);
  if (tensor.dtype.is_packed())
    return fmt::format("{} has packed type {} (two elements per byte)", tensor.name, to_string(tensor.dtype));
  constexpr int64_t no_rule_breaks = 16;  // an extent, or a stride, that is not known
  auto numbers = [&](const std::vector<Expr>& exprs) {
    std::vector<int64_t> out;
    for (auto& e : exprs) out.push_back(as_int(e).value_or(no_rule_breaks));
    return out;
  };
  std::vector<int64_t> shape = numbers(shape_of(f, map)), strides = numbers(strides_of(f, map));
  if (!strides.empty() && !as_int(strides_of(f, map).back())) strides.back() = 1;
  return broken_rule({.element_bytes = tensor.dtype.bytes(),
                      .shape = shape,
                      .strides = strides,
                      .box = map.box,
                      .swizzle = map.swizzle});
}

}  // namespace tl
