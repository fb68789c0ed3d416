#include "ir/packed.h"

#include "base/error.h"
#include "ir/build.h"
#include "ir/text.h"

namespace tl {

void check_packed(const BufferInfo& tensor) {
  std::string what =
      fmt::format("{} has packed type {} (two elements per byte)", tensor.name, to_string(tensor.dtype));
  auto last = tensor.shape.empty() ? std::nullopt : as_int(tensor.shape.back());
  if (!last || *last % 2)
    fail(tensor.span,
         "{}: its last extent must be an even constant, not {}; give the rows an even length, and leave the "
         "last element unused",
         what, tensor.shape.empty() ? "none" : print(tensor.shape.back()));
  for (size_t d = 0; d < tensor.strides.size(); d++) {
    auto stride = as_int(tensor.strides[d]);
    bool is_last = d + 1 == tensor.strides.size();
    if (!stride || (is_last ? *stride != 1 : *stride % 2 != 0))
      fail(tensor.span,
           "{}: its strides must be even constants, and the last 1, but the stride of dimension {} is {}; "
           "give the rows an even distance",
           what, d, print(tensor.strides[d]));
  }
}

}  // namespace tl
