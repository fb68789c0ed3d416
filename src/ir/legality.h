// The legality table: which nodes and loops may appear at which level, and how many indices an access has
// there.
#pragma once
#include "ir/verify.h"

namespace tl {

inline constexpr uint8_t at_tile = 1, at_thread = 2, at_machine = 4, lowered = at_thread | at_machine;

struct KindRow {
  Kind kind;
  uint8_t levels;
  std::string_view what;
};
inline constexpr KindRow kind_rows[] = {
    // nodes that are not listed may appear at every level
    {Kind::Tile, at_tile, "tile operators"},
    {Kind::Ramp, lowered, "vectors"},
    {Kind::Broadcast, lowered, "vectors"},
};
struct LoopRow {
  Loop loop;
  uint8_t levels;
};
inline constexpr LoopRow loop_rows[] = {
    {Loop::parallel, at_tile},
    {Loop::pipelined, at_tile},
    {Loop::vectorized, at_tile | at_thread},
};
// How many indices an access has: one per dimension (logical), one in elements (physical).
enum class Rank : uint8_t { logical, physical, either };
struct RankRow {
  Level level;
  Rank global, tile;
};
inline constexpr RankRow rank_rows[] = {
    {Level::tile, Rank::logical, Rank::logical},
    {Level::thread, Rank::either, Rank::physical},
    {Level::machine, Rank::physical, Rank::physical},
};

}  // namespace tl
