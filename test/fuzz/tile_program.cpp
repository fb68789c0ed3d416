// The generator of random tile programs.
#include "fuzz/tile_program.h"

#include <algorithm>
#include <utility>

#include "fuzz/random_text.h"

namespace tl::fuzz {
namespace {

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

bool is_float(const std::string& type) { return type[0] == 'f' || type == "bf16" || type == "tf32" || type[0] == 'e'; }
bool is_unsigned(const std::string& type) { return type[0] == 'u'; }
bool is_storage(const std::string& type) { return type == "tf32" || type[0] == 'e'; }
int64_t bits_of(const std::string& type) {
  if (type == "bool" || type[0] == 'e') return 8;
  return std::stoll(type.substr(type.find_first_of("0123456789")));
}
// Up to where all integers are exact.
int64_t exact_to(const std::string& type) {
  if (!is_float(type) || type == "f64") return INT32_MAX;
  return type == "f32" || type == "tf32" ? 1 << 24 : type == "f16" ? 2048 : type == "bf16" ? 256 : 8;
}
std::string listed(const Shape& values) { return fmt::format("{}", fmt::join(values, ", ")); }
std::string indices(const Shape& shape) {
  std::string out;
  for (size_t d = 0; d < shape.size(); d++) out += fmt::format("{}i{}", d ? ", " : "", d);
  return out;
}

struct Loop {
  std::string var;
  int64_t trips;
};

struct Generator : RandomText {
  int64_t shared_limit, register_limit;
  Program program = {};
  int64_t threads = 0, blocks = 1, shared_bytes = 0, registers = 0;  // registers: 32-bit ones of fragments, per thread
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
                      : pick<std::string>({"bf16", "f64", "i8", "i16", "i64", "u8", "u32", "bool", "e4m3", "e5m2", "tf32"});
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
    program.tolerance = std::max(program.tolerance, type == "bf16" ? 0.2 : type == "f16" ? 0.03 : bits >= 32 ? 2e-3 : 0.5);
  }

