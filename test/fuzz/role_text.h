// Random programs that are divided among roles on Hopper: products of tiles that pipelined loops load, alone
// or with threads' work between two of them; loops of any length, under conditions, in loops over tiles;
// tiles that are loaded beside the loops.  Values stay small integers.
#pragma once
#include <algorithm>
#include <map>
#include <set>

#include "fuzz/random_text.h"
#include "fuzz/tile_program.h"

namespace tl::fuzz {

struct RoleText : RandomText {
  std::set<std::string> features = {};
  std::map<std::string, double> given = {};
  std::vector<std::string> tiles = {}, params = {};
  int64_t threads = 128, rows = 64, blocks = 1, turns = 1, named = 0;
  bool many = false;     // blocks, of several heads and several rows each,
  bool by_head = false;  // of which those of a head read the same
  bool unpacks = false;  // threads compute a factor of the product
  bool alone = false;    // products of a loop of many turns, that nothing stands around
  bool called = false;   // only the call knows how many blocks there are, and turns
  int64_t heads = 0;
  std::string type = "f16";

  void is(const std::string& feature) { features.insert(feature); }
  std::string fresh(const std::string& prefix) { return fmt::format("{}{}", prefix, named++); }
  std::string parameter(const std::string& prefix, const std::string& what) {
    params.push_back(fresh(prefix));
    std::string name = params.back();
    params.back() += ": " + what;
    return name;
  }
  std::string scalar(const std::string& prefix, int64_t value) {
    std::string name = parameter(prefix, "i32");
    given[name] = double(value);
    return name;
  }
  std::string tile(const std::string& scope, const std::string& of, int64_t m, int64_t n = 0) {
    std::string name = fresh(scope == "shared" ? "s" : "r");
    tiles.push_back(n ? fmt::format("{} = {} {}[{}, {}]", name, scope, of, m, n)
                      : fmt::format("{} = {} {}[{}]", name, scope, of, m));
    return name;
  }
  template <class F>
  void under(const std::string& head, F body) {
    line("{}:", head);
    indent++;
    size_t before = lines.size();
    body();
    if (lines.size() == before) line("pass");
    indent--;
  }
  template <class F>
  void nest(int64_t m, int64_t n, F body) {
    under(fmt::format("for i in parallel({})", m),
          [&] { under(fmt::format("for j in parallel({})", n), [&] { line("{}", body()); }); });
  }

  // ── tensors ─────────────────────────────────────────────────────────────────────────────────────────
  // Rows of 64 elements for each turn, and where those of turn `k` lie; perhaps fewer than the tiles need.
  std::string rows_for(const std::string& what, int64_t height, int64_t most, std::string& place) {
    int64_t extent = std::max<int64_t>(1, height * most - (chance(40) ? below(height) : 0)), columns = 64;
    if (chance(25)) columns -= 8 * below(4), is("ragged: columns");
    if (extent % height) is("ragged: rows");
    std::string shape = fmt::format("{}, {}", extent, columns), before;
    if (by_head || chance(25)) {
      is("tensor of 3 dimensions");
      shape = fmt::format("3, {}", shape);
      before = by_head ? "cast<i64>(h) % 3, " : chance(50) ? "cast<i64>(bx) % 3, " : "1, ";
    }
    std::string name = parameter(what, fmt::format("{}[{}]", type, shape)),
                index = fmt::format("k*{}", height);
    if (chance(15)) index = fmt::format("({} - k)*{}", most - 1, height), is("rows: from the end");
    place = fmt::format("{}[{}{} : +{}, 0 : +64]", name, before, index, height);
    return name;
  }
  // The same rows for all turns of a loop, of this turn of the loop around.
  std::string load_beside() {
    std::string name = parameter("A", fmt::format("{}[{}, 64]", type, rows * blocks * turns)),
                s = tile("shared", type, rows, 64);
    line("copy({}[(cast<i64>(bx)*{} + t)*{} : +{}, 0 : +64], {})", name, turns, rows, rows, s);
    is("tile beside the loop");
    return s;
  }

