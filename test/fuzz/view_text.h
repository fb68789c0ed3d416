// Views in random tile programs: another type, or shape, of the memory of tiles and tensors, which may have
// layouts.
//
// At a time a tile's memory has a meaning under one type: there its values are small integers.  A view of
// another type sees bits: it reads a few of them, which are a small integer again, or writes such as make
// small integers.  Or it is filled itself, and has the meaning from then on.
#pragma once
#include <set>

#include "fuzz/tile_text.h"

namespace tl::fuzz {

struct ViewText : NestText {
  std::map<std::string, int64_t> widest =
      {};                             // by storage: of the types that its layout lets it be seen as, in bits
  std::set<std::string> placed = {};  // storage that has a layout

  static bool is_whole(const std::string& type) { return type != "bool" && !is_packed(type); }
  std::string whole_number(int64_t least, int64_t most) {
    for (;;) {
      std::string t = pick<std::string>({"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "u4"});
      if (bits_of(t) >= least && bits_of(t) <= most) return t;
    }
  }

  // ── layouts ─────────────────────────────────────────────────────────────────────────────────────────
  static std::string product_of(const Shape& shape,
                                int64_t inner) {  // of the indices but the last, row-major
    std::string out;
    for (size_t d = 0; d + 1 < shape.size(); d++) {
      int64_t stride = inner;
      for (size_t e = d + 1; e + 1 < shape.size(); e++) stride *= shape[e];
      out += fmt::format("i{}*{} + ", d, stride);
    }
    return out;
  }
  // A layout of a shared tile, which keeps 8 bytes together unless it is seen as nothing wider than it is;
  // nothing where none fits.  `elements`: how many it takes.
  std::string shared_layout(const Tile& t, bool keeps_wide, int64_t& elements) {
    elements = t.size();
    if (is_packed(t.type)) return "";
    int64_t last = t.shape.back(), chunk = pick<int64_t>({64, 128}) / bits_of(t.type), rows = t.size() / last;
    size_t rank = t.shape.size();
    std::string j = fmt::format("i{}", rank - 1), map;
    auto chunked = [&](const std::string& of) {
      return fmt::format("{}({})*{} + {}%{}", product_of(t.shape, last), of, chunk, j, chunk);
    };
    bool whole = last % chunk == 0;
    int64_t chunks = last / chunk, kind = below(keeps_wide ? 4 : 6);
    if (kind == 0 && whole && rank > 1 && (chunks & (chunks - 1)) == 0) {
      map = chunked(fmt::format("{}//{} ^ i{}%{}", j, chunk, rank - 2, chunks));
    } else if (kind == 1 && whole && rank > 1) {
      map = fmt::format("{}{}", product_of(t.shape, last + chunk), j);
      elements = rows * (last + chunk);
    } else if (kind == 2 && whole) {
      map = fmt::format("{0}//{1}*{2} + {3}{0}%{1}", j, chunk, rows * chunk, product_of(t.shape, chunk));
    } else if (kind == 3 && whole) {
      map = chunked(fmt::format("{} - {}//{}", chunks - 1, j, chunk));
    } else if (kind == 4 && rank > 1) {
      map = fmt::format("{}{}", product_of(t.shape, last + 1), j);
      elements = rows * (last + 1);
    } else if (kind == 5) {
      map = fmt::format("{}{}*{}", product_of(t.shape, 1), j, rows);
    }
    return map.empty() ? "" : fmt::format(" layout(({}) -> {})", indices(t.shape), map);
  }
  // So many neighbours after one another in the registers of each thread.
  std::string fragment_layout(const Tile& t) {
    int64_t per_thread = pick<int64_t>({2, 4, 8, 16}), last = t.shape.back();
    if (last % per_thread || t.size() / per_thread > threads || per_thread * bits_of(t.type) % 64) return "";
    std::string flat = fmt::format("{}i{}", product_of(t.shape, last), t.shape.size() - 1);
    return fmt::format(" layout(({}, r) -> (({})//{}, ({})%{}))", indices(t.shape), flat, per_thread, flat,
                       per_thread);
  }
  // A tile with a layout of its own, filled.
  Tile laid_out() {
    std::string kind = type(), where = chance(80) || !is_whole(kind) ? "shared" : "fragment";
    Tile t = add(where, kind, random_shape());
    if (t.name.empty()) return t;
    bool keeps_wide = chance(70);
    int64_t elements = t.size();
    std::string layout = where == "shared" ? shared_layout(t, keeps_wide, elements) : fragment_layout(t);
    if (where == "shared" && !take_shared((elements - t.size()) * bits_of(kind))) layout.clear();
    declarations.back() += layout;
    if (!layout.empty()) placed.insert(t.name);
    if (!layout.empty()) widest[t.name] = keeps_wide || where == "fragment" ? 64 : bits_of(kind);
    initialise(t);
    return t;
  }

  // ── views ───────────────────────────────────────────────────────────────────────────────────────────
  // The shape of a view of that type; empty where there is none.
  Shape seen_shape(const Tile& of, const std::string& as) {
    int64_t bits = of.size() * bits_of(of.type), width = bits_of(as),
            last = of.shape.back() * bits_of(of.type);
    if (bits % width || bits / width > 1 << 15) return {};
    Shape shape = of.shape;
    int64_t n = bits / width, rows = pick<int64_t>({2, 3, 4, 8});
    if (of.scope == "fragment" || chance(60)) {
      if (last % width) return {};
      shape.back() = last / width;
    } else if (chance(50) && n % rows == 0) {
      shape = {rows, n / rows};
    } else {
      shape = {n};
    }
    return is_packed(as) && shape.back() % 2 ? Shape{} : shape;
  }
  Tile declare_view(const Tile& of, const std::string& as, bool own_layout = false) {
    Tile t{.name = fmt::format("V{}", tensors), .scope = of.scope, .type = as, .shape = seen_shape(of, as)};
    t.storage = of.storage;
    if (t.shape.empty()) return {};
    tensors++;
    int64_t elements;
    std::string layout;
    if (own_layout) layout = shared_layout(t, true, elements);
    if (!layout.empty() && !take_shared((elements - t.size()) * bits_of(as))) layout.clear();
    if (!layout.empty()) placed.insert(t.storage);
    declarations.push_back(
        fmt::format("{} = {} {}[{}] alias({}){}", t.name, t.scope, as, listed(t.shape), t.storage, layout));
    return t;
  }
  // As far as its memory lets it be seen: not of fragments as wider types, unless they say how they lie.
  int64_t limit_of(const Tile& t) const {
    auto it = widest.find(t.storage);
    if (it != widest.end()) return it->second;
    return t.scope == "fragment" ? bits_of(t.type) : 64;
  }
  int64_t least_of(const Tile& t) const { return t.scope == "fragment" ? 8 : 4; }

  // Three bits of an element of `seen`, none of which is the sign of a float in the memory.
  std::string some_bits(const Tile& of, const Tile& seen, const std::string& index) {
    int64_t o = bits_of(of.type), w = bits_of(seen.type), first = 0;
    if (is_float(of.type))
      first = std::min(w, o) - (std::min(w, o) > 10 && chance(50) ? 9 : 4);
    else
      first = below(std::max<int64_t>(1, std::min(w, o) - 3)) / 2;
    if (w > o) first += below(w / o) * o;
    return fmt::format("cast<{}>({}[{}]) >> {} & 7", w > 32 ? "i64" : "i32", seen.name, index, first);
  }
  void read_bits(const Tile& of) {
    Tile seen = declare_view(of, whole_number(least_of(of), limit_of(of)));
    if (seen.name.empty()) return;
    Tile to =
        add(chance(80) ? "fragment" : "shared", pick<std::string>({"f32", "i32", "f16", "i8"}), seen.shape);
    if (to.name.empty()) return;
    open_nest(to.shape);
    line("{}[{}] = cast<{}>({})", to.name, indices(to.shape), to.type,
         some_bits(of, seen, indices(to.shape)));
    indent -= int(to.shape.size());
  }
  // Bits that make small integers of whole numbers.
  void write_bits(const Tile& of) {
    if (is_float(of.type) || of.type == "bool") return read_bits(of);
    Tile seen = declare_view(of, whole_number(8, limit_of(of)));
    if (seen.name.empty()) return;
    int64_t o = bits_of(of.type), w = bits_of(seen.type), parts = std::max<int64_t>(1, o / w);
    if (seen.shape.back() % parts) return;
    std::string last = fmt::format("i{}", seen.shape.size() - 1),
                value = fmt::format("cast<i64>((i0 + {}) % 5)", last);
    std::string sum = value;
    for (int64_t k = 1; k < w / o; k++) sum += fmt::format(" | cast<i64>((i0 + {}) % 4) << {}", k, k * o);
    if (parts > 1) sum = fmt::format("select({} % {} == 0, {}, cast<i64>(0))", last, parts, value);
    open_nest(seen.shape);
    line("{}[{}] = cast<{}>({})", seen.name, indices(seen.shape), seen.type, sum);
    indent -= int(seen.shape.size());
  }
  // The bits themselves are a result.
  void show_bits(const Tile& of) {
    if (is_float(of.type) || depth > 0) return read_bits(of);
    Tile seen = declare_view(of, whole_number(8, limit_of(of)));
    if (!seen.name.empty()) line("copy({}, {})", seen.name, tensor_part(seen, true));
  }
  // From here on it is the view that has a meaning.
  void fill_view(const Tile& of) {
    std::string as = type();
    bool can = nested == 0 && bits_of(as) <= limit_of(of) && (of.scope == "shared" || is_whole(as)) &&
               !is_packed(as) &&
               !is_packed(of.type);  // pairs are written by neighbours, as no layout is sure to let them
    bool own_layout = of.scope == "shared" && !placed.contains(of.storage) && chance(40);
    Tile seen = can ? declare_view(of, as, own_layout) : Tile{};
    if (seen.name.empty()) return read_bits(of);
    std::erase_if(tiles, [&](const Tile& t) { return t.storage == of.storage; });
    tiles.push_back(seen);
    initialise(seen);
  }
  // A tensor is read as another type.
  void read_tensor_bits() {
    Tile given{
        .name = fmt::format("X{}", tensors++), .scope = "global", .type = type(), .shape = random_shape()};
    given.storage = given.name;
    Tile seen = is_whole(given.type) ? declare_view(given, whole_number(8, 64)) : Tile{};
    if (seen.name.empty()) return;
    parameter(given.name, given.type, listed(given.shape));
    Tile to = add(scope(), "i32", seen.shape);
    if (to.name.empty()) to = add("shared", "i8", seen.shape);
    if (to.name.empty()) return;
    open_nest(to.shape);
    line("{}[{}] = cast<{}>({})", to.name, indices(to.shape), to.type,
         some_bits(given, seen, indices(to.shape)));
    indent -= int(to.shape.size());
  }

  void view_step() {
    if (chance(15)) return read_tensor_bits();
    Tile of = chance(60) ? laid_out() : find([&](const Tile& t) {
      return !t.rough && (t.scope == "shared" || is_whole(t.type));
    });
    if (of.name.empty()) return;
    switch (below(5)) {
      case 0:
        return write_bits(of);
      case 1:
        return show_bits(of);
      case 2:
        return fill_view(of);
      default:
        return read_bits(of);
    }
  }
};

}  // namespace tl::fuzz