  // ── tiles, as far as they fit ─────────────────────────────────────────────────────────────────────────
  bool take_shared(int64_t bits) {
    int64_t bytes = (bits / 8 + 127) / 128 * 128;
    if (shared_bytes + bytes > shared_limit) return false;
    shared_bytes += bytes;
    return true;
  }
  Tile add(const std::string& scope, const std::string& type, const Shape& shape) {
    Tile t{.name = fmt::format("{}{}", scope == "shared" ? "S" : "F", tensors++), .scope = scope, .type = type, .shape = shape};
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
  // A part of a new tensor, of the tile's shape: the whole of it, or some of a tensor that is larger or smaller, the
  // block's own rows, the loop's own.  What each block writes is its own.
  std::string tensor_part(const Tile& t, bool output) {
    std::string name = fmt::format("{}{}", output ? "Y" : "X", tensors++), ranges, extents;
    bool own = blocks > 1 && (output || chance(60));
    bool by_loop = !output && !loops.empty() && chance(60);
    for (size_t d = 0; d < t.shape.size(); d++) {
      int64_t e = t.shape[d], size = e;
      std::string first = "0";
      if (d == 0 && own)
        first = fmt::format("b*{}", e), size = blocks * e;
      else if (by_loop && d == (own ? 1 : 0))
        first = fmt::format("{}*{}", loops.back().var, e), size = loops.back().trips * e;
      else if (chance(15))
        first = std::to_string(below(5)), size += below(9);
      if (chance(25)) size = std::max<int64_t>(1, size - below(e / 2 + 1));
      bool open = chance(15);
      if (open) program.given[fmt::format("n{}", tensors)] = double(size);
      extents += fmt::format("{}{}", d ? ", " : "", open ? fmt::format("n{}", tensors++) : std::to_string(size));
      ranges += fmt::format("{}{} : +{}", d ? ", " : "", first, e);
    }
    parameter(name, t.type, extents);
    return fmt::format("{}[{}]", name, ranges);
  }
  void initialise(const Tile& t) {
    if (chance(10) && !is_storage(t.type) && t.type != "bool")
      line("{}", chance(50) ? fmt::format("clear({})", t.name) : fmt::format("fill({}, {})", t.name, is_float(t.type) ? "1.0" : "1"));
    else
      line("copy({}, {})", tensor_part(t, false), t.name);
  }
  Tile fresh(const std::string& scope, const std::string& type, const Shape& shape) {
    Tile t = add(scope, type, shape);
    if (!t.name.empty()) initialise(t);
    return t;
  }

  // ── loop nests ──────────────────────────────────────────────────────────────────────────────────────
  void open_nest(const Shape& shape) {
    for (size_t d = 0; d < shape.size(); d++, indent++) line("for i{} in parallel({}):", d, shape[d]);
  }
  // An operand as an f32, of a loop nest over `shape` with variables i0, i1, …: the same shape, broadcast, permuted,
  // backwards, one element, gathered.  `exact`: no rough one.
  std::string operand(const Shape& shape, bool exact) {
    auto of = [&](const Tile& t, const std::string& index) { return fmt::format("cast<f32>({}[{}])", t.name, index); };
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
      case 5: return fmt::format("cast<f32>(i{} % {})", below(int64_t(rank)), 1 + below(8));
      default: break;
    }
    Tile t = fits(shape);
    return t.name.empty() ? pick<std::string>({"1.0", "-2.0", "3.0"}) : of(t, indices(shape));
  }
  std::string value(const Shape& shape, int levels, bool exact) {
    if (levels == 0 || chance(25)) return operand(shape, exact);
    std::string a = value(shape, levels - 1, exact);
    if (!exact && chance(50)) {
      std::string f = pick<std::string>({"exp2(min({}, 3.0))", "sqrt(abs({}))", "sigmoid({})", "tanh({})", "erf({})", "sin({})",
                                         "log(abs({}) + 1.0)", "rsqrt(abs({}) + 1.0)", "exp(-abs({}))", "1.0 / (abs({}) + 1.0)"});
      return fmt::format(fmt::runtime(f), a);
    }
    if (chance(10)) return fmt::format("abs({})", a);
    if (exact && chance(15))
      return fmt::format("cast<f32>(cast<i32>({}) {} {})", a, pick<std::string>({"//", "%", "&", "|", "^", "<<", ">>"}), 1 + below(4));
    std::string b = value(shape, levels - 1, exact);
    if (chance(20)) return fmt::format("select({}, {}, {})", condition(shape), a, b);
    std::string op = pick<std::string>({"({} + {})", "({} - {})", "max({}, {})", "min({}, {})", "min(max({} * {}, -8.0), 8.0)"});
    return fmt::format(fmt::runtime(op), a, b);
  }
  std::string condition(const Shape& shape) {
    std::string i = fmt::format("i{}", below(int64_t(shape.size())));
    switch (below(5)) {
      case 0: return fmt::format("{} % 3 == 1", i);
      case 1: return fmt::format("{} + i0 < {}", i, 1 + below(shape[0] + 4));
      case 2: return fmt::format("({} > 2 or {} % 2 == 0)", i, i);
      default: return fmt::format("{} {} {}", value(shape, 1, true), pick<std::string>({">", "<=", "=="}), value(shape, 1, true));
    }
  }
  static std::string stored(const Tile& to, const std::string& value) {
    if (to.type == "bool") return fmt::format("{} > 0.0", value);
    return fmt::format("cast<{}>(min(max({}, {}.0), 8.0))", to.type, value, is_unsigned(to.type) ? 0 : -8);
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
    Tile to = find([&](const Tile& t) { return t.shape == like.shape && (!rough || (is_float(t.type) && !is_storage(t.type))); });
    std::string kind = rough ? pick<std::string>({"f32", "f16", "bf16", "f64"}) : type();
    if (is_new || to.name.empty()) {
      to = add(chance(70) ? "fragment" : "shared", kind, like.shape);
      if (to.name.empty()) return;
      initialise(to);
    }
    std::string a = value(to.shape, 1 + int(below(2)), !rough), b = value(to.shape, 1, !rough), cond = condition(to.shape);
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
    if (chance(50)) return line("clamp({}, {}, {})", t.name, is_float(t.type) ? "-8.0" : is_unsigned(t.type) ? "0" : "-8", is_float(t.type) ? "8.0" : "8");
    open_nest(t.shape);
    line("{}[{}] = {}", t.name, indices(t.shape), stored(t, fmt::format("cast<f32>({}[{}])", t.name, indices(t.shape))));
    indent -= int(t.shape.size());
  }