  // ── loops ───────────────────────────────────────────────────────────────────────────────────────────
  struct Trips {
    std::string text;
    int64_t most;
  };
  Trips trips() {
    int64_t most = 2 + below(5);
    if (alone && !called) return {std::to_string(most + 7), most + 7};
    switch (called ? 0 : below(6)) {
      case 0: {
        std::string n = scalar("n", below(most + 1));
        if (given[n] == 0) is("trips: 0");
        if (given[n] == 1) is("trips: 1");
        is("trips: scalar");
        return {fmt::format("cast<i64>({})", n), most};
      }
      case 1:
        is("trips: of the turn around");
        return {fmt::format("min({}, t + {})", most, below(2)), most};
      case 2:
        is("trips: of the block");
        return {fmt::format("min({}, cast<i64>(bx) + {})", most, below(3)), most};
      case 3: {
        std::string table = parameter("T", fmt::format("i32[{}]", blocks));
        is("trips: of a tensor");
        return {fmt::format("cast<i64>({}[bx]) % {}", table, most + 1), most};
      }
      default:
        is("trips: constant");
        return {std::to_string(most), most};
    }
  }
  template <class F>
  void loop(const Trips& n, F body) {
    int64_t stages = 2 + below(3);
    auto pipelined = [&] {
      under(fmt::format("for k in pipelined({}) {{num_stages={}}}", n.text, stages), body);
    };
    if (alone || !chance(15)) return pipelined();
    is("under a condition");
    std::string n0 = parameter("n", "i32");
    given[n0] = double(below(2));
    under(chance(50) ? fmt::format("if {} > 0", n0) : "if t != 1", pipelined);
  }

  // ── products alone ──────────────────────────────────────────────────────────────────────────────────
  void products() {
    Trips n = trips();
    int64_t width = 64 * (1 + below(2)), count = 1 + below(2);
    std::string place, a, beside;
    if (!alone && chance(25)) beside = load_beside();
    bool together = count > 1 && chance(40);
    std::vector<std::string> sums, b;
    for (int64_t i = 0; i < count; i++) {
      b.push_back(tile("shared", type, width, 64));
      if (i > 0 && together) continue;
      sums.push_back(tile("fragment", "f32", rows, width));
      line("clear({})", sums.back());
    }
    if (count > 1) is(together ? "several products of one accumulator" : "several products");
    std::string seen = chance(20) ? tile("fragment", "f32", width) : "", all = seen.empty() ? "" : fresh("r");
    if (!seen.empty()) {
      tiles.push_back(fmt::format("{} = fragment f32[{}]", all, width));
      line("clear({})", all);
      is("threads read what products read");
    }
    loop(n, [&] {
      a = beside;
      if (a.empty()) {
        rows_for("A", rows, n.most, place);
        a = tile("shared", type, rows, 64);
        line("copy({}, {})", place, a);
      }
      for (int64_t i = 0; i < count; i++) {
        rows_for("B", width, n.most, place);
        line("copy({}, {})", place, b[size_t(i)]);
      }
      for (int64_t i = 0; i < count; i++)
        line("gemm({}, {}, {}) {{trans_b=1}}", a, b[size_t(i)], sums[together ? 0 : size_t(i)]);
      if (!seen.empty()) {
        line("reduce_sum({}, {}) {{clear=1, dim=1}}", b[0], seen);
        under(fmt::format("for i in parallel({})", width),
              [&] { line("{0}[i] = {0}[i] + {1}[i]", all, seen); });
      }
    });
    for (auto& s : sums) leave(s, width);
    if (!seen.empty())
      line("copy({}, {}[cast<i64>(bx), t, 0:])", all,
           parameter("O", fmt::format("f32[{}, {}, {}]", blocks, turns, width)));
  }

