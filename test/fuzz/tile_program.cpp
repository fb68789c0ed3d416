// The generator of random tile programs: operators, flow, kernels.
#include "fuzz/tile_program.h"

#include <utility>

#include "fuzz/division_text.h"
#include "fuzz/fault_text.h"
#include "fuzz/guarded_text.h"
#include "fuzz/large_text.h"
#include "fuzz/move_text.h"
#include "fuzz/short_lives.h"

namespace tl::fuzz {
namespace {

struct OperatorText : FaultText {
  void copy_step() {
    Tile from = any_tile();
    if (from.name.empty()) return;
    std::string kind = chance(70) || from.type == "bool" ? from.type : type();
    Tile to = find([&](const Tile& t) {
      return t.shape == from.shape && t.storage != from.storage && (!from.rough || is_float(t.type));
    });
    if (to.name.empty() || chance(40))
      to = add(scope(), from.rough && !is_float(kind) ? "f32" : kind, from.shape);
    if (to.name.empty()) return;
    bool wild = is_unsigned(to.type) || to.type == "i4";  // no negative floats, none of 8
    if (wild && to.type != from.type && is_float(from.type)) return initialise(to);
    line("copy({}, {})", from.name, to.name);
    if (bits_of(to.type) <= 8 && !is_float(from.type) && to.type != from.type) clamp_number(to);
    if (is_unsigned(to.type) && !is_unsigned(from.type)) clamp_number(to);
    mark(to, from.rough);
  }
  void clamp_number(const Tile& t) {
    if (t.type != "bool") clamp(t);
  }
  void reduce_step() {
    bool any_type = chance(60);
    Tile from = find([&](const Tile& t) {
      return any_type ? !is_storage(t.type) : !is_float(t.type) && !is_storage(t.type);
    });
    if (from.name.empty()) return;
    bool integers = !is_float(from.type), truth = from.type == "bool";
    size_t dim = size_t(below(int64_t(from.shape.size())));
    std::string op = truth ? pick<std::string>({"any", "all", "bitand", "bitor", "bitxor"})
                     : integers
                         ? pick<std::string>({"sum", "max", "min", "absmax", "abssum", "any", "all", "bitand",
                                              "bitor", "bitxor", "prod", "by"})
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
    Tile to = find(
        [&](const Tile& t) { return t.shape == shape && t.type == to_type && t.storage != from.storage; });
    if (to.name.empty()) to = fresh(chance(80) ? "fragment" : "shared", to_type, shape);
    if (to.name.empty()) return;
    std::string acc = from.type == "f16" || from.type == "bf16" ? "f32" : from.type, attrs;
    if (op == "by")
      attrs = fmt::format(", combine=(a: {0}, b: {0}) -> (max(a, b), {1}:{0})", acc,
                          is_float(acc)      ? "-100.0"
                          : is_unsigned(acc) ? "0"
                                             : "-100");
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
      to = find([&](const Tile& t) {
        return t.shape == from.shape && t.type == from.type && t.storage != from.storage;
      });
      if (to.name.empty()) to = fresh(scope(), from.type, from.shape);
      if (to.name.empty() || !staged(to)) return;
    }
    line("{}({}, {}) {{dim={}, reverse={}}}", sums ? "cumsum" : "cummax", from.name, to.name, dim,
         chance(40) ? 1 : 0);
    mark(to, from.rough);
    clamp(to);
  }
  void transpose_step() {
    Tile from = find([](const Tile& t) { return t.shape.size() > 1; });
    if (from.name.empty() || !staged(from)) return;
    Shape turned = from.shape;
    std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
    bool packed = is_packed(from.type);  // in memory two lie in a byte, and come from different rows
    Tile to = find([&](const Tile& t) {
      return t.shape == turned && t.storage != from.storage && t.type == from.type &&
             (!packed || t.scope == "fragment");
    });
    if (to.name.empty()) to = fresh(packed ? "fragment" : scope(), from.type, turned);
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
    if (bits_of(of.type) < 8 && shape.back() % 2)
      return;  // two elements lie in a byte, and are copied together
    Tile t{.name = fmt::format("V{}", tensors++),
           .scope = "shared",
           .type = of.type,
           .shape = shape,
           .storage = of.storage,
           .rough = of.rough};
    declarations.push_back(
        fmt::format("{} = shared {}[{}] alias({})", t.name, t.type, listed(shape), t.storage));
    tiles.push_back(t);
  }
  // Both operands are parts of one tile, which begin at different places.
  void gemm_of_one_tile(const std::string& type, const Tile& c, int64_t k) {
    int64_t m = c.shape[0], n = c.shape[1], first = 16 * below(4), second = 16 * below(4);
    int64_t all = std::max(first + m, second + n);
    bool across = chance(60);  // k lies across the rows
    Tile t = fresh("shared", type, across ? Shape{k, all} : Shape{all, k});
    if (t.name.empty()) return;
    auto part = [&](int64_t begin, int64_t extent) {
      return across ? fmt::format("{}[0 : +{}, {} : +{}]", t.name, k, begin, extent)
                    : fmt::format("{}[{} : +{}, 0 : +{}]", t.name, begin, extent, k);
    };
    line("gemm({}, {}, {}) {{clear_accum={}, policy=\"{}\", trans_a={}, trans_b={}}}", part(first, m),
         part(second, n), c.name, clears(), pick<std::string>({"square", "full_row", "full_col"}),
         across ? 1 : 0, across ? 0 : 1);
    clamp(c);
  }
  void gemm_step() {
    auto [type, to] = pick<std::pair<std::string, std::string>>({{"f16", "f32"},
                                                                 {"f16", "f32"},
                                                                 {"f16", "f32"},
                                                                 {"f16", "f16"},
                                                                 {"bf16", "f32"},
                                                                 {"f32", "f32"},
                                                                 {"f64", "f64"},
                                                                 {"i8", "i32"},
                                                                 {"u8", "i32"},
                                                                 {"i32", "i32"},
                                                                 {"tf32", "f32"},
                                                                 {"e4m3", "f32"},
                                                                 {"e5m2", "f32"}});
    auto dim = [&] { return chance(70) ? pick<int64_t>({16, 32, 64, 128}) : 1 + below(100); };
    int64_t m = dim(), n = dim(), k = to == "f16" ? 1 + below(32) : dim();
    bool ta = chance(25), tb = chance(40);
    Tile c = find([&](const Tile& t) {
      return t.type == to && t.shape == Shape{m, n} && t.scope == "fragment" && !t.rough;
    });
    if (c.name.empty() || chance(60)) c = fresh("fragment", to, {m, n});
    if (c.name.empty()) return;
    auto operand = [&](const std::string& where, const Shape& shape) {
      Tile t = find([&](const Tile& t) {
        return t.type == type && t.shape == shape && t.scope == where && !t.rough && t.name != c.name;
      });
      return t.name.empty() ? fresh(where, type, shape) : t;
    };
    if (chance(15)) return gemm_of_one_tile(type, c, k);
    Tile a = operand(chance(25) && !ta ? "fragment" : "shared", ta ? Shape{k, m} : Shape{m, k});
    if (a.name.empty()) return;
    Tile b = operand("shared", tb ? Shape{n, k} : Shape{k, n});
    if (b.name.empty()) return;
    line("gemm({}, {}, {}) {{clear_accum={}, policy=\"{}\", trans_a={}, trans_b={}}}", a.name, b.name, c.name,
         clears(), pick<std::string>({"square", "full_row", "full_col"}), ta ? 1 : 0, tb ? 1 : 0);
    clamp(c);
  }
  std::string clears() {
    if (!loops.empty() && chance(40))
      return fmt::format("({} == {})", loops.back().var, below(loops.back().trips));
    if (!scalar.empty() && chance(20)) return fmt::format("({} > {} or b == 0)", scalar, below(8));
    return chance(30) ? "1" : "0";
  }
  static bool atomic_type(const std::string& t) {
    return t == "f32" || t == "f16" || t == "f64" || t == "i32" || t == "i64" || t == "u32";
  }
  void atomic_step() {
    Tile from = find([](const Tile& t) { return atomic_type(t.type) && !t.rough; });
    if (from.name.empty()) return;
    std::string op = pick<std::string>({"add", "add", "max", "min"});
    if (chance(60)) {  // all blocks update one tensor, or each its part
      std::string part = tensor_part(from, blocks > 1 && chance(40));
      return line("atomic_{}_tile({}, {})", op, part, from.name);
    }
    Tile to = find([&](const Tile& t) {
      return t.scope == "shared" && t.type == from.type && t.shape == from.shape &&
             t.storage != from.storage && !t.rough;
    });
    if (to.name.empty()) to = fresh("shared", from.type, from.shape);
    if (to.name.empty()) return;
    line("atomic_{}_tile({}, {})", op, to.name, from.name);
    clamp(to);
  }
  // A loop in a loop nest: each row by one iteration.
  void row_step() {
    Tile from = find([](const Tile& t) {
      return t.shape.size() == 2 && t.scope == "shared" && !is_storage(t.type) && !t.rough &&
             t.shape[1] <= 40;
    });
    if (from.name.empty()) return;
    Tile to = fresh("fragment", "f32", {from.shape[0]});
    if (to.name.empty()) return;
    std::string sum = to.name + "[i0]", w = chance(50) ? fmt::format("w{}", tensors++) : "";
    line("for i0 in parallel({}):", from.shape[0]);
    if (!w.empty()) {  // each iteration's own
      line("  {} = local f32[1]", w);
      line("  {}[0] = {}", w, sum);
      sum = w + "[0]";
    }
    line("  for j in {}({}):", pick<std::string>({"serial", "unrolled"}), from.shape[1]);
    line("    {0} = {0} + cast<f32>({1}[i0, j])", sum, from.name);
    if (!w.empty()) line("  {}[i0] = {}", to.name, sum);
    clamp(to);
  }
};

struct TileGenerator : OperatorText {
  int64_t warp = 32;
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
    line("for {} in {}({}){}:", k, kind, trips,
         kind == "pipelined" ? fmt::format(" {{num_stages={}}}", 1 + below(3)) : "");
    loops.push_back({k, trips});
    if (kind == "serial" && chance(20)) {
      line("  if {} == {}{}:", k, below(trips + 1), scalar.empty() ? "" : fmt::format(" or {} > 4", scalar));
      line("    {}", chance(50) ? "break()" : "continue()");
    }
    body_steps();
    loops.pop_back();
  }
  Tile exact_fragment() {
    return find([](const Tile& t) {
      return t.scope == "fragment" && !t.rough && !is_storage(t.type) && t.type != "bool";
    });
  }
  // Each element by way of a variable that its iteration has; then it may decide.
  void variable_step() {
    Tile t = exact_fragment();
    if (t.name.empty()) return;
    std::string w = fmt::format("w{}", tensors++), at = indices(t.shape);
    for (size_t d = 0; d < t.shape.size(); d++, indent++) line("for i{} in parallel({}):", d, t.shape[d]);
    line("{} = local {}[1]", w, t.type);
    line("{}[0] = {}", w,
         chance(50) ? fmt::format("{}[{}]", t.name, at) : fmt::format("cast<{}>(i0 % 4)", t.type));
    line("{}[{}] = {}[0]", t.name, at, w);
    indent -= int64_t(t.shape.size());
    if (depth < 2 && chance(60)) branch(of_element(t));
  }
  // By an element of a tile of registers, which is one value for the block; by way of a variable, or not.
  std::string of_element(const Tile& t) {
    if (t.name.empty()) return "b == 0";
    Shape at;
    for (int64_t extent : t.shape) at.push_back(below(extent));
    std::string element = fmt::format("cast<f32>({}[{}])", t.name, listed(at));
    if (chance(60)) {
      std::string x = fmt::format("x{}", tensors++);
      line("{} = local f32[1]", x);
      line("{}[0] = {}", x, element);
      element = x + "[0]";
    }
    return fmt::format("{} > {}.0", element, below(4));
  }
  void branch_step() {
    std::string cond = pick<std::string>({"b % 2 == 0", "b > 0", "b == 0"});
    if (chance(40))
      cond = of_element(exact_fragment());
    else if (!scalar.empty() && chance(60))
      cond = fmt::format("{} {} {}", scalar, pick<std::string>({"<", ">="}), below(8));
    branch(cond);
  }
  void branch(const std::string& cond) {
    line("if {}:", cond);
    body_steps();
    if (chance(40)) {
      line("else:");
      body_steps();
    }
  }
  // Two teams beside each other, one of which may be left out.  Registers are one team's: what is in shared
  // memory before it sees, what it makes itself it has alone.
  void teams_step() {
    int64_t all = threads, cut = warp * (1 + below(std::max<int64_t>(1, all / warp - 1)));
    if (cut >= all || all % warp) return elementwise_step();
    int64_t alone = chance(30) ? below(2) : 2, begin = first_thread;
    for (int64_t team = 0; team < 2; team++) {
      if (alone == 1 - team) continue;
      threads = team ? all - cut : cut;
      first_thread = begin + (team ? cut : 0);
      line("group({} : +{}):", first_thread, threads);
      std::vector<Tile> outer = tiles;
      std::erase_if(tiles, [](const Tile& t) { return t.scope != "shared"; });
      body_steps();
      for (auto& mine : tiles)
        for (auto& t : outer)
          if (t.name == mine.name) t = mine;
      tiles = std::move(outer);
    }
    threads = all, first_thread = begin;
  }
  void step() {
    switch (below(depth < 2 ? 30 : 27)) {
      case 0:
      case 1:
        return copy_step();
      case 2:
      case 3:
        return reduce_step();
      case 4:
      case 5:
        return gemm_step();
      case 6:
        fresh(scope(), type(), random_shape());
        return;
      case 7:
      case 8:
        return scan_step();
      case 9:
        return transpose_step();
      case 10:
        return reshape_step();
      case 11:
        return atomic_step();
      case 12:
        return reducer_step();
      case 13:
        return row_step();
      case 14:
        return part_step();
      case 15:
      case 16:
        return view_step();
      case 17:
        return LargeStep{*this}.run();
      case 18:
        return ShortLives{*this}.run();
      case 19:
        return GuardedLookUp{*this}.run();
      case 20:
        return variable_step();
      case 21:
        return teams_step();
      case 27:
      case 28:
        return loop_step();
      case 29:
        return branch_step();
      default:
        return elementwise_step();
    }
  }