  // ── tile operators ──────────────────────────────────────────────────────────────────────────────────
  void copy_step() {
    Tile from = any_tile();
    if (from.name.empty()) return;
    std::string kind = chance(70) || from.type == "bool" ? from.type : type();
    Tile to = find([&](const Tile& t) { return t.shape == from.shape && t.storage != from.storage && (!from.rough || is_float(t.type)); });
    if (to.name.empty() || chance(40)) to = add(scope(), from.rough && !is_float(kind) ? "f32" : kind, from.shape);
    if (to.name.empty()) return;
    if (is_unsigned(to.type) && !is_unsigned(from.type) && is_float(from.type)) return initialise(to);  // no negative floats
    line("copy({}, {})", from.name, to.name);
    if (bits_of(to.type) <= 8 && !is_float(from.type) && to.type != from.type) clamp_number(to);
    if (is_unsigned(to.type) && !is_unsigned(from.type)) clamp_number(to);
    mark(to, from.rough);
  }
  void clamp_number(const Tile& t) {
    if (t.type != "bool") clamp(t);
  }
  void reduce_step() {
    Tile from = find([](const Tile& t) { return !is_storage(t.type); });
    if (from.name.empty()) return;
    bool integers = !is_float(from.type), truth = from.type == "bool";
    size_t dim = size_t(below(int64_t(from.shape.size())));
    std::string op = truth      ? pick<std::string>({"any", "all", "bitand", "bitor", "bitxor"})
                     : integers ? pick<std::string>({"sum", "max", "min", "absmax", "abssum", "any", "all", "bitand", "bitor", "bitxor", "prod", "by"})
                                : pick<std::string>({"sum", "max", "min", "absmax", "abssum", "any", "all", "by"});
    bool asks = op == "any" || op == "all";
    if (from.rough && (asks || op.ends_with("sum"))) op = "max", asks = false;
    std::string to_type = asks ? pick<std::string>({"bool", "i32"}) : from.type;
    if (op.ends_with("sum") && from.shape[dim] * 16 > exact_to(to_type)) op = "max";
    Shape shape = from.shape;
    if (shape.size() == 1 || chance(15))
      shape[dim] = 1;
    else
      shape.erase(shape.begin() + int64_t(dim));
    Tile to = find([&](const Tile& t) { return t.shape == shape && t.type == to_type && t.storage != from.storage; });
    if (to.name.empty()) to = fresh(chance(80) ? "fragment" : "shared", to_type, shape);
    if (to.name.empty()) return;
    std::string acc = from.type == "f16" || from.type == "bf16" ? "f32" : from.type, attrs;
    if (op == "by")
      attrs = fmt::format(", combine=(a: {0}, b: {0}) -> (max(a, b), {1}:{0})", acc, is_float(acc) ? "-100.0" : is_unsigned(acc) ? "0" : "-100");
    if (op == "max" && chance(30) && !integers) attrs += ", nan_propagate=1";
    if (chance(15)) attrs += fmt::format(", batch={}", 1 + below(4));
    line("reduce_{}({}, {}) {{dim={}, clear={}{}}}", op, from.name, to.name, dim, chance(60) ? 1 : 0, attrs);
    mark(to, from.rough);
    if (to.type != "bool") clamp(to);
  }
  void scan_step() {
    Tile from = find([](const Tile& t) { return !is_storage(t.type) && t.type != "bool"; }), to = from;
    if (from.name.empty() || !staged(from)) return;
    size_t dim = size_t(below(int64_t(from.shape.size())));
    bool sums = !from.rough && from.shape[dim] * 8 <= exact_to(from.type) && chance(60);
    if (chance(60)) {
      to = find([&](const Tile& t) { return t.shape == from.shape && t.type == from.type && t.storage != from.storage; });
      if (to.name.empty()) to = fresh(scope(), from.type, from.shape);
      if (to.name.empty() || !staged(to)) return;
    }
    line("{}({}, {}) {{dim={}, reverse={}}}", sums ? "cumsum" : "cummax", from.name, to.name, dim, chance(40) ? 1 : 0);
    mark(to, from.rough);
    clamp(to);
  }
  void transpose_step() {
    Tile from = find([](const Tile& t) { return t.shape.size() > 1; });
    if (from.name.empty() || !staged(from)) return;
    Shape turned = from.shape;
    std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
    Tile to = find([&](const Tile& t) { return t.shape == turned && t.storage != from.storage && t.type == from.type; });
    if (to.name.empty()) to = fresh(scope(), from.type, turned);
    if (to.name.empty() || !staged(to)) return;
    line("transpose({}, {})", from.name, to.name);
    mark(to, from.rough);
  }
  // Another shape of a shared tile: two dimensions made one, or one cut.
  void reshape_step() {
    Tile of = find([](const Tile& t) { return t.scope == "shared"; });
    if (of.name.empty()) return;
    Shape shape = of.shape;
    size_t d = size_t(below(int64_t(shape.size())));
    int64_t factor = pick<int64_t>({2, 3, 4, 8});
    if (d + 1 < shape.size() && chance(50)) {
      shape[d] *= shape[d + 1];
      shape.erase(shape.begin() + int64_t(d) + 1);
    } else if (shape[d] % factor == 0 && shape.size() < 4) {
      shape[d] /= factor;
      shape.insert(shape.begin() + int64_t(d) + 1, factor);
    } else {
      return;
    }
    Tile t{.name = fmt::format("V{}", tensors++), .scope = "shared", .type = of.type, .shape = shape, .storage = of.storage, .rough = of.rough};
    declarations.push_back(fmt::format("{} = shared {}[{}] alias({})", t.name, t.type, listed(shape), t.storage));
    tiles.push_back(t);
  }
  void gemm_step() {
    auto [type, to] = pick<std::pair<std::string, std::string>>(
        {{"f16", "f32"}, {"f16", "f32"}, {"f16", "f32"}, {"f16", "f16"}, {"bf16", "f32"}, {"f32", "f32"}, {"f64", "f64"}, {"i8", "i32"},
         {"u8", "i32"}, {"i32", "i32"}, {"tf32", "f32"}, {"e4m3", "f32"}, {"e5m2", "f32"}});
    auto dim = [&] { return chance(70) ? pick<int64_t>({16, 32, 64, 128}) : 1 + below(100); };
    int64_t m = dim(), n = dim(), k = to == "f16" ? 1 + below(32) : dim();
    bool ta = chance(25), tb = chance(40);
    Tile c = find([&](const Tile& t) { return t.type == to && t.shape == Shape{m, n} && t.scope == "fragment" && !t.rough; });
    if (c.name.empty() || chance(60)) c = fresh("fragment", to, {m, n});
    if (c.name.empty()) return;
    auto operand = [&](const std::string& where, const Shape& shape) {
      Tile t = find([&](const Tile& t) {
        return t.type == type && t.shape == shape && t.scope == where && !t.rough && t.name != c.name;
      });
      return t.name.empty() ? fresh(where, type, shape) : t;
    };
    Tile a = operand(chance(25) && !ta ? "fragment" : "shared", ta ? Shape{k, m} : Shape{m, k});
    if (a.name.empty()) return;
    Tile b = operand("shared", tb ? Shape{n, k} : Shape{k, n});
    if (b.name.empty()) return;
    line("gemm({}, {}, {}) {{clear_accum={}, policy=\"{}\", trans_a={}, trans_b={}}}", a.name, b.name, c.name, chance(30) ? 1 : 0,
         pick<std::string>({"square", "full_row", "full_col"}), ta ? 1 : 0, tb ? 1 : 0);
    clamp(c);
  }
  static bool atomic_type(const std::string& t) { return t == "f32" || t == "f16" || t == "f64" || t == "i32" || t == "i64" || t == "u32"; }
  void atomic_step() {
    Tile from = find([](const Tile& t) { return atomic_type(t.type) && !t.rough; });
    if (from.name.empty()) return;
    std::string op = pick<std::string>({"add", "add", "max", "min"});
    if (chance(60)) {  // all blocks update one tensor, or each its part
      std::string part = tensor_part(from, blocks > 1 && chance(40));
      return line("atomic_{}_tile({}, {})", op, part, from.name);
    }
    Tile to = find([&](const Tile& t) { return t.scope == "shared" && t.type == from.type && t.shape == from.shape && t.storage != from.storage && !t.rough; });
    if (to.name.empty()) to = fresh("shared", from.type, from.shape);
    if (to.name.empty()) return;
    line("atomic_{}_tile({}, {})", op, to.name, from.name);
    clamp(to);
  }
  void reducer_step() {
    Tile from = find([](const Tile& t) { return t.shape.size() > 1 && !is_storage(t.type) && !t.rough; });
    if (from.name.empty() || from.shape[0] > 64) return;
    Shape shape = {from.shape[0]};
    Tile to = add("fragment", "f32", shape);
    if (to.name.empty()) return;
    std::string op = pick<std::string>({"sum", "max", "min"}), o = fmt::format("o{}", tensors++);
    line("{} = local f32[{}] reducer(\"{}\")", o, shape[0], op);
    line("reducer_init({}, {})", o, op == "max" ? "-9.0" : op == "min" ? "9.0" : "0.0");
    open_nest(from.shape);
    std::string v = fmt::format("cast<f32>({}[{}])", from.name, indices(from.shape));
    line("{}[i0] = {}", o, op == "sum" ? fmt::format("{}[i0] + {}", o, v) : fmt::format("{}({}[i0], {})", op, o, v));
    indent -= int(from.shape.size());
    line("finalize_reducer({})", o);
    line("copy({}, {})", o, to.name);
    clamp(to);
  }
  // A loop in a loop nest: each row by one iteration.
  void row_step() {
    Tile from = find([](const Tile& t) { return t.shape.size() == 2 && t.scope == "shared" && !is_storage(t.type) && !t.rough && t.shape[1] <= 40; });
    if (from.name.empty()) return;
    Tile to = fresh("fragment", "f32", {from.shape[0]});
    if (to.name.empty()) return;
    line("for i0 in parallel({}):", from.shape[0]);
    line("  for j in {}({}):", pick<std::string>({"serial", "unrolled"}), from.shape[1]);
    line("    {0}[i0] = {0}[i0] + cast<f32>({1}[i0, j])", to.name, from.name);
    clamp(to);
  }

