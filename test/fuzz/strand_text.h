// What an iteration of a random pipelined program does: strands of steps, each of which fills tiles and uses
// them; what they have read is in sums, which are looked at in the end.
#pragma once
#include "fuzz/fill_text.h"

namespace tl::fuzz {

struct Strand {
  std::vector<Step> steps = {};
  std::vector<Tile> filled = {};  // wholly, in each iteration
  bool always = false;            // in each iteration
  void add(const std::vector<Step>& more) { steps.insert(steps.end(), more.begin(), more.end()); }
  void add(const Step& one) {
    if (!one.empty()) steps.push_back(one);
  }
};

struct StrandText : FillText {
  std::string any_kind() { return kinds[size_t(below(int64_t(kinds.size())))]; }
  Shape any_shape() { return shapes[size_t(below(int64_t(shapes.size())))]; }
  std::string limited(const std::string& type, const std::string& value) {
    return type == "f32" ? fmt::format("min(max({}, -500.0), 500.0)", value)
                         : fmt::format("min(max({}, -500:i32), 500:i32)", value);
  }

  // ── uses ────────────────────────────────────────────────────────────────────────────────────────────
  Step add_up(const Tile& t) {
    Tile s = sum(sum_type(t.type), t.shape);
    if (s.name.empty()) return {};
    is("use: a nest");
    std::string last = fmt::format("i{}", t.shape.size() - 1), at = indices(t.shape);
    size_t before_last = at.size() - last.size();
    int64_t n = t.shape.back();
    std::string other =
        chance(40)   ? at
        : chance(60) ? fmt::format("{}{} - {}", at.substr(0, before_last), n - 1, last)
                     : fmt::format("{}({} + {}) % {}", at.substr(0, before_last), last, 1 + below(n), n);
    return nest(t.shape, [&] {
      bool some = chance(15);
      if (some) line("if {} % 2 == {}:", last, below(2)), indent++;
      line("{0}[{1}] = {0}[{1}] + cast<{2}>({3}[{4}])", s.name, at, s.type, t.name, other);
      if (some) indent--;
    });
  }
  Step reduce(const Tile& t) {
    if (t.shape.size() != 2) return add_up(t);
    std::string type = sum_type(t.type), op = pick<std::string>({"sum", "sum", "max", "absmax"});
    int64_t dim = below(2);
    Tile s = sum(type, {t.shape[size_t(1 - dim)]}), r = registers_of(type, t.shape);
    if (s.name.empty() || r.name.empty()) return add_up(t);
    is("use: a reduction");
    return step([&] {
      bool direct = t.type == type && chance(50);
      if (!direct) line("copy({}, {})", t.name, r.name);
      line("reduce_{}({}, {}) {{dim={}, clear=0}}", op, direct ? t.name : r.name, s.name, dim);
    });
  }
  Step scan(const Tile& t) {
    std::string type = sum_type(t.type);
    Tile s = sum(type, t.shape), r = registers_of(type, t.shape);
    if (s.name.empty() || r.name.empty() || !take_shared(2 * t.size() * 32)) return add_up(t);
    is("use: a scan");
    return step([&] {
      line("copy({}, {})", t.name, r.name);
      line("cumsum({}, {}) {{dim={}, reverse={}}}", r.name, r.name, below(int64_t(t.shape.size())), below(2));
      put(nest(t.shape, [&] {
        line("{0}[{1}] = {2}", s.name, indices(t.shape),
             limited(type, fmt::format("{0}[{1}] + {2}[{1}]", s.name, indices(t.shape), r.name)));
      }));
    });
  }
  // To a tensor, each iteration its own part.
  Step give_out(const Tile& t) {
    is("result of each iteration");
    Source y{.name = fresh_name("Y"), .first = {"b"}, .extents = {0}};
    std::string extents = std::to_string(blocks);
    for (auto& l : around) {
      y.first.push_back(l.var), y.extents.push_back(0);
      extents += fmt::format(", {}", l.highest + std::max<int64_t>(l.most, 1));
    }
    for (int64_t e : t.shape)
      y.first.push_back("0"), y.extents.push_back(e), extents += fmt::format(", {}", e);
    parameter(y.name, t.type, extents);
    return step([&] { line("copy({}, {})", t.name, y.region()); });
  }
  Step use(const Tile& t) {
    switch (below(10)) {
      case 0:
      case 1:
        return reduce(t);
      case 2:
        return scan(t);
      case 3:
        return around.empty() ? add_up(t) : give_out(t);
      default:
        return add_up(t);
    }
  }