  // ── kernels ─────────────────────────────────────────────────────────────────────────────────────────
  void kernel(const std::string& title) {
    threads = pick<int64_t>({32, 64, 96, 128, 128, 128, 160, 192, 256, 256, 384, 512});
    int64_t x = pick<int64_t>({1, 1, 2, 3}), y = x > 1 && chance(30) ? 2 : 1, z = x > 1 && chance(20) ? 2 : 1;
    blocks = x * y * z;
    shared_bytes = registers = 0;
    widest.clear();
    placed.clear();
    tiles.clear();
    declarations.clear();
    lines.clear();
    indent = 2;
    while (tiles.empty()) fresh("fragment", "f32", random_shape());
    for (auto& [name, t] : written)  // what a kernel before wrote
      if (Tile mine = add("shared", t.type, t.shape); !mine.name.empty())
        line("copy({}, {})", name, mine.name);
    int64_t steps = 1 + below(8), faulty = has_fault && program.fault.empty() ? below(steps) : steps;
    for (int64_t i = 0; i < steps; i++) i == faulty ? fault_step() : step();
    std::vector<Tile> results = tiles;
    for (auto& t : results)
      if (chance(60) || &t == &results.back()) {
        std::string part = tensor_part(t, true);
        line("copy({}, {})", t.name, part);
        if (blocks == 1 && !t.rough && written.empty() && chance(40)) written.push_back({part, t});
      }
    std::string third = z > 1 ? fmt::format(", bz: {}", z) : "";
    std::string number = fmt::format("bx*{} + by", y);
    if (z > 1) number = fmt::format("({})*{} + bz", number, z);
    kernels.push_back(fmt::format("  kernel {} grid(bx: {}, by: {}{}) threads({}){}:\n    b = {}\n", title, x,
                                  y, third, threads, chance(20) ? " {use_swizzle=2}" : "", number));
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

Program random_program(uint64_t seed, int64_t shared_limit, int64_t register_limit, int64_t warp) {
  if (seed % 8 == 3) return random_division(seed);
  TileGenerator g{{{{{{{{std::mt19937_64(seed)}, shared_limit, register_limit}}}}}}};
  g.warp = warp;
  return g.run();
}

Program random_moves(uint64_t seed, int64_t shared_limit, int64_t register_limit) {
  return MoveText{{{{{std::mt19937_64(seed)}, shared_limit, register_limit}}}}.moves();
}

Program faulty_program(uint64_t seed, int64_t shared_limit, int64_t register_limit) {
  TileGenerator g{{{{{{{{std::mt19937_64(seed)}, shared_limit, register_limit}}}}}}};
  g.has_fault = true;
  return g.run();
}

}  // namespace tl::fuzz