  // ── flow ────────────────────────────────────────────────────────────────────────────────────────────
  void body_steps() {
    indent++;
    nested++;
    depth++;
    size_t outer = tiles.size(), before = lines.size();
    for (int64_t i = 1 + below(3); i > 0; i--) step();
    if (lines.size() == before) line("pass");
    tiles.resize(outer);  // what begins here is not there on every way
    depth--;
    nested--;
    indent--;
  }
  void loop_step() {
    std::string k = fmt::format("k{}", tensors++);
    int64_t trips = 1 + below(4);
    std::string kind = pick<std::string>({"serial", "pipelined", "unrolled", "while"});
    if (kind == "while") {
      line("{} = local i32[1]", k);
      line("{}[0] = 0", k);
      line("while {}[0] < {}:", k, trips);
      body_steps();
      line("  {0}[0] = {0}[0] + 1", k);
      return;
    }
    line("for {} in {}({}){}:", k, kind, trips, kind == "pipelined" ? fmt::format(" {{num_stages={}}}", 1 + below(3)) : "");
    loops.push_back({k, trips});
    if (kind == "serial" && chance(20)) {
      line("  if {} == {}{}:", k, below(trips + 1), scalar.empty() ? "" : fmt::format(" or {} > 4", scalar));
      line("    {}", chance(50) ? "break()" : "continue()");
    }
    body_steps();
    loops.pop_back();
  }
  void branch_step() {
    std::string cond = pick<std::string>({"b % 2 == 0", "b > 0", "b == 0"});
    if (!scalar.empty() && chance(60)) cond = fmt::format("{} {} {}", scalar, pick<std::string>({"<", ">="}), below(8));
    line("if {}:", cond);
    body_steps();
    if (chance(40)) {
      line("else:");
      body_steps();
    }
  }
  void step() {
    switch (below(depth < 2 ? 25 : 22)) {
      case 0: case 1: return copy_step();
      case 2: case 3: return reduce_step();
      case 4: case 5: return gemm_step();
      case 6: fresh(scope(), type(), random_shape()); return;
      case 7: case 8: return scan_step();
      case 9: return transpose_step();
      case 10: return reshape_step();
      case 11: return atomic_step();
      case 12: return reducer_step();
      case 13: return row_step();
      case 22: case 23: return loop_step();
      case 24: return branch_step();
      default: return elementwise_step();
    }
  }

