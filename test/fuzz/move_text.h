// Programs that only move values: copies, transposes, views, elements, selections and fills, of every type.
// They are run on any bits, among which are NaN of every kind, and each element of a result has the bits that
// were moved there.
#pragma once
#include "fuzz/view_text.h"

namespace tl::fuzz {

struct MoveText : ViewText {
  std::vector<std::string> types = {};
  std::vector<Shape> shapes = {};

  std::string any_type() {
    if (chance(4)) return pick<std::string>({"i4", "u4", "e2m1"});  // many of their programs are refused
    return pick<std::string>({"f32", "f32",  "f16",  "f16",  "bf16", "bf16", "f64",
                              "f64", "e4m3", "e5m2", "e8m0", "tf32", "i8",   "u8",
                              "i16", "u16",  "i32",  "u32",  "i64",  "u64",  "bool"});
  }
  // A tile whose elements are all written; nothing where there is no room.
  Tile filled(const std::string& kind, const Shape& shape) {
    Tile t = add(scope(), kind, shape);
    if (t.name.empty()) return t;
    if (is_packed(kind) || chance(75))
      line("copy({}, {})", tensor_part(t, false), t.name);
    else
      fill(t);
    return t;
  }
  Tile filled() {
    size_t kind = size_t(below(int64_t(types.size()))), shape = size_t(below(int64_t(shapes.size())));
    return filled(types[kind], shapes[shape]);
  }
  Tile like(const Tile& t, const Shape& shape) {
    Tile found =
        find([&](const Tile& o) { return o.type == t.type && o.shape == shape && o.storage != t.storage; });
    return found.name.empty() || chance(25) ? filled(t.type, shape) : found;
  }

  // ── constants ───────────────────────────────────────────────────────────────────────────────────────
  std::string constant(const std::string& kind) {
    if (kind == "bool") return chance(50) ? "true" : "false";
    if (!is_float(kind)) {
      std::string number = std::to_string(below(8));
      return is_storage(kind) ? fmt::format("cast<{}>({})", kind, number)
                              : fmt::format("{}:{}", number, kind);
    }
    std::string number = pick<std::string>(
        {"1.0", "-0.0", "0.0", "nan", "-nan", "inf", "-inf", "-2.5", "1e9", "-1e9", "1e-9"});
    return kind == "f32" ? number : fmt::format("cast<{}>({})", kind, number);
  }
  void fill(const Tile& t) {
    if (chance(20)) return line("clear({})", t.name);
    line("fill({}, {})", t.name, constant(t.type));
  }

  // ── elements ────────────────────────────────────────────────────────────────────────────────────────
  // An element of a tile of the same type, where the loops of a nest over `to` say.
  std::string element(const Tile& to) {
    size_t rank = to.shape.size();
    std::string before, last = fmt::format("i{}", rank - 1);
    for (size_t d = 0; d + 1 < rank; d++) before += fmt::format("i{}, ", d);
    auto some = [&](const Shape& shape) {
      return find(
          [&](const Tile& t) { return t.type == to.type && t.shape == shape && t.storage != to.storage; });
    };
    int64_t kind = below(8), n = to.shape.back();
    if (kind == 0 && rank > 1) {
      Shape turned = to.shape;
      std::swap(turned[rank - 1], turned[rank - 2]);
      std::string index;
      for (size_t d = 0; d + 2 < rank; d++) index += fmt::format("i{}, ", d);
      if (Tile t = some(turned); !t.name.empty())
        return fmt::format("{}[{}{}, i{}]", t.name, index, last, rank - 2);
    }
    Tile t = some(to.shape);
    if (t.name.empty()) return constant(to.type);
    if (kind == 1) return fmt::format("{}[{}{} - {}]", t.name, before, n - 1, last);
    if (kind == 2) return fmt::format("{}[{}({} + {}) % {}]", t.name, before, last, below(n), n);
    if (kind == 3) {
      Shape at;
      for (int64_t e : t.shape) at.push_back(below(e));
      return fmt::format("{}[{}]", t.name, listed(at));
    }
    return fmt::format("{}[{}]", t.name, indices(to.shape));
  }
  std::string moved(const Tile& to) {
    std::string a = element(to);
    if (chance(30)) a = fmt::format("select({}, {}, {})", place(to), a, element(to));
    if (chance(10) && !is_storage(to.type) && to.type != "bool") {
      std::string as =
          fmt::format("{}{}", is_float(to.type) ? pick<std::string>({"u", "i"}) : "u", bits_of(to.type));
      a = fmt::format("reinterpret<{}>(reinterpret<{}>({}))", to.type, as, a);
    }
    return a;
  }
  std::string place(const Tile& to) {
    std::string i = fmt::format("i{}", below(int64_t(to.shape.size())));
    return pick<std::string>({fmt::format("{} % 2 == 0", i), fmt::format("{} < {}", i, 1 + below(9)),
                              fmt::format("({} > 2 or i0 % 3 == 1)", i), fmt::format("b + {} == 1", i)});
  }
  void element_step(const Tile& to) {
    bool some = chance(25), named = chance(30);
    if (is_packed(to.type)) return;  // both elements of a byte are stored at once, or neither
    std::string a = moved(to), b = moved(to), own = fmt::format("{}[{}]", to.name, indices(to.shape));
    open_nest(to.shape);
    int outer = indent;
    if (some) line("if {}:", place(to)), indent++;
    if (named) line("v = {}", a);
    line("{} = {}", own, named ? "v" : a);
    indent = outer;
    if (some && chance(40)) {
      line("else:"), indent++;
      line("{} = {}", own, b), indent--;
    }
    indent -= int(to.shape.size());
  }