  // Both operands are columns of one tile, which begin at different places of a pattern.
  void product_of_one_tile() {
    is("one tile for both operands");
    Trips n = trips();
    int64_t width = 32 * (2 + below(3)), left = 16 * below(4), right = 16 * below(4);
    int64_t all = (std::max(left + rows, right + width) + 63) / 64 * 64;
    std::string from =
                    parameter("X", fmt::format("{}[{}, {}]", type, 64 * std::max<int64_t>(1, n.most), all)),
                x = tile("shared", type, 64, all), sums = tile("fragment", "f32", rows, width);
    line("clear({})", sums);
    loop(n, [&] {
      line("copy({}[k*64 : +64, 0 : +{}], {})", from, all, x);
      line("gemm({0}[0 : +64, {1} : +{2}], {0}[0 : +64, {3} : +{4}], {5}) {{policy=\"{6}\", trans_a=1}}", x,
           left, rows, right, width, sums, pick<std::string>({"square", "full_row", "full_col"}));
    });
    leave(sums, width);
  }

  // ── threads between products ────────────────────────────────────────────────────────────────────────
  struct Chain {
    int64_t width = 64;
    std::string a = {}, b = {}, c = {}, s = {}, p = {}, kept = {}, o = {}, sums = {}, variable = {},
                again = {};
  };
  void mask(const Chain& x) {
    is("a mask under a condition");
    under(chance(50) ? "if k % 2 == 1" : fmt::format("if k >= cast<i64>(bx) + {}", below(2)), [&] {
      nest(rows, x.width, [&] { return fmt::format("{}[i, j] = select(i < j, 5.0, {}[i, j])", x.s, x.s); });
    });
  }
  void first_product(const Chain& x, bool masked) {
    if (!masked && chance(50)) {
      line("gemm({}, {}, {}) {{clear_accum=1, policy=\"full_row\", trans_b=1}}", x.a, x.b, x.s);
      return;
    }
    if (chance(40)) {
      is("a mask by a choice for each element");
      std::string inside =
          fmt::format("k*{} + j <= cast<i64>(bx)*{} + i + {}", x.width, rows, below(200) - 50);
      bool turned = chance(30);
      nest(rows, x.width, [&] {
        return turned ? fmt::format("{}[i, j] = select({}, -2.0, 0.0)", x.s, inside)
                      : fmt::format("{}[i, j] = select({}, 0.0, 5.0)", x.s, inside);
      });
    } else {
      line("clear({})", x.s);
      if (masked) mask(x);
    }
    line("gemm({}, {}, {}) {{policy=\"full_row\", trans_b=1}}", x.a, x.b, x.s);
    if (chance(25)) {
      is("two products into one tile");
      line("gemm({}, {}, {}) {{policy=\"full_row\", trans_b=1}}", x.a, x.b, x.s);
    }
  }
  // A name of a variable's value, which changes from turn to turn.
  void add_name(const Chain& x) {
    if (x.variable.empty()) return;
    std::string name = fresh("w");
    line("{} = {}[]", name, x.variable);
    nest(rows, x.width, [&] { return fmt::format("{0}[i, j] = {0}[i, j] + cast<f32>({1})", x.s, name); });
    line("{0}[] = {0}[] + 1", x.variable);
  }
  void read_again(const Chain& x) {
    if (x.again.empty()) return;
    std::string copy = tile("fragment", type, x.width, 64);
    line("copy({}, {})", x.c, copy);
    nest(x.width, 64,
         [&] { return fmt::format("{0}[i, j] = {0}[i, j] + cast<f32>({1}[i, j])", x.again, copy); });
  }
  void threads_between(const Chain& x) {
    add_name(x);
    if (chance(60))
      nest(rows, x.width, [&] { return fmt::format("{0}[i, j] = max({0}[i, j], -{0}[i, j])", x.s); });
    if (!x.sums.empty()) line("reduce_max({}, {}) {{clear=1, dim=1}}", x.s, x.sums);
    if (!x.sums.empty() && chance(70)) {
      is("sums that threads change");
      nest(rows, 64, [&] { return fmt::format("{0}[i, j] = {1}[i] - {0}[i, j]", x.o, x.sums); });
    }
    line("copy({}, {})", x.s, x.p);
    if (!x.kept.empty()) line("copy({}, {})", x.p, x.kept);
  }
  void chain() {
    Chain x;
    Trips n = trips();
    std::string place;
    x.width = 64 * (1 + below(2));
    bool masked = chance(30), same = x.width == 64 && chance(20), last = chance(15), third = chance(20);
    x.a = load_beside();
    x.b = tile("shared", type, x.width, 64);
    x.c = same ? x.b : tile("shared", type, x.width, 64);
    x.s = tile("fragment", "f32", rows, x.width);
    x.p = tile("fragment", type, rows, x.width);
    if (chance(35)) x.kept = tile("shared", type, rows, x.width), is("factors through shared memory");
    if (chance(60)) x.sums = tile("fragment", "f32", rows);
    x.o = tile("fragment", "f32", rows, 64);
    std::string q = third ? tile("fragment", "f32", rows, 64) : "";
    if (chance(20)) {
      is("a name of what only threads know");
      x.variable = fresh("v");
      tiles.push_back(fmt::format("{} = local i32[]", x.variable));
      line("{}[] = 0", x.variable);
    }
    if (chance(20)) {
      is("a tile that the turn reads again");
      x.again = tile("fragment", "f32", x.width, 64);
      line("clear({})", x.again);
    }
    line("clear({})", x.o);
    if (third) line("clear({})", q), is("two late products");
    if (same) is("one tile for both products");
    loop(n, [&] {
      rows_for("B", x.width, n.most, place);
      line("copy({}, {})", place, x.b);
      first_product(x, masked);
      threads_between(x);
      if (!same) {
        rows_for("C", x.width, n.most, place);
        line("copy({}, {})", place, x.c);
      }
      const std::string& factor = x.kept.empty() ? x.p : x.kept;
      line("gemm({}, {}, {}) {{policy=\"full_row\"}}", factor, x.c, x.o);
      if (third) line("gemm({}, {}, {}) {{policy=\"full_row\"}}", factor, x.c, q);
      read_again(x);
      if (last) {
        is("sums that the turn looks at again");
        nest(rows, 64, [&] { return fmt::format("{0}[i, j] = -{0}[i, j]", x.o); });
      }
    });
    leave(x.o, 64);
    if (third) leave(q, 64);
    if (x.again.empty()) return;
    std::string out = parameter("O", fmt::format("f32[{}, {}, {}, 64]", blocks, turns, x.width));
    line("copy({}, {}[cast<i64>(bx), t, 0 : +{}, 0 : +64])", x.again, out, x.width);
  }