  // ── strands ─────────────────────────────────────────────────────────────────────────────────────────
  // A tile, filled and used; before it is filled, or after; under a condition, one or both of them.
  Strand simple() {
    Strand s;
    Tile t = tile(any_kind(), any_shape());
    if (t.name.empty()) return s;
    if (draws(12, "carried: read before it is written")) {
      begin_with(t);
      s.add(use(t));
      s.add(fill(t));
      return s;
    }
    bool around_use = chance(12);
    s.add(fill(t));
    Step used = use(t);
    if (around_use && !used.empty()) {
      is("condition around the use alone");
      used = under("if " + condition(), used);
    }
    s.add(used);
    s.filled.push_back(t);
    if (chance(15)) s.add(use(t));
    return s;
  }
  // The condition is an element of a tile, which the iteration copies.  Where it is around the use too, both
  // must see the same element: other strands, which may come between them, do not have that tile.
  Strand of_an_element() {
    Strand s;
    bool begun = chance(50);
    Tile flags = chance(40) ? registers_of("i32", {4})
                 : begun    ? tile("i32", {4})
                            : tile_alone("i32", {4}),
         t = tile(any_kind(), any_shape());
    if (flags.name.empty() || t.name.empty()) return s;
    is("condition: element of a tile");
    s.add(copy_of(flags));
    std::string cond = fmt::format("if {}[{}] > {}", flags.name, below(4), below(2));
    if (begun) {
      begin_with(t);
      s.add(under(cond, copy_of(t)));
      s.add(use(t));
    } else {
      for (auto& one : fill_plainly(t)) s.add(under(cond, one));
      s.add(under(cond, use(t)));
    }
    return s;
  }
  std::vector<Step> fill_plainly(const Tile& t) {
    if (is_plain(t)) return fill_plain(t);
    return {copy_of(t)};
  }
  // `alone`: all of a loop, and of extents and with copies that let it run in steps.
  Strand multiply(bool alone = false) {
    Strand s;
    auto [type, to] = pick<std::pair<std::string, std::string>>({{"f16", "f32"},
                                                                 {"f16", "f32"},
                                                                 {"f16", "f32"},
                                                                 {"bf16", "f32"},
                                                                 {"i8", "i32"},
                                                                 {"f32", "f32"},
                                                                 {"e4m3", "f32"}});
    auto dim = [&] { return alone ? pick<int64_t>({32, 64}) : pick<int64_t>({16, 16, 32, 32, 64}); };
    int64_t m = dim(), n = dim(), k = dim();
    bool ta = chance(20), tb = chance(40);
    Tile a = tile(type, ta ? Shape{k, m} : Shape{m, k}), c = sum(to, {m, n}, 80);
    if (a.name.empty() || c.name.empty()) return s;
    Shape shape = tb ? Shape{n, k} : Shape{k, n};
    Right b = (type == "f16" || type == "bf16") && chance(alone ? 70 : 40)
                  ? computed(type, shape, tb ? 0 : 1, a)
                  : Right{tile(type, shape, {a})};
    if (b.operand.name.empty()) return s;
    if (b.filled.empty()) b.filled = {b.operand};
    is(b.nest.empty() ? "use: gemm" : "use: gemm with a computed operand");
    Tile left = a;
    if (!ta && chance(20)) left = registers_of(type, a.shape);
    if (left.name.empty()) return s;
    if (alone) is("a gemm alone with its copies");
    b.filled.insert(b.filled.begin(), a);
    for (auto& t : b.filled) alone ? s.add(copy_of(t)) : s.add(fill(t));
    s.add(step([&] {
      put(b.nest);
      if (left.name != a.name) line("copy({}, {})", a.name, left.name);
      line("gemm({}, {}, {}) {{clear_accum={}, policy=\"{}\", trans_a={}, trans_b={}}}", left.name,
           b.operand.name, c.name, chance(15) ? fmt::format("({} == {})", loop().var, loop().first) : "0",
           pick<std::string>({"square", "full_row", "full_col"}), ta ? 1 : 0, tb ? 1 : 0);
    }));
    s.filled = b.filled;
    return s;
  }
  // The right operand of a gemm, and what it takes to have it.
  struct Right {
    Tile operand = {};
    std::vector<Tile> filled = {};
    Step nest = {};
  };
  // Computed in a fragment: from small numbers, or two of them in a byte, by scales that go with a dimension.
  Right computed(const std::string& type, const Shape& shape, size_t scaled, const Tile& other) {
    bool pairs = chance(50), held = chance(40);
    Shape packed = shape;
    if (pairs) packed[1] /= 2;
    Tile codes = tile(pairs ? "u8" : pick<std::string>({"i8", "u8", type}), packed, {other}),
         from = held ? registers_of(codes.type, packed) : codes, to = registers_of(type, shape), scales;
    if (codes.name.empty() || from.name.empty() || to.name.empty()) return {};
    Right right{.operand = to, .filled = {codes}};
    if (chance(60)) scales = tile(type, {shape[scaled]}, {other, codes});
    if (!scales.name.empty()) right.filled.push_back(scales);
    right.nest = step([&] {
      if (held) line("copy({}, {})", codes.name, from.name);
      int64_t at_once = chance(40) ? 2 : 1;  // neighbours that one iteration stores
      put(nest({shape[0], shape[1] / at_once}, [&] {
        for (int64_t place = 0; place < at_once; place++) {
          std::string i1 = at_once == 1 ? "i1" : fmt::format("(i1*2 + {})", place);
          std::string code =
              pairs ? fmt::format("(cast<i64>({0}[i0, {1}//2]) >> ({1}%2*4)) % 16", from.name, i1)
                    : fmt::format("{}[i0, {}]", from.name, i1);
          std::string value = from.type == type ? code : fmt::format("cast<{}>({})", type, code);
          line("{}[i0, {}] = {}{}", to.name, i1, value,
               scales.name.empty() ? "" : fmt::format("*{}[{}]", scales.name, scaled ? i1 : "i0"));
        }
      }));
    });
    return right;
  }
  // P = Q Kᵀ of the present keys, then O += P V.
  Strand attend() {
    Strand s;
    int64_t m = pick<int64_t>({16, 32, 64}), n = pick<int64_t>({16, 32}), d = pick<int64_t>({16, 32, 64});
    Tile q = add("shared", "f16", {m, d}), k = tile("f16", {n, d}), v = tile("f16", {n, d}, {k}),
         p = registers_of("f32", {m, n}), h = registers_of("f16", {m, n}), o = sum("f32", {m, d}, 80);
    for (auto* t : {&q, &k, &v, &p, &h, &o})
      if (t->name.empty()) return s;
    is("use: two gemms after each other");
    std::vector<Around> outer = std::exchange(around, {});
    before(scope, step([&] { line("copy({}, {})", source(q).region(), q.name); }));
    around = std::move(outer);
    s.add(fill(k));
    s.add(fill(v));
    s.add(step([&] {
      bool clears = !own_copies && chance(50);  // else the lockstep machine reads what nobody has written
      if (!clears) line("clear({})", p.name);
      line("gemm({}, {}, {}) {{clear_accum={}, trans_b=1}}", q.name, k.name, p.name, clears ? 1 : 0);
      put(nest({m, n},
               [&] { line("{}[i0, i1] = {}", h.name, stored(h, fmt::format("{}[i0, i1]", p.name))); }));
      line("gemm({}, {}, {}) {{clear_accum=0}}", h.name, v.name, o.name);
    }));
    s.filled = {k, v};
    return s;
  }
  // A maximum so far, and sums that turn about whenever it grows.
  Strand running() {
    Strand s;
    Shape shape = any_shape();
    if (shape.size() != 2) shape = {16, 16};
    Tile t = tile(any_kind(), shape);
    if (t.name.empty() || t.type == "i64" || t.type == "f64") return s;
    int64_t r = shape[0];
    Tile x = registers_of("f32", shape), last = registers_of("f32", {r}), part = registers_of("f32", {r}),
         most = sum("f32", {r}, 0), all = sum("f32", {r}, 0), o = sum("f32", shape, 0);
    for (auto* f : {&x, &last, &part, &most, &all, &o})
      if (f->name.empty()) return s;
    is("use: running statistics");
    s.add(fill(t));
    s.add(step([&] {
      line("copy({}, {})", t.name, x.name);
      line("copy({}, {})", most.name, last.name);
      line("reduce_max({}, {}) {{dim=1, clear=0}}", x.name, most.name);
      put(nest(shape, [&] { line("{0}[i0, i1] = {0}[i0, i1] - {1}[i0]", x.name, most.name); }));
      if (own_copies) line("clear({})", part.name);  // as above
      line("reduce_sum({}, {}) {{dim=1, clear=1}}", x.name, part.name);
      std::string grew = fmt::format("{}[i0] == {}[i0]", last.name, most.name);
      put(nest({r}, [&] {
        line("{0}[i0] = {1}", all.name,
             limited("f32",
                     fmt::format("select({0}, {1}[i0], -{1}[i0]) + {2}[i0]", grew, all.name, part.name)));
      }));
      put(nest(shape, [&] {
        line("{0}[i0, i1] = select({1}, {0}[i0, i1], -{0}[i0, i1]) + {2}[i0, i1]", o.name, grew, x.name);
      }));
    }));
    s.filled = {t};
    return s;
  }
  // Into registers alone; or straight from the tensor, where it is added up.
  Strand loads() {
    Strand s;
    std::string type = any_kind();
    Shape shape = any_shape();
    Tile to = sum(sum_type(type), shape);
    if (to.name.empty()) return s;
    std::string at = fmt::format("{}[{}]", to.name, indices(shape));
    if (chance(50)) {
      Tile r = registers_of(type, shape);
      if (r.name.empty()) return s;
      is("loaded into a fragment");
      Step load = step([&] { line("copy({}, {})", source(r).region(), r.name); });
      s.add(load);
      s.add(
          nest(shape, [&] { line("{0} = {0} + cast<{1}>({2}[{3}])", at, to.type, r.name, indices(shape)); }));
      return s;
    }
    is("loaded in a nest");
    bool indirect = chance(40);
    if (indirect) is("indirect rows: a tensor");
    Source from = source(type, shape);
    std::string row = indirect ? fmt::format("cast<i64>({}) + 3", source("i32", {shape[0]}).element()) : "";
    s.add(nest(shape, [&] { line("{0} = {0} + cast<{1}>({2})", at, to.type, from.element(row)); }));
    return s;
  }
};

}  // namespace tl::fuzz
