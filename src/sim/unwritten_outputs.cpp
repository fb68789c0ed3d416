#include "sim/unwritten_outputs.h"

namespace tl::sim {
namespace {

std::vector<int64_t> coordinates(int64_t element, const std::vector<int64_t>& shape) {
  std::vector<int64_t> at(shape.size());
  for (size_t d = shape.size(); d-- > 0; element /= shape[d]) at[d] = element % shape[d];
  return at;
}

// Most outputs: seen sooner without indices.
bool is_whole(const HostArg& arg, const GlobalShadow& cells) {
  auto unit = uintptr_t(cells.unit), end = reinterpret_cast<uintptr_t>(arg.memory.second);
  for (uintptr_t i = reinterpret_cast<uintptr_t>(arg.memory.first) / unit; i * unit < end; i++)
    if (!cells.written(i)) return false;
  return true;
}

UnwrittenOutput unwritten_output_of(const BufferInfo& b, const Memory& m, const GlobalShadow& cells) {
  UnwrittenOutput output{.tensor = b.name, .span = b.span, .elements = 0, .of = product(m.shape)};
  int64_t in_byte = b.dtype.is_packed() ? 2 : 1;
  for (int64_t element = 0; element < output.of; element++) {
    auto at = coordinates(element, m.shape);
    int64_t offset = 0;
    for (size_t d = 0; d < at.size(); d++) offset += at[d] * m.strides[d];
    auto address = reinterpret_cast<uintptr_t>(m.data + offset / in_byte * b.dtype.bytes());
    if (cells.written(address / uintptr_t(cells.unit))) continue;
    if (output.elements++ == 0) output.first = std::move(at);
  }
  return output;
}

}  // namespace

std::vector<UnwrittenOutput> unwritten_outputs_of(const Host& host, std::span<const HostArg> args,
                                                  const GlobalShadow& cells) {
  std::vector<UnwrittenOutput> outputs;
  for (size_t i = 0; i < args.size(); i++) {
    BufferId id = host.f.params[i].buffer;
    if (!id || !args[i].fresh || is_whole(args[i], cells)) continue;
    UnwrittenOutput output = unwritten_output_of(host.f[id], host.frame.buffers[size_t(id.value)], cells);
    if (output.elements) outputs.push_back(std::move(output));
  }
  return outputs;
}

}  // namespace tl::sim
