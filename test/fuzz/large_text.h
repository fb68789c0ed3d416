// Numbers of 64 bits in random tile programs: u64 tiles whose elements, constants and arguments reach 2^64
// - 1.  The other steps compute with small numbers; what is found here is hashed to one of eight and joins
// them.
#pragma once
#include "fuzz/tile_text.h"

namespace tl::fuzz {

struct LargeStep {
  NestText& g;
  std::string tile = {};
  Shape shape = {};

  std::string constant() {
    uint64_t n = g.pick<uint64_t>({0, 1, 3, 7, 1000003, uint64_t(INT64_MAX), uint64_t(INT64_MAX) + 1,
                                   (uint64_t(1) << 63) + (uint64_t(1) << 55) + 1, UINT64_MAX - 1, UINT64_MAX,
                                   0x9e3779b97f4a7c15, 0xffffffff00000000});
    return fmt::format("{}:u64", g.chance(20) ? g.random() : n);
  }
  // An argument of the call, of which a double knows every bit.
  std::string scalar() {
    if (!g.program.given.contains("w")) {
      g.params += fmt::format("{}w: u64", g.params.empty() ? "" : ", ");
      g.program.given["w"] = g.pick<double>({0x1p63, 0x1p63 + 2048, 0x1.8p63, 0x1p64 - 2048, 77});
    }
    return "w";
  }
  std::string leaf() {
    switch (g.below(4)) {
      case 0:
        return constant();
      case 1:
        return scalar();
      case 2:
        return fmt::format("cast<u64>(i{})", g.below(int64_t(shape.size())));
      default:
        return fmt::format("{}[{}]", tile, indices(shape));
    }
  }
  std::string value(int levels) {
    if (levels == 0) return leaf();
    std::string a = value(levels - 1);
    switch (g.below(9)) {
      case 0:
        return fmt::format("({} {} ({} | 1:u64))", a, g.pick<std::string>({"//", "%"}), value(levels - 1));
      case 1:
        return fmt::format("{}({}, {} | 1:u64)", g.pick<std::string>({"truncdiv", "truncmod"}), a,
                           value(levels - 1));
      case 2:
        return fmt::format("({} {} {}:u64)", a, g.pick<std::string>({"<<", ">>"}), g.below(64));
      case 3:
        return fmt::format("({} {} ({} & 63:u64))", a, g.pick<std::string>({"<<", ">>"}), value(levels - 1));
      case 4:
        return fmt::format("{}({}, {})", g.pick<std::string>({"min", "max"}), a, value(levels - 1));
      case 5:
        return fmt::format("select({}, {}, {})", condition(levels - 1), a, value(levels - 1));
      case 6:
        return fmt::format("({}({}))", g.pick<std::string>({"-", "~"}), a);
      default:
        return fmt::format("({} {} {})", a, g.pick<std::string>({"+", "-", "*", "&", "|", "^"}),
                           value(levels - 1));
    }
  }
  std::string condition(int levels) {
    std::string op = g.pick<std::string>({"<", "<=", ">", ">=", "==", "!="}), a = value(levels),
                b = value(levels);
    if (g.chance(60)) return fmt::format("{} {} {}", a, op, b);
    std::string to = g.pick<std::string>({"f32", "f64", "f16", "bf16"});
    return fmt::format("cast<{0}>({1}) {2} cast<{0}>({3})", to, a, op, b);
  }
  void run() {
    Tile small = g.find([](const Tile& t) { return !is_storage(t.type) && !t.rough && t.size() <= 2048; });
    if (small.name.empty()) return;
    shape = small.shape;
    auto make = [&](const Shape& s) {
      Tile t = g.add(g.scope(), "u64", s);
      if (!t.name.empty()) g.tiles.pop_back();  // for nobody else
      return t.name;
    };
    tile = make(shape);
    if (tile.empty()) return;
    g.line("fill({}, {})", tile, constant());
    for (int64_t i = 1 + g.below(2); i > 0; i--) {
      g.open_nest(shape);
      g.line("{}[{}] = {}", tile, indices(shape), value(2));
      g.indent -= int(shape.size());
      if (g.chance(25)) g.line("clamp({}, {}, {})", tile, constant(), constant());
    }
    if (g.chance(40) && shape.size() > 1) {
      Shape less(shape.begin(), shape.end() - 1);
      if (std::string row = make(less); !row.empty()) {
        g.line("reduce_{}({}, {}) {{clear=1, dim={}}}",
               g.pick<std::string>({"max", "min", "sum", "bitand", "bitor", "bitxor"}), tile, row,
               less.size());
        shape = less;
        tile = row;
      }
    }
    Tile hash = g.add("fragment", "i32", shape);
    if (hash.name.empty()) return;
    g.open_nest(shape);
    std::string i = indices(shape);
    g.line("{}[{}] = cast<i32>(({}[{}] * 11400714819323198485:u64) >> 61:u64) - 4:i32", hash.name, i, tile,
           i);
    g.indent -= int(shape.size());
  }
};

}  // namespace tl::fuzz
