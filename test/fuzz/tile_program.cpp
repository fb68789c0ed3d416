// The generator of random tile programs.
#include "fuzz/tile_program.h"

#include <fmt/format.h>

#include <algorithm>

namespace tl::fuzz {

int64_t Tile::size() const {
  int64_t n = 1;
  for (int64_t e : shape) n *= e;
  return n;
}

namespace {

int64_t bits_of(const std::string& type) { return type == "f16" || type == "bf16" ? 16 : type == "i8" ? 8 : 32; }

std::string listed(const std::vector<int64_t>& values) {
  std::string out;
  for (int64_t v : values) out += (out.empty() ? "" : ", ") + std::to_string(v);
  return out;
}

struct Generator {
  std::mt19937_64 random;
  int64_t shared_limit, register_limit;
  Program program = {};
  std::vector<Tile> tiles = {};
  std::vector<std::string> declarations = {}, body = {};

  int64_t below(int64_t n) { return int64_t(random() % uint64_t(n)); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T>
  T pick(std::initializer_list<T> list) { return list.begin()[below(int64_t(list.size()))]; }

  int64_t extent(int64_t most) {
    int64_t e = chance(50) ? pick<int64_t>({1, 2, 4, 8, 16, 32, 64, 128, 256}) : 1 + below(300);
    return std::clamp<int64_t>(e, 1, std::max<int64_t>(1, most));
  }
  std::vector<int64_t> random_shape() {
    std::vector<int64_t> shape;
    int64_t rank = pick<int64_t>({1, 1, 2, 2, 2, 2, 3, 4}), left = 1 << (8 + below(6));
    for (int64_t d = 0; d < rank; d++) {
      shape.push_back(extent(std::min<int64_t>(left, 300)));
      left = std::max<int64_t>(1, left / shape.back());
    }
    std::shuffle(shape.begin(), shape.end(), random);
    return shape;
  }

  // ── tiles, as far as they fit ─────────────────────────────────────────────────────────────────────────
  const Tile* add(const std::string& scope, const std::string& type, const std::vector<int64_t>& shape) {
    Tile t{.name = fmt::format("{}{}", scope == "shared" ? "S" : "F", tiles.size()), .scope = scope, .type = type, .shape = shape};
    int64_t bits = t.size() * bits_of(type);
    if (scope == "shared") {
      int64_t bytes = (bits / 8 + 127) / 128 * 128;
      if (program.shared_bytes + bytes > shared_limit) return nullptr;
      program.shared_bytes += bytes;
    } else {
      int64_t registers = (bits + 32 * program.threads - 1) / (32 * program.threads);
      if (program.registers + registers > register_limit) return nullptr;
      program.registers += registers;
    }
    declarations.push_back(fmt::format("{} = {} {}[{}]", t.name, scope, type, listed(shape)));
    tiles.push_back(t);
    return &tiles.back();
  }
  std::string tensor(const std::string& type, const std::vector<int64_t>& shape, bool output) {
    std::string name = fmt::format("{}{}", output ? "Y" : "X", program.tensors.size());
    program.tensors.push_back({name, type, shape, output});
    return name;
  }
  // Copied from a tensor of its own shape, or filled.
  void initialise(const Tile& t) {
    if (chance(10))
      body.push_back(fmt::format("fill({}, {})", t.name, t.type[0] == 'i' ? "1" : "1.0"));
    else
      body.push_back(fmt::format("copy({}, {})", tensor(t.type, t.shape, false), t.name));
  }
  Tile fresh(const std::string& scope, const std::string& type, const std::vector<int64_t>& shape) {
    const Tile* t = add(scope, type, shape);
    if (!t) return {};
    Tile copy = *t;
    initialise(copy);
    return copy;
  }
  Tile any_tile() { return tiles[size_t(below(int64_t(tiles.size())))]; }
  // Of the wanted element type and with a shape that fits an access pattern; empty name if there is none.
  template <class F>
  Tile find(F fits) {
    std::vector<const Tile*> found;
    for (auto& t : tiles)
      if (fits(t)) found.push_back(&t);
    return found.empty() ? Tile{} : *found[size_t(below(int64_t(found.size())))];
  }

  // ── statements ────────────────────────────────────────────────────────────────────────────────────────
  void copy_step() {
    Tile from = any_tile();
    std::string type = chance(70) ? from.type : pick<std::string>({"f32", "f16", "i32"});
    Tile to = find([&](const Tile& t) { return t.shape == from.shape && t.name != from.name; });
    if (to.name.empty() || chance(40)) {
      auto* t = add(pick<std::string>({"shared", "fragment"}), type, from.shape);
      if (!t) return;
      to = *t;
    }
    if (to.storage == from.storage) return;
    body.push_back(fmt::format("copy({}, {})", from.name, to.name));
  }

  // An operand of a loop nest over `shape` with variables i0, i1, …: same shape, broadcast, permuted, one index.
  std::string operand(const std::vector<int64_t>& shape) {
    size_t rank = shape.size();
    switch (below(8)) {
      case 0: {                                   // a broadcast of one dimension
        size_t d = size_t(below(int64_t(rank)));
        Tile t = find([&](const Tile& t) { return t.shape == std::vector<int64_t>{shape[d]}; });
        if (t.name.empty()) t = fresh("fragment", "f32", {shape[d]});
        if (!t.name.empty()) return fmt::format("cast<f32>({}[i{}])", t.name, d);
        break;
      }
      case 1: {                                   // two dimensions exchanged
        if (rank < 2) break;
        std::vector<int64_t> turned = shape;
        std::swap(turned[rank - 1], turned[rank - 2]);
        Tile t = find([&](const Tile& t) { return t.shape == turned; });
        if (t.name.empty()) break;
        std::string index;
        for (size_t d = 0; d + 2 < rank; d++) index += fmt::format("i{}, ", d);
        return fmt::format("cast<f32>({}[{}i{}, i{}])", t.name, index, rank - 1, rank - 2);
      }
      case 2: {                                   // an element all iterations share
        Tile t = any_tile();
        std::vector<int64_t> at;
        for (int64_t e : t.shape) at.push_back(below(e));
        return fmt::format("cast<f32>({}[{}])", t.name, listed(at));
      }
      case 3: {                                   // the loops backwards in the last dimension
        Tile t = find([&](const Tile& t) { return t.shape == shape; });
        if (t.name.empty()) break;
        std::string index;
        for (size_t d = 0; d + 1 < rank; d++) index += fmt::format("i{}, ", d);
        return fmt::format("cast<f32>({}[{}{} - i{}])", t.name, index, shape.back() - 1, rank - 1);
      }
      default: break;
    }
    Tile t = find([&](const Tile& t) { return t.shape == shape; });
    if (t.name.empty()) return "1.0";
    std::string index;
    for (size_t d = 0; d < rank; d++) index += fmt::format("{}i{}", d ? ", " : "", d);
    return fmt::format("cast<f32>({}[{}])", t.name, index);
  }

  void elementwise_step() {
    Tile like = any_tile();
    Tile to = find([&](const Tile& t) { return t.shape == like.shape; });
    std::string a = operand(to.shape), b = operand(to.shape);
    bool some = chance(20);                       // of the iterations only
    if (chance(50)) {
      auto* t = add(chance(70) ? "fragment" : "shared", pick<std::string>({"f32", "f32", "f16", "i32"}), like.shape);
      if (t) to = *t;
      if (t && some) initialise(to);
    }
    bool in_place = a.find(to.name + "[") != std::string::npos || b.find(to.name + "[") != std::string::npos;
    std::string index, pad;
    std::vector<std::string> lines;
    for (size_t d = 0; d < to.shape.size(); d++) {
      lines.push_back(fmt::format("{}for i{} in parallel({}):", pad, d, to.shape[d]));
      pad += "  ";
      index += fmt::format("{}i{}", d ? ", " : "", d);
    }
    std::string own = fmt::format("cast<f32>({}[{}])", to.name, index);
    if (in_place && ((a.find(to.name + "[") != std::string::npos && a != own) ||
                     (b.find(to.name + "[") != std::string::npos && b != own)))
      return;                                     // iterations would depend on each other
    for (auto& t : tiles)                         // so they do where they name another shape of it
      if (t.storage == to.storage && t.name != to.name && (a + b).find(t.name + "[") != std::string::npos) return;
    std::string op = pick<std::string>({"{} + {}", "{} - {}", "max({}, {})", "min({}, {})"});
    std::string value = fmt::format(fmt::runtime(op), a, b);
    if (some) {
      lines.push_back(fmt::format("{}if i{} % 3 == 1:", pad, below(int64_t(to.shape.size()))));
      pad += "  ";
    }
    lines.push_back(fmt::format("{}{}[{}] = cast<{}>(min(max({}, -8.0), 8.0))", pad, to.name, index, to.type, value));
    body.insert(body.end(), lines.begin(), lines.end());
  }

  void reduce_step() {
    Tile from = find([](const Tile& t) { return t.type == "f32" || t.type == "i32"; });
    if (from.name.empty()) return;
    size_t dim = size_t(below(int64_t(from.shape.size())));
    std::vector<int64_t> shape = from.shape;
    if (shape.size() == 1 || chance(15))
      shape[dim] = 1;
    else
      shape.erase(shape.begin() + int64_t(dim));
    Tile to = find([&](const Tile& t) { return t.shape == shape && t.type == from.type && t.storage != from.storage; });
    bool clear = chance(60);
    if (to.name.empty()) {
      to = fresh("fragment", from.type, shape);
      if (to.name.empty()) return;
    }
    std::string op = pick<std::string>({"sum", "max", "min", "absmax", "abssum", "any", "all", "bitand", "bitor", "bitxor", "prod", "by"});
    bool integers = op == "any" || op == "all" || op.starts_with("bit") || op == "prod";
    if (integers && from.type != "i32") op = "max";
    std::string attrs = op == "by" ? fmt::format(", combine=(a: {0}, b: {0}) -> (max(a, b), {1})", from.type,
                                                 from.type == "i32" ? "-100:i32" : "-100.0") : "";
    if (op == "max" && chance(30)) attrs += ", nan_propagate=1";
    body.push_back(fmt::format("reduce_{}({}, {}) {{dim={}, clear={}{}}}", op, from.name, to.name, dim, clear ? 1 : 0, attrs));
    clamp(to);
  }

  // Room for a fragment's copy in shared memory.
  bool staged(const Tile& t) {
    if (t.scope == "shared") return true;
    int64_t bytes = (t.size() * bits_of(t.type) / 8 + 127) / 128 * 128;
    if (program.shared_bytes + bytes > shared_limit) return false;
    program.shared_bytes += bytes;
    return true;
  }

  void scan_step() {
    Tile from = find([](const Tile& t) { return t.type == "f32" || t.type == "i32" || t.type == "f16"; }), to = from;
    if (from.name.empty() || !staged(from)) return;
    if (chance(60)) {
      to = find([&](const Tile& t) { return t.shape == from.shape && t.type == from.type && t.storage != from.storage; });
      if (to.name.empty()) to = fresh(pick<std::string>({"shared", "fragment"}), from.type, from.shape);
      if (to.name.empty() || !staged(to)) return;
    }
    body.push_back(fmt::format("{}({}, {}) {{dim={}, reverse={}}}", pick<std::string>({"cumsum", "cummax"}), from.name, to.name,
                               below(int64_t(from.shape.size())), chance(40) ? 1 : 0));
    clamp(to);
  }

  void transpose_step() {
    Tile from = find([](const Tile& t) { return t.shape.size() > 1; });
    if (from.name.empty() || !staged(from)) return;
    std::vector<int64_t> turned = from.shape;
    std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
    Tile to = find([&](const Tile& t) { return t.shape == turned && t.storage != from.storage; });
    if (to.name.empty()) to = fresh(pick<std::string>({"shared", "fragment"}), from.type, turned);
    if (to.name.empty() || !staged(to)) return;
    body.push_back(fmt::format("transpose({}, {})", from.name, to.name));
  }

  // Another shape of a shared tile: two dimensions made one, or one cut.
  void reshape_step() {
    Tile of = find([](const Tile& t) { return t.scope == "shared"; });
    if (of.name.empty()) return;
    std::vector<int64_t> shape = of.shape;
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
    Tile t{.name = fmt::format("V{}", tiles.size()), .scope = "shared", .type = of.type, .shape = shape, .storage = of.storage};
    declarations.push_back(fmt::format("{} = shared {}[{}] alias({})", t.name, t.type, listed(shape), t.storage));
    tiles.push_back(t);
  }

  void clamp(const Tile& t) {
    std::string index, pad;
    for (size_t d = 0; d < t.shape.size(); d++) {
      body.push_back(fmt::format("{}for i{} in parallel({}):", pad, d, t.shape[d]));
      pad += "  ";
      index += fmt::format("{}i{}", d ? ", " : "", d);
    }
    body.push_back(fmt::format("{}{}[{}] = cast<{}>(min(max(cast<f32>({}[{}]), -8.0), 8.0))", pad, t.name, index, t.type, t.name, index));
  }

  void gemm_step() {
    std::string type = pick<std::string>({"f16", "f16", "f16", "bf16", "f32", "i8"}), to = type == "i8" ? "i32" : "f32";
    auto dim = [&] { return chance(70) ? pick<int64_t>({16, 32, 64, 128}) : 1 + below(100); };
    int64_t m = dim(), n = dim(), k = dim();
    bool ta = chance(25), tb = chance(40);
    std::string a_scope = chance(25) && !ta ? "fragment" : "shared";
    Tile c = fresh("fragment", to, {m, n});
    if (c.name.empty()) return;
    Tile a = fresh(a_scope, type, ta ? std::vector{k, m} : std::vector{m, k});
    if (a.name.empty()) return;
    Tile b = fresh("shared", type, tb ? std::vector{n, k} : std::vector{k, n});
    if (b.name.empty()) return;
    std::string policy = pick<std::string>({"square", "full_row", "full_col"});
    body.push_back(fmt::format("gemm({}, {}, {}) {{clear_accum={}, policy=\"{}\", trans_a={}, trans_b={}}}", a.name, b.name,
                               c.name, chance(30) ? 1 : 0, policy, ta ? 1 : 0, tb ? 1 : 0));
    clamp(c);
  }

  void step() {
    switch (below(14)) {
      case 10: scan_step(); break;
      case 11: transpose_step(); break;
      case 12: reshape_step(); break;
      case 0: case 1: copy_step(); break;
      case 2: case 3: reduce_step(); break;
      case 4: gemm_step(); break;
      case 5: fresh(pick<std::string>({"shared", "fragment"}), pick<std::string>({"f32", "f16", "i32"}), random_shape()); break;
      default: elementwise_step(); break;
    }
  }

  void write() {
    std::string params;
    for (auto& t : program.tensors) params += fmt::format("{}{}: {}[{}]", params.empty() ? "" : ", ", t.name, t.type, listed(t.shape));
    program.text = fmt::format("func main({}):\n  kernel main grid(bx: 1) threads({}):\n", params, program.threads);
    for (auto* lines : {&declarations, &body})
      for (auto& l : *lines) program.text += "    " + l + "\n";
  }

  Program run() {
    program.threads = pick<int64_t>({32, 64, 96, 128, 128, 128, 160, 192, 256, 256, 384, 512});
    while (tiles.empty()) fresh("fragment", "f32", random_shape());
    int64_t steps = 1 + below(8);
    for (int64_t i = 0; i < steps; i++) step();
    std::vector<Tile> results = tiles;
    for (auto& t : results)
      if (chance(60) || &t == &results.back()) body.push_back(fmt::format("copy({}, {})", t.name, tensor(t.type, t.shape, true)));
    write();
    return program;
  }
};

}  // namespace

Program random_program(uint64_t seed, int64_t shared_limit, int64_t register_limit) {
  Generator g{.random = std::mt19937_64(seed), .shared_limit = shared_limit, .register_limit = register_limit};
  return g.run();
}

}  // namespace tl::fuzz
