// What may still appear at a level, and what must hold at all of them.
#pragma once
#include <optional>

#include "ir/kernel.h"

namespace tl {

enum class Level : uint8_t { tile, thread, machine };
std::string_view to_string(Level level);

// The first thing that is wrong with f at that level: the place and a sentence.
struct Violation {
  Span span;
  std::string text;
};
std::optional<Violation> check(const Function& f, Level level);
// Part of it, at level tile: two layouts of one storage that put a byte of it into two places.
std::optional<Violation> storage_fault(const Function& f);

// For the compiler itself: a finding is an InternalError that names `after`, the pass that left it.
void verify(const Function& f, Level level, std::string_view after = "");

}  // namespace tl
