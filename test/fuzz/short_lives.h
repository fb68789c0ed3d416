// Shared tiles that live for a few statements, so that one takes another's place in memory: each is read for
// the last time in the loop nest, or the scan, that fills the next one.
#pragma once
#include "fuzz/tile_text.h"

namespace tl::fuzz {

struct ShortLives {
  NestText& g;

  // For no other step, and with whatever was in its memory.
  Tile make(const std::string& type, const Shape& shape) {
    Tile t = g.add("shared", type, shape);
    if (!t.name.empty()) g.tiles.pop_back();
    return t;
  }
  // Another thread's element.
  std::string elsewhere(const Tile& t) {
    size_t last = t.shape.size() - 1;
    std::string before = last ? "i0, " : "", own = fmt::format("i{}", last);
    int64_t e = t.shape[last];
    if (g.chance(60)) return fmt::format("cast<f32>({}[{}{} - {}])", t.name, before, e - 1, own);
    return fmt::format("cast<f32>({}[{}({} + {}) % {}])", t.name, before, own, 1 + g.below(e), e);
  }
  void sum(const Tile& from, const Tile& to) {
    size_t last = from.shape.size() - 1;
    std::string s = fmt::format("s{}", g.tensors++);
    g.line("{} = local f32[1]", s);
    g.line("{}[0] = 0.0", s);
    g.line("for j in serial({}):", 1 + g.below(3));
    g.line("  {0}[0] = {0}[0] + cast<f32>({1}[{2}(i{3} + j) % {4}])", s, from.name, last ? "i0, " : "", last,
           from.shape[last]);
    g.line("{}[{}] = {}", to.name, indices(to.shape), NestText::stored(to, s + "[0]"));
  }
  void nest(const Tile& from, const Tile& to) {
    g.open_nest(to.shape);
    if (g.chance(40)) {
      sum(from, to);
    } else if (g.chance(70)) {
      g.line("v = {}", elsewhere(from));
      g.line("{}[{}] = {}", to.name, indices(to.shape), NestText::stored(to, "v"));
    } else {
      g.line("if i0 % 2 == 0:");
      g.line("  v = {}", elsewhere(from));
      g.line("  {}[{}] = {}", to.name, indices(to.shape), NestText::stored(to, "v"));
      g.line("else:");
      g.line("  {}[{}] = {}", to.name, indices(to.shape), NestText::stored(to, "1.0"));
    }
    g.indent -= int(to.shape.size());
  }
  static std::string wider(const std::string& type) {
    if (type == "f16" || type == "bf16") return "f32";
    if (type == "f32") return "f64";
    return type == "i8" || type == "i16" ? "i32" : "i64";
  }
  void run() {
    Shape shape = g.chance(50) ? Shape{1 + g.below(2 * g.threads)} : Shape{1 + g.below(12), 1 + g.below(12)};
    Tile from = make(g.pick<std::string>({"f32", "f16", "bf16", "i32", "i16", "i8"}), shape);
    if (from.name.empty()) return;
    g.line("copy({}, {})", g.tensor_part(from, false), from.name);
    for (int64_t i = 1 + g.below(3); i > 0; i--) {
      bool scan = g.chance(40) && from.type != "f64" && from.type != "i64";
      Tile to = make(scan ? wider(from.type) : g.pick<std::string>({"f32", "f16", "i32", "f64"}), shape);
      if (to.name.empty()) break;
      if (scan)
        g.line("cumsum({}, {}) {{dim={}, reverse={}}}", from.name, to.name, g.below(int64_t(shape.size())),
               g.chance(40) ? 1 : 0);
      else
        nest(from, to);
      from = to;
    }
    Tile out = g.add(g.scope(), "f32", shape);
    if (out.name.empty()) return;
    g.open_nest(shape);
    g.line("{}[{}] = {}", out.name, indices(shape), NestText::stored(out, elsewhere(from)));
    g.indent -= int(shape.size());
  }
};

}  // namespace tl::fuzz
