#include "ir/lookup.h"

#include <fmt/ranges.h>

#include <charconv>

#include "ir/build.h"
#include "ir/intrinsic.h"

namespace tl {

Expr lookup_of(const Expr& index, const std::vector<int64_t>& values, Span span) {
  return call(lookup, {index, string_imm(fmt::format("{}", fmt::join(values, " ")), span)}, span);
}

std::vector<int64_t> values_of(const Call& lookup) {
  std::vector<int64_t> values;
  auto* text = lookup.args.size() == 2 ? lookup.args[1].as<StringImm>() : nullptr;
  const char* at = text ? text->value.data() : nullptr;
  for (const char* end = at ? at + text->value.size() : nullptr; at != end; at += at != end) {
    int32_t value = 0;
    auto [behind, error] = std::from_chars(at, end, value);
    if (error != std::errc() || (behind != end && *behind != ' ')) return {};
    values.push_back(value);
    at = behind;
  }
  return values;
}

Expr as_selects(const Call& lookup) {
  std::vector<int64_t> values = values_of(lookup);
  const Expr& index = lookup.args[0];
  auto between = [&](auto& self, size_t first, size_t last) -> Expr {  // of the values, one of these
    if (first == last) return imm(values[first], i32);
    size_t middle = (first + last + 1) / 2;
    return select(lt(index, imm(int64_t(middle), index->dtype)), self(self, first, middle - 1),
                  self(self, middle, last));
  };
  return between(between, 0, values.size() - 1);
}

}  // namespace tl
