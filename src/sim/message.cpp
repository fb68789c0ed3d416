// Formats are ours, numbers are written as printf writes them on a GPU.
#include "sim/message.h"

#include <fmt/printf.h>

#include "base/error.h"
#include "base/output.h"

namespace tl {
namespace {

std::string number(Scalar v, DType t) {
  if (t.is_float()) return fmt::sprintf(printf_conversion(t), v.d);
  return t == u64 ? fmt::format("{}", uint64_t(v.i)) : fmt::format("{}", v.i);
}

const std::string& text_of(const Call& n, size_t i) { return n.args.at(i).as<StringImm>()->value; }

}  // namespace

std::string format_message(std::string_view format, std::string_view thread,
                           const std::function<std::pair<Scalar, DType>(size_t)>& value) {
  std::string line;
  size_t next = 0;
  constexpr std::string_view place = "{thread}";
  while (!format.empty()) {
    size_t used = 1;
    if (format.starts_with(place)) {
      line += thread;
      used = place.size();
      if (thread.empty() && format.substr(used).starts_with(" ")) used++;
    } else if (format.starts_with("{}")) {
      auto [v, type] = value(next++);
      line += number(v, type);
      used = 2;
    } else {
      used = format.starts_with("{{") ? 2 : 1;
      line += format[0];
    }
    format.remove_prefix(used);
  }
  return line + "\n";
}

std::string assertion_text(std::string_view text, std::string_view where) {
  return fmt::format("assertion failed{}{}, in {}", text.empty() ? "" : ": ", text, where);
}

std::string assumption_text(std::string_view where) {
  return fmt::format("T.assume: this does not hold, in {}; the compiler relied on it", where);
}

Code message_code(const Call& n, const std::vector<Code>& args, Span span) {
  if (n.intrinsic == &assume_function)
    return [cond = args[0], span](Frame& x) {
      if (!cond(x).i) fail(span, "{}", assumption_text(x.where));
      return Scalar();
    };
  if (n.intrinsic == &device_assert)
    return [cond = args[0], text = text_of(n, 1), span](Frame& x) {
      if (!cond(x).i) fail(span, "{}", assertion_text(text, x.where));
      return Scalar();
    };
  if (n.intrinsic == &breakpoint_row || n.intrinsic == &pdl_sync || n.intrinsic == &pdl_trigger)
    return [](Frame&) { return Scalar(); };
  if (n.intrinsic != &print_row) return {};
  std::vector<DType> types;
  for (auto& a : n.args) types.push_back(a->dtype);
  return [args, types, format = text_of(n, 0)](Frame& x) {
    write_output(
        format_message(format, "", [&](size_t i) { return std::pair(args[i + 1](x), types[i + 1]); }));
    return Scalar();
  };
}

}  // namespace tl
