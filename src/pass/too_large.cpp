#include "pass/too_large.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace tl {
namespace {

double kilobytes(int64_t bytes) { return double(bytes) / 1024; }

std::string placed_text(const PlacedTile& t, bool own) {
  std::string text = fmt::format("{} {:.1f} KB", t.name, kilobytes(t.bytes));
  if (own) return text + fmt::format(" of the compiler's own for line {}", t.span.line);
  if (t.bytes > t.elements_bytes)
    text += fmt::format(" as it is laid out, {:.1f} KB without padding", kilobytes(t.elements_bytes));
  return text;
}

// A shallower pipeline, where the largest tile is in one and that would do.
std::string shallower(const Shortage& s, const PlacedTile& largest, const Function& given) {
  const BufferInfo& tile = given[largest.buffer];
  if (tile.pipeline.empty() || largest.shape.size() == tile.shape.size()) return "";
  int64_t slots = *as_int(largest.shape[0]), of_slot = 0;
  for (auto& t : s.tiles)
    if (size_t(t.buffer.value) < given.buffers.size() && given[t.buffer].pipeline == tile.pipeline)
      of_slot += t.bytes / slots;
  int64_t fitting = slots - (s.needed - s.given + of_slot - 1) / of_slot;
  if (fitting < 1) return "";
  return fmt::format(", or the pipeline {}, whose {} slots take {:.1f} KB each, to {} slot{}", tile.pipeline,
                     slots, kilobytes(of_slot), fitting, fitting == 1 ? "" : "s");
}

// What would mend it: the largest of the user's tiles would, where it is large enough.
std::string mend(const Shortage& s, const PlacedTile* largest, const Function* given) {
  std::string or_pipeline = largest && given ? shallower(s, *largest, *given) : "";
  int64_t excess = s.needed - s.given;
  if (!largest) return "let the tiles of that line be smaller";
  if (largest->bytes > excess)
    return fmt::format("{} would have to shrink to {:.1f} KB{}", largest->name,
                       std::floor(kilobytes(largest->bytes - excess) * 10) / 10, or_pipeline);
  return fmt::format("they would have to shrink by {:.1f} KB in all{}", kilobytes(excess), or_pipeline);
}

}  // namespace

bool Shortage::is_padded() const {
  return std::ranges::any_of(tiles, [](auto& t) { return t.bytes > t.elements_bytes; });
}

CompileError too_large(const Shortage& s, const Function* given) {
  constexpr int64_t worth_naming = 52;  // 0.1 KB
  std::vector<std::string> each;
  const PlacedTile *largest = nullptr, *largest_own = nullptr;
  for (auto& t : s.tiles) {
    bool is_own = given && size_t(t.buffer.value) >= given->buffers.size();
    if (t.bytes >= worth_naming) each.push_back(placed_text(t, is_own));
    const PlacedTile*& most = is_own ? largest_own : largest;
    if (!most || t.bytes > most->bytes) most = &t;
  }
  std::string others;
  if (s.others)
    others =
        fmt::format("; {} of the same memory at other times",
                    s.others == 1 ? "another tile takes some" : fmt::format("{} others take some", s.others));
  return {(largest ? largest : largest_own)->span,
          fmt::format("the tiles need {:.1f} KB of shared memory ({}{}), but {} gives a block {} KB; {}",
                      kilobytes(s.needed), fmt::join(each, ", "), others, s.chip, s.given / 1024,
                      mend(s, largest, given))};
}

}  // namespace tl
