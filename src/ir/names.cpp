// Words and precedences of text IR.
#include "ir/names.h"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "ir/build.h"

namespace tl {

bool is_identifier(std::string_view name) {
  auto word = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
         std::ranges::all_of(name, word);
}

bool is_reserved(std::string_view name) {
  static constexpr std::string_view words[] = {"func",  "kernel", "assume", "check", "buffer", "for",
                                               "in",    "if",     "elif",   "else",  "while",  "group",
                                               "block", "alloc",  "pass",   "and",   "or",     "not",
                                               "true",  "false",  "inf",    "nan",   "region"};
  return std::find(std::begin(words), std::end(words), name) != std::end(words) || parse_dtype(name);
}

std::string spelled(std::string_view hint) {
  std::string text(hint);
  for (char& c : text)
    if (c == '`' || static_cast<unsigned char>(c) < ' ') c = '_';
  return is_identifier(text) && !is_reserved(text) ? text : "`" + text + "`";
}

std::string_view to_string(Scope scope) {
  static constexpr std::string_view names[] = {"global", "shared", "fragment", "local"};
  return names[size_t(scope)];
}

std::string_view to_string(Loop loop) {
  static constexpr std::string_view names[] = {"serial", "parallel", "pipelined", "unrolled", "vectorized"};
  return names[size_t(loop)];
}

std::string_view to_string(Access access) {
  static constexpr std::string_view names[] = {"value", "read", "write", "update"};
  return names[size_t(access)];
}

Precedence precedence(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
    case BinaryOp::sub:
      return sum_level;
    case BinaryOp::mul:
    case BinaryOp::div:
    case BinaryOp::floordiv:
    case BinaryOp::floormod:
      return product_level;
    case BinaryOp::truncdiv:
    case BinaryOp::truncmod:
    case BinaryOp::min:
    case BinaryOp::max:
      return loosest;
    case BinaryOp::bit_and:
      return bit_and_level;
    case BinaryOp::bit_or:
      return bit_or_level;
    case BinaryOp::bit_xor:
      return bit_xor_level;
    case BinaryOp::shl:
    case BinaryOp::shr:
      return shift_level;
    case BinaryOp::eq:
    case BinaryOp::ne:
    case BinaryOp::lt:
    case BinaryOp::le:
    case BinaryOp::gt:
    case BinaryOp::ge:
      return compare_level;
    case BinaryOp::logical_and:
      return and_level;
    case BinaryOp::logical_or:
      return or_level;
  }
  return loosest;
}

std::vector<int64_t> layout_extents(const BufferInfo& b) {
  std::vector<int64_t> extents;
  for (auto& e : b.shape) extents.push_back(as_int(e).value_or(-1));
  if (b.scope == Scope::fragment) extents.push_back(1);
  return extents;
}

}  // namespace tl