  // ── kernels ─────────────────────────────────────────────────────────────────────────────────────────
  void kernel(const std::string& title) {
    threads = pick<int64_t>({32, 64, 96, 128, 128, 128, 160, 192, 256, 256, 384, 512});
    int64_t x = pick<int64_t>({1, 1, 2, 3}), y = x > 1 && chance(30) ? 2 : 1;
    blocks = x * y;
    shared_bytes = registers = 0;
    tiles.clear();
    declarations.clear();
    lines.clear();
    indent = 2;
    while (tiles.empty()) fresh("fragment", "f32", random_shape());
    for (auto& [name, t] : written)  // what a kernel before wrote
      if (Tile mine = add("shared", t.type, t.shape); !mine.name.empty()) line("copy({}, {})", name, mine.name);
    int64_t steps = 1 + below(8);
    for (int64_t i = 0; i < steps; i++) step();
    std::vector<Tile> results = tiles;
    for (auto& t : results)
      if (chance(60) || &t == &results.back()) {
        std::string part = tensor_part(t, true);
        line("copy({}, {})", t.name, part);
        if (blocks == 1 && !t.rough && written.empty() && chance(40)) written.push_back({part, t});
      }
    kernels.push_back(fmt::format("  kernel {} grid(bx: {}, by: {}) threads({}){}:\n    b = bx*{} + by\n", title, x, y, threads,
                                  chance(20) ? " {use_swizzle=2}" : "", y));
    for (auto& l : declarations) kernels.back() += "    " + l + "\n";
    kernels.back() += text();
  }
  Program run() {
    if (chance(40)) {
      scalar = "s";
      params = "s: i32";
      program.given["s"] = double(below(8));
    }
    kernel("main");
    if (chance(15)) kernel("second");
    program.text = fmt::format("func main({}):\n{}", params, fmt::join(kernels, ""));
    return program;
  }
};

}  // namespace

Program random_program(uint64_t seed, int64_t shared_limit, int64_t register_limit) {
  return Generator{{std::mt19937_64(seed)}, shared_limit, register_limit}.run();
}

}  // namespace tl::fuzz
