// What a random tile program is written with: tiles as far as they fit, parts of tensors, loop nests over
// tiles.
#pragma once
#include <algorithm>

#include "fuzz/division_text.h"
#include "fuzz/tile_program.h"

namespace tl::fuzz {

using Shape = std::vector<int64_t>;

struct Tile {
  std::string name = {}, scope = {}, type = {};
  Shape shape = {};
  std::string storage = name;  // of the tile whose memory it is
  bool rough = false;          // its values are not exact
  int64_t size() const {
    int64_t n = 1;
    for (int64_t e : shape) n *= e;
    return n;
  }
};

inline bool is_float(const std::string& type) {
  return type[0] == 'f' || type == "bf16" || type == "tf32" || type[0] == 'e';
}
inline bool is_unsigned(const std::string& type) { return type[0] == 'u'; }
inline bool is_packed(const std::string& type) { return type == "i4" || type == "u4" || type == "e2m1"; }
inline bool is_storage(const std::string& type) {
  return type == "tf32" || type[0] == 'e' || is_packed(type);
}
inline int64_t bits_of(const std::string& type) {
  if (is_packed(type)) return 4;
  if (type == "bool" || type[0] == 'e') return 8;
  return std::stoll(type.substr(type.find_first_of("0123456789")));
}
// Up to where all integers are exact.
inline int64_t exact_to(const std::string& type) {
  if (!is_float(type) || type == "f64") return INT32_MAX;
  return type == "f32" || type == "tf32" ? 1 << 24 : type == "f16" ? 2048 : type == "bf16" ? 256 : 8;
}
inline std::string listed(const Shape& values) { return fmt::format("{}", fmt::join(values, ", ")); }
inline std::string indices(const Shape& shape) {
  std::string out;
  for (size_t d = 0; d < shape.size(); d++) out += fmt::format("{}i{}", d ? ", " : "", d);
  return out;
}

struct Loop {
  std::string var;
  int64_t trips;
};

struct TileText : RandomText {
  int64_t shared_limit, register_limit;
  Program program = {};
  int64_t threads = 0, first_thread = 0, blocks = 1, shared_bytes = 0,
          registers = 0;  // registers: 32-bit ones of fragments, per thread
  std::vector<Tile> tiles = {};
  std::vector<Loop> loops = {};
  std::vector<std::string> declarations = {}, kernels = {};
  std::string params = {}, scalar = {};
  std::vector<std::pair<std::string, Tile>> written = {};  // tensors of the kernels before
  int tensors = 0, nested = 0, depth = 0;

  // ── choices ─────────────────────────────────────────────────────────────────────────────────────────
  int64_t extent(int64_t most) {
    int64_t e = chance(50) ? pick<int64_t>({1, 2, 4, 8, 16, 32, 64, 128, 256}) : 1 + below(300);
    return std::clamp<int64_t>(e, 1, std::max<int64_t>(1, most));
  }
  Shape random_shape() {
    Shape shape;
    int64_t rank = pick<int64_t>({1, 1, 2, 2, 2, 2, 3, 4}), left = 1 << (8 + below(6));
    for (int64_t d = 0; d < rank; d++) {
      shape.push_back(extent(std::min<int64_t>(left, 300)));
      left = std::max<int64_t>(1, left / shape.back());
    }
    std::shuffle(shape.begin(), shape.end(), random);
    return shape;
  }
  std::string scope() { return pick<std::string>({"shared", "fragment"}); }
  std::string type() {
    return chance(60) ? pick<std::string>({"f32", "f16", "i32"})
                      : pick<std::string>({"bf16", "f64", "i8", "i16", "i64", "u8", "u32", "bool", "e4m3",
                                           "e5m2", "tf32", "i4", "u4", "e2m1"});
  }
  // Inside of a loop or condition what is exact must stay so, whatever runs first.
  bool usable(const Tile& t) const { return !t.rough || nested == 0; }
  template <class F>
  Tile find(F fits) {
    std::vector<const Tile*> found;
    for (auto& t : tiles)
      if (usable(t) && fits(t)) found.push_back(&t);
    return found.empty() ? Tile{} : *found[size_t(below(int64_t(found.size())))];
  }
  Tile any_tile() {
    return find([](const Tile&) { return true; });
  }
  Tile exact_tile() {
    return find([](const Tile& t) { return !t.rough; });
  }
  void mark(const Tile& t, bool rough) {
    for (auto& other : tiles) other.rough |= rough && other.storage == t.storage;
    if (rough) roughen(t.type);
  }
  void roughen(const std::string& type) {
    int64_t bits = bits_of(type);
    program.tolerance = std::max(program.tolerance, type == "bf16"  ? 0.2
                                                    : type == "f16" ? 0.03
                                                    : bits >= 32    ? 2e-3
                                                                    : 0.5);
  }