  // ── threads compute a factor ────────────────────────────────────────────────────────────────────────
  // In registers, from a packed tile; what of it keeps the product in its turn, and what not.
  void unpacked() {
    Trips n = trips();
    int64_t width = 64 * (1 + below(2));
    std::string place, packed = tile("shared", "i8", rows, 64), held = tile("fragment", "i8", rows, 64),
                       next = tile("fragment", type, rows, 64), factor = tile("fragment", type, rows, 64),
                       b = tile("shared", type, width, 64), sums = tile("fragment", "f32", rows, width);
    std::string from = parameter("P", fmt::format("i8[{}, 64]", rows * n.most));
    bool copied = chance(80), looked_at = chance(15);
    line("clear({})", sums);
    loop(n, [&] {
      line("copy({}[k*{} : +{}, 0 : +64], {})", from, rows, rows, packed);
      rows_for("B", width, n.most, place);
      line("copy({}, {})", place, b);
      line("copy({}, {})", packed, held);
      std::string more = chance(50) ? fmt::format(" + cast<{}>(k)", type) : "";
      nest(rows, 64, [&] { return fmt::format("{}[i, j] = cast<{}>({}[i, j]){}", next, type, held, more); });
      if (copied) line("copy({}, {})", next, factor), is("a factor that is copied");
      line("gemm({}, {}, {}) {{policy=\"full_row\", trans_b=1}}", copied ? factor : next, b, sums);
      if (looked_at) {
        is("sums that the turn looks at");
        nest(rows, width, [&] { return fmt::format("{0}[i, j] = {0}[i, j] + 1.0", sums); });
      }
    });
    leave(sums, width);
  }