  // ── tiles ───────────────────────────────────────────────────────────────────────────────────────────
  void transpose_step(const Tile& from) {
    if (from.shape.size() < 2 || is_packed(from.type)) return;
    Shape turned = from.shape;
    std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
    Tile to = like(from, turned);
    if (!to.name.empty() && staged(from) && staged(to)) line("transpose({}, {})", from.name, to.name);
  }
  // The memory of a tile as another type: what it holds is moved away, or it is written.
  void seen_step(const Tile& of) {
    std::string as = any_type();
    bool can = bits_of(as) >= least_of(of) && bits_of(as) <= limit_of(of) && as != "bool" &&
               of.type != "bool" && is_packed(as) == is_packed(of.type);
    Tile seen = can ? declare_view(of, as) : Tile{};
    if (seen.name.empty()) return;
    if (chance(40)) return line("copy({}, {})", seen.name, tensor_part(seen, true));
    if (chance(30)) return line("copy({}, {})", tensor_part(seen, false), seen.name);
    Tile other = filled(as, seen.shape);
    if (other.name.empty() || !staged(other) || !staged(seen)) return;
    chance(50) ? line("copy({}, {})", seen.name, other.name) : line("copy({}, {})", other.name, seen.name);
  }
  // A tensor goes through a tile, part by part.
  void loop_step() {
    Tile t = filled(), to = t.name.empty() ? t : like(t, t.shape);
    if (to.name.empty() || !staged(t) || !staged(to)) return;
    std::string kind = pick<std::string>({"serial", "pipelined", "unrolled"});
    loops.push_back({fmt::format("c{}", tensors++), 1 + below(3)});
    line("for {} in {}({}){}:", loops.back().var, kind, loops.back().trips,
         kind == "pipelined" ? fmt::format(" {{num_stages={}}}", 1 + below(3)) : "");
    if (t.scope == "shared" && kind == "pipelined") take_shared(3 * t.size() * bits_of(t.type));
    indent++;
    line("copy({}, {})", tensor_part(t, false), t.name);
    line("copy({}, {})", t.name, to.name);
    indent--;
    loops.pop_back();
  }
  void step() {
    Tile t = any_tile();
    if (t.name.empty()) return;
    switch (below(10)) {
      case 0:
        return transpose_step(t);
      case 1:
      case 2:
        return seen_step(t);
      case 3:
        return loop_step();
      case 4:
        filled();
        return;
      case 5:
        if (!is_packed(t.type)) fill(t);
        return;
      case 6:
      case 7:
        return element_step(t);
      default: {
        Tile to = like(t, t.shape);
        if (!to.name.empty() && staged(t) && staged(to)) line("copy({}, {})", t.name, to.name);
      }
    }
  }

  Program moves() {
    threads = pick<int64_t>({1, 32, 64, 128, 128, 256});
    blocks = pick<int64_t>({1, 1, 2, 3});
    for (int64_t n = 1 + below(2); n > 0; n--) types.push_back(any_type()), shapes.push_back(random_shape());
    indent = 2;
    for (int attempt = 0; tiles.size() < 3 && attempt < 20; attempt++) filled();
    if (tiles.empty()) types = {"f32"}, shapes = {{64}}, filled();
    for (int64_t steps = 2 + below(8); steps > 0; steps--) step();
    for (auto& t : std::vector<Tile>(tiles))
      if (chance(70) || t.name == tiles.back().name) line("copy({}, {})", t.name, tensor_part(t, true));
    program.text =
        fmt::format("func main({}):\n  kernel main grid(b: {}) threads({}):\n", params, blocks, threads);
    for (auto& l : declarations) program.text += "    " + l + "\n";
    program.text += text();
    return program;
  }
};

}  // namespace tl::fuzz
