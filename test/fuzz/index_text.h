// Kernels whose indices stay where they belong and in their type, though no analysis can tell; and the same
// with one fault: an index outside of its own dimension that names another element of the tile, or a value
// that leaves its type and is an index.
#pragma once
#include "fuzz/random_text.h"

namespace tl::fuzz {

struct IndexText : RandomText {
  std::string fault = {};  // the line at fault
  int fresh = 0, steps = 0;

  std::string name(const char* stem) { return fmt::format("{}{}", stem, fresh++); }
  // One of two lines; the one at fault is remembered.
  void either(bool faulty, const std::string& wrong, const std::string& right) {
    line("{}", faulty ? wrong : right);
    if (faulty) fault = lines.back();
  }
  // In [0, n), by the thread, by the scalar s, which is 1, or constant.
  std::string inside(int64_t n) {
    switch (below(4)) {
      case 0:
        return fmt::format("(x*{} + {}) % {}", 1 + below(7), below(n), n);
      case 1:
        return n > 1 ? "cast<i64>(s)" : "0";
      case 2:
        return fmt::format("min(x, {})", n - 1);
      default:
        return fmt::format("{}", below(n));
    }
  }

  // ── dimensions ──────────────────────────────────────────────────────────────────────────────────────
  std::vector<int64_t> shape() {
    std::vector<int64_t> out{2 + below(3)};
    for (int64_t n = 1 + below(2); n > 0; n--) out.push_back(2 + below(15));
    return out;
  }
  std::string listed(const std::vector<int64_t>& all) { return fmt::format("{}", fmt::join(all, ", ")); }

  // An element of a tile that threads index: in the first row, so that one element further is still inside of
  // the tile.
  void element_step(bool faulty) {
    std::string tile = name("S"), scope = pick<std::string>({"shared", "local"});
    std::vector<int64_t> extents = shape();
    size_t wrong = 1 + size_t(below(int64_t(extents.size()) - 1));
    std::string good, bad;
    for (size_t d = 0; d < extents.size(); d++) {
      std::string index = d == 0 ? "0" : inside(extents[d]);
      std::string beyond = d == wrong ? fmt::format("{} + cast<i64>(s)", extents[d] - 1) : index;
      good += (d ? ", " : "") + index;
      bad += (d ? ", " : "") + beyond;
    }
    line("{} = {} f32[{}]", tile, scope, listed(extents));
    line("fill({}, 2.0)", tile);
    if (scope == "local" && chance(40))
      either(faulty, fmt::format("{}[{}] = 3.0", tile, bad), fmt::format("{}[{}] = 3.0", tile, good));
    else
      either(faulty, fmt::format("B[{} + x] = {}[{}]", 64 * steps, tile, bad),
             fmt::format("B[{} + x] = {}[{}]", 64 * steps, tile, good));
  }
  // Columns of a tile, moved by the scalar.
  void columns_step(bool faulty) {
    int64_t rows = 4 * (1 + below(4)), columns = 8 * (1 + below(3));
    std::string from = name("F"), to = name("G"), i = name("row"), j = name("column");
    std::string scope = pick<std::string>({"shared", "fragment"});
    line("{} = {} f32[{}, {}]", from, scope, rows, columns);
    line("{} = fragment f32[{}, {}]", to, rows, columns);
    line("fill({}, 2.0)", from);
    line("fill({}, 1.0)", to);
    line("for {} in parallel({}):", i, rows - 1);
    line("  for {} in parallel({}):", j, columns - 1);
    std::string store = fmt::format("    {}[{}, {}] = {}[{}, {} + cast<i64>(s)", to, i, j, from, i, j);
    either(faulty, store + " + 1]", store + "]");
    std::string row = name("T");
    line("{} = fragment f32[{}]", row, rows);
    line("reduce_sum({}, {}) {{dim=1, clear=1}}", to, row);
    line("copy({}, B[{} : +{}])", row, 64 * steps, rows);
  }

  // ── types ───────────────────────────────────────────────────────────────────────────────────────────
  // A value that leaves its type for some thread; or it is wide enough, or goes through a remainder or bits.
  void wrap_step(bool faulty) {
    std::string o = name("o"), type = pick<std::string>({"i32", "i32", "i16"});
    int64_t by = type == "i32" ? 134217729 : 2049;
    bool kept = chance(40);
    auto made = [&](const std::string& t) {
      std::string x = fmt::format("cast<{}>(x)", t), one = fmt::format("cast<{}>(s)", t);
      return chance(50) ? fmt::format("({} + {})*{}:{}", x, one, by, t)
                        : fmt::format("{}*{}:{} + {}", x, by, t, one);
    };
    std::string wide = faulty ? type : "i64", held = o;
    bool hash = !faulty && chance(50);
    if (hash) wide = type;
    if (kept) {
      held = name("V");
      line("{} = local {}[1]", held, wide);
      either(faulty, fmt::format("{}[0] = {}", held, made(wide)),
             fmt::format("{}[0] = {}", held, made(wide)));
      held += "[0]";
    } else {
      either(faulty, fmt::format("{} = {}", o, made(wide)), fmt::format("{} = {}", o, made(wide)));
    }
    std::string at = held;
    if (hash && chance(50))
      at = fmt::format("{} % 64:{}", held, wide);
    else if (hash)
      at = fmt::format("({} >> 3:{}) & 63:{}", held, wide, wide);
    if (hash || chance(50)) return line("B[{} + x] = A[{}]", 64 * steps, at);
    int outer = indent;
    line("if {} >= 0:{} and {} < 64:{}:", held, wide, held, wide);
    indent++;
    line("B[{} + x] = A[{}]", 64 * steps, at);
    indent = outer;
  }

  void step(bool faulty) {
    switch (below(3)) {
      case 0:
        element_step(faulty);
        break;
      case 1:
        columns_step(faulty);
        break;
      default:
        wrap_step(faulty);
    }
    steps++;
  }
  std::string program(bool has_fault) {
    int64_t all = 1 + below(4), wrong = has_fault ? below(all) : all;
    indent = 2;
    for (int64_t i = 0; i < all; i++) step(i == wrong);
    return "func main(A: f32[64], B: f32[1024], s: i32):\n  kernel main grid(b: 1) threads(64):\n"
           "    x = thread_number()\n" +
           text();
  }
};

}  // namespace tl::fuzz
