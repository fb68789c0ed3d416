// What the printer and the parser agree on: which words are taken, how a name is spelled, how tightly an
// operator binds.
#pragma once
#include <string>
#include <string_view>

#include "ir/intrinsic.h"
#include "ir/kernel.h"

namespace tl {

// A hint that is not an identifier, or is a word of the language, is written between backquotes.
bool is_identifier(std::string_view name);
bool is_reserved(std::string_view name);
std::string spelled(std::string_view hint);

std::string_view to_string(Loop loop);      // "serial", "parallel", …
std::string_view to_string(Access access);  // "value", "read", …

// From loose to tight, as in Python; a comparison takes no other comparison as operand.
enum Precedence : int {
  loosest,
  or_level,
  and_level,
  not_level,
  compare_level,
  bit_or_level,
  bit_xor_level,
  bit_and_level,
  shift_level,
  sum_level,
  product_level,
  unary_level,
  postfix_level
};
// loosest for what is written as a function: min, max, truncdiv, truncmod.
Precedence precedence(BinaryOp op);

// The extents that a buffer's layout has where the text does not say: its shape, one replica.
std::vector<int64_t> layout_extents(const BufferInfo& b);

}  // namespace tl