  // ── all of it ───────────────────────────────────────────────────────────────────────────────────────
  void leave(const std::string& sums, int64_t width) {
    std::string out = parameter("O", fmt::format("f32[{}, {}, {}, {}]", blocks, turns,
                                                 rows - (rows > 8 && chance(20) ? 8 : 0), width));
    if (chance(30)) {
      is("threads in front of the store");
      nest(rows, width, [&] { return fmt::format("{0}[i, j] = {0}[i, j] + 1.0", sums); });
    }
    if (chance(15)) {  // within the rows of one warpgroup, or of all
      is("threads exchange in front of the store");
      std::string s = tile("shared", "f32", rows, width);
      int64_t turned = rows % 64 || chance(30) ? rows : 64;
      line("copy({}, {})", sums, s);
      nest(rows, width, [&] {
        return fmt::format("{0}[i, j] = {1}[i // {2} * {2} + {3} - i % {2}, j]", sums, s, turned, turned - 1);
      });
    }
    line("copy({}, {}[cast<i64>(bx), t, 0 : +{}, 0 : +{}])", sums, out, rows, width);
  }
  Program make() {
    threads = chance(30) ? 256 : 128;
    rows = threads / 2;
    bool low = !unpacks && chance(15);  // tiles with fewer rows than an instruction: C is computed transposed
    if (low) rows = 8 * (1 + below(7)), is("low tiles");
    blocks = 1 + below(3), turns = alone ? 1 : 1 + below(3);
    if (many) heads = 1 + below(3), blocks = heads * (2 + below(3)), turns = 1 + below(2);
    by_head = many && chance(75);
    called = alone && chance(50);
    if (called) is("a grid that the call knows"), blocks = 1 + below(6);
    type = chance(70) ? "f16" : "bf16";
    is(turns > 1 ? "in a loop over tiles" : "one tile");
    indent = 2;
    if (alone) {
      line("t = 0");
      products();
    } else {
      under(fmt::format("for t in serial({})", turns), [&] {
        if (unpacks) return unpacked();
        if (chance(10)) return product_of_one_tile();
        (!low && chance(60)) ? chain() : products();
        if (chance(20)) is("two loops"), (!low && chance(50)) ? chain() : products();
      });
    }
    std::string grid = many     ? fmt::format("h: {}, q: {}", heads, blocks / heads)
                       : called ? fmt::format("bx: cast<i64>({})", scalar("g", blocks))
                                : fmt::format("bx: {}", blocks);
    std::string text = "func main(";
    for (auto& p : params) text += (&p == &params[0] ? "" : ", ") + p;
    // With two blocks at once tiles have fewer slots, which are used again sooner, and threads fewer
    // registers.
    std::string two = chance(15) ? " {min_blocks_per_sm=2}" : "";
    if (!two.empty()) is("two blocks at once");
    text += fmt::format("):\n  kernel main grid({}) threads({}){}:\n", grid, threads, two);
    for (auto& t : tiles) text += "    " + t + "\n";
    if (many) text += fmt::format("    bx = q*{} + h\n", heads);
    return {.text = text + this->text(), .given = given};
  }
};

}  // namespace tl::fuzz