  // ── tiles, as far as they fit ─────────────────────────────────────────────────────────────────────────
  bool take_shared(int64_t bits) {
    int64_t bytes = (bits / 8 + 127) / 128 * 128;
    if (shared_bytes + bytes > shared_limit) return false;
    shared_bytes += bytes;
    return true;
  }
  Tile add(const std::string& scope, const std::string& type, const Shape& shape) {
    Tile t{.name = fmt::format("{}{}", scope == "shared" ? "S" : "F", tensors++),
           .scope = scope,
           .type = type,
           .shape = shape};
    if (is_packed(type) && shape.back() % 2) return {};
    int64_t bits = t.size() * bits_of(type);
    if (scope == "shared") {
      if (!take_shared(bits)) return {};
    } else {
      int64_t wanted = (bits + 32 * threads - 1) / (32 * threads);
      if (registers + wanted > register_limit) return {};
      registers += wanted;
    }
    declarations.push_back(fmt::format("{} = {} {}[{}]", t.name, scope, type, listed(shape)));
    tiles.push_back(t);
    return t;
  }
  // Room for a fragment's copy in shared memory.
  bool staged(const Tile& t) { return t.scope == "shared" || take_shared(t.size() * bits_of(t.type)); }

  void parameter(const std::string& name, const std::string& type, const std::string& extents) {
    params += fmt::format("{}{}: {}[{}]", params.empty() ? "" : ", ", name, type, extents);
  }
  // A part of a new tensor, of the tile's shape: the whole of it, or some of a tensor that is larger or
  // smaller, the block's own rows, the loop's own.  What each block writes is its own.
  std::string tensor_part(const Tile& t, bool output) {
    std::string name = fmt::format("{}{}", output ? "Y" : "X", tensors++), ranges, extents;
    bool own = blocks > 1 && (output || chance(60));
    bool by_loop = !output && !loops.empty() && chance(60);
    for (size_t d = 0; d < t.shape.size(); d++) {
      int64_t e = t.shape[d], size = e;
      std::string first = "0";
      bool pairs = is_packed(t.type) && d + 1 == t.shape.size();
      if (d == 0 && own)
        first = fmt::format("b*{}", e), size = blocks * e;
      else if (by_loop && d == (own ? 1 : 0))
        first = fmt::format("{}*{}", loops.back().var, e), size = loops.back().trips * e;
      else if (chance(15))
        first = std::to_string(pairs ? 2 * below(3) : below(5)), size += below(9);
      if (chance(25)) size = std::max<int64_t>(1, size - below(e / 2 + 1));
      if (pairs) size += size % 2;
      bool open = !pairs && chance(15);
      if (open) program.given[fmt::format("n{}", tensors)] = double(size);
      extents +=
          fmt::format("{}{}", d ? ", " : "", open ? fmt::format("n{}", tensors++) : std::to_string(size));
      ranges += fmt::format("{}{} : +{}", d ? ", " : "", first, e);
    }
    parameter(name, t.type, extents);
    return fmt::format("{}[{}]", name, ranges);
  }
  void initialise(const Tile& t) {
    if (chance(10) && !is_storage(t.type) && t.type != "bool")
      line("{}", chance(50) ? fmt::format("clear({})", t.name)
                            : fmt::format("fill({}, {})", t.name, is_float(t.type) ? "1.0" : "1"));
    else if (t.scope == "shared" && t.storage == t.name && (t.type == "f32" || t.type == "i32") && chance(15))
      line("async_copy({}, {})", tensor_part(t, false), t.name), line("cp_async_wait_group(0:i32)");
    else
      line("copy({}, {})", tensor_part(t, false), t.name);
  }
  Tile fresh(const std::string& scope, const std::string& type, const Shape& shape) {
    Tile t = add(scope, type, shape);
    if (!t.name.empty()) initialise(t);
    return t;
  }
};

// Loop nests over the elements of a tile.
struct NestText : TileText {
  void open_nest(const Shape& shape) {
    for (size_t d = 0; d < shape.size(); d++, indent++) line("for i{} in parallel({}):", d, shape[d]);
  }
  // An operand as an f32, of a loop nest over `shape` with variables i0, i1, …: the same shape, broadcast,
  // permuted, backwards, one element, gathered.  `exact`: no rough one.
  std::string operand(const Shape& shape, bool exact) {
    auto of = [&](const Tile& t, const std::string& index) {
      return fmt::format("cast<f32>({}[{}])", t.name, index);
    };
    auto fits = [&](const Shape& s) {
      return find([&](const Tile& t) { return t.shape == s && !(exact && t.rough); });
    };
    size_t rank = shape.size();
    std::string before;
    for (size_t d = 0; d + 1 < rank; d++) before += fmt::format("i{}, ", d);
    switch (below(10)) {
      case 0: {  // a broadcast of one dimension
        size_t d = size_t(below(int64_t(rank)));
        Tile t = fits({shape[d]});
        if (!t.name.empty()) return of(t, fmt::format("i{}", d));
        break;
      }
      case 1: {  // two dimensions exchanged
        if (rank < 2) break;
        Shape turned = shape;
        std::swap(turned[rank - 1], turned[rank - 2]);
        Tile t = fits(turned);
        if (t.name.empty()) break;
        std::string index;
        for (size_t d = 0; d + 2 < rank; d++) index += fmt::format("i{}, ", d);
        return of(t, fmt::format("{}i{}, i{}", index, rank - 1, rank - 2));
      }
      case 2: {  // an element all iterations share
        Tile t = exact ? exact_tile() : any_tile();
        if (t.name.empty()) break;
        Shape at;
        for (int64_t e : t.shape) at.push_back(below(e));
        return of(t, listed(at));
      }
      case 3: {  // the loops backwards in the last dimension
        Tile t = fits(shape);
        if (!t.name.empty()) return of(t, fmt::format("{}{} - i{}", before, shape.back() - 1, rank - 1));
        break;
      }
      case 4: {  // of a tensor, where another element says
        Tile t = fits(shape);
        if (t.name.empty() || t.rough || t.type == "bool") break;
        std::string name = fmt::format("X{}", tensors++);
        parameter(name, "f32", std::to_string(1 + below(12)));
        return fmt::format("{}[cast<i64>({}[{}]) + {}]", name, t.name, indices(shape), below(6));
      }
      case 5:
        return fmt::format("cast<f32>(i{} % {})", below(int64_t(rank)), 1 + below(8));
      case 6:  // a random number of this block and iteration
        return fmt::format("cast<f32>(philox({}:u64, cast<u64>(b*64 + i{}), {}:u64) & 7:u32)", below(9),
                           below(int64_t(rank)), below(9));
      default:
        break;
    }
    Tile t = fits(shape);
    return t.name.empty() ? pick<std::string>({"1.0", "-2.0", "3.0"}) : of(t, indices(shape));
  }
  std::string value(const Shape& shape, int levels, bool exact) {
    if (levels == 0 || chance(25)) return operand(shape, exact);
    std::string a = value(shape, levels - 1, exact);
    if (!exact && chance(50)) {
      std::string f = pick<std::string>({"exp2(min({}, 3.0))", "sqrt(abs({}))", "sigmoid({})", "tanh({})",
                                         "erf({})", "sin({})", "log(abs({}) + 1.0)", "rsqrt(abs({}) + 1.0)",
                                         "exp(-abs({}))", "1.0 / (abs({}) + 1.0)"});
      return fmt::format(fmt::runtime(f), a);
    }
    if (chance(10)) return fmt::format("abs({})", a);
    if (exact && chance(15))
      return fmt::format("cast<f32>(cast<i32>(min(max({}, -1e6), 1e6)) {} {})", a,
                         pick<std::string>({"//", "%", "&", "|", "^", "<<", ">>"}), 1 + below(4));
    std::string b = value(shape, levels - 1, exact);
    if (exact && chance(8)) {
      auto whole = [](const std::string& x) {
        return fmt::format("cast<i32>(min(max({}, -99.0), 99.0))", x);
      };
      return fmt::format("cast<f32>({})", guarded_quotient(*this, "i32", whole(a), whole(b), "1:i32"));
    }
    if (chance(20)) return fmt::format("select({}, {}, {})", condition(shape), a, b);
    std::string op = pick<std::string>(
        {"({} + {})", "({} - {})", "max({}, {})", "min({}, {})", "min(max({} * {}, -8.0), 8.0)"});
    return fmt::format(fmt::runtime(op), a, b);
  }
  std::string condition(const Shape& shape) {
    std::string i = fmt::format("i{}", below(int64_t(shape.size())));
    switch (below(5)) {
      case 0:
        return fmt::format("{} % 3 == 1", i);
      case 1:
        return fmt::format("{} + i0 < {}", i, 1 + below(shape[0] + 4));
      case 2:
        return fmt::format("({} > 2 or {} % 2 == 0)", i, i);
      default:
        return fmt::format("{} {} {}", value(shape, 1, true), pick<std::string>({">", "<=", "=="}),
                           value(shape, 1, true));
    }
  }
  static std::string stored(const Tile& to, const std::string& value) {
    if (to.type == "bool") return fmt::format("{} > 0.0", value);
    return fmt::format("cast<{}>(min(max({}, {}.0), {}.0))", to.type, value, is_unsigned(to.type) ? 0 : -8,
                       to.type == "i4" ? 7 : 8);
  }
  // Iterations would depend on each other: another element of `to`, or of another shape of it.
  bool depends(const Tile& to, std::string text) const {
    std::string own = fmt::format("{}[{}]", to.name, indices(to.shape));
    for (size_t at; (at = text.find(own)) != text.npos;) text.erase(at, own.size());
    return std::any_of(tiles.begin(), tiles.end(), [&](auto& t) {
      return t.storage == to.storage && text.find(t.name + "[") != text.npos;
    });
  }
  void elementwise_step() {
    Tile like = any_tile();
    if (like.name.empty()) return;
    bool rough = nested == 0 && chance(15), some = chance(25), is_new = chance(50);
    Tile to = find([&](const Tile& t) {
      return t.shape == like.shape && (!rough || (is_float(t.type) && !is_storage(t.type)));
    });
    std::string kind = rough ? pick<std::string>({"f32", "f16", "bf16", "f64"}) : type();
    if (is_new || to.name.empty()) {
      to = add(chance(70) ? "fragment" : "shared", kind, like.shape);
      if (to.name.empty()) return;
      initialise(to);
    }
    some &= !is_packed(to.type);  // both elements of a byte, or none
    std::string a = value(to.shape, 1 + int(below(2)), !rough), b = value(to.shape, 1, !rough),
                cond = condition(to.shape);
    if (depends(to, a + b + cond)) return;
    open_nest(to.shape);
    int outer = int(to.shape.size());
    if (some) {
      line("if {}:", cond);
      indent++;
    }
    bool named = chance(25);
    if (named) line("v = {}", a);
    line("{}[{}] = {}", to.name, indices(to.shape), stored(to, named ? "v" : a));
    if (some) {
      indent--;
      if (chance(40)) {
        line("else:");
        indent++;
        line("{}[{}] = {}", to.name, indices(to.shape), stored(to, b));
        indent--;
      }
    }
    indent -= outer;
    mark(to, rough);
  }
  void clamp(const Tile& t) {
    if (chance(50) && !is_storage(t.type))
      return line("clamp({}, {}, {})", t.name,
                  is_float(t.type)      ? "-8.0"
                  : is_unsigned(t.type) ? "0"
                                        : "-8",
                  is_float(t.type) ? "8.0" : "8");
    open_nest(t.shape);
    line("{}[{}] = {}", t.name, indices(t.shape),
         stored(t, fmt::format("cast<f32>({}[{}])", t.name, indices(t.shape))));
    indent -= int(t.shape.size());
  }
};

}  // namespace tl::fuzz
