// Random programs of several products that add to one accumulator: of different types, majors, policies and
// instructions, in loops of their own or of one, with clears that only the run knows, and threads that look
// at the sums in between.  Tiles are up to what a thread's registers hold.
#pragma once
#include <algorithm>
#include <set>
#include <utility>

#include "fuzz/random_text.h"
#include "fuzz/tile_program.h"

namespace tl::fuzz {

struct SumsText : RandomText {
  bool pinned = false;  // some products name their instruction and their grid, as sm_90a has them
  std::string params = "s: i32", declarations = {}, kind = {};
  int64_t rows = 64, columns = 64, threads = 128, together = 1, names = 0, loops = 0, scalar = 0;
  std::set<std::string> features = {};

  void is(const std::string& feature) { features.insert(feature); }
  std::string fresh(const char* prefix) { return fmt::format("{}{}", prefix, names++); }
  template <class F>
  void under(const std::string& head, F body) {
    line("{}:", head);
    indent++;
    body();
    indent--;
  }

  // One product, of its own operands; copies of them in front of it.
  struct Product {
    std::string type = {}, a = {}, b = {}, attrs = {};
    int64_t k = 32, turns = 1;
    bool trans_a = false, trans_b = false, a_in_registers = false, b_in_registers = false;
  };
  std::string operand_type() {
    if (kind == "i32") return pick<std::string>({"i8", "i8", "u8"});
    return pick<std::string>({"f16", "f16", "f16", "bf16", "e4m3", "e5m2", "tf32"});
  }
  // Mostly one that only the run knows; it holds in most runs.
  std::string clears(const std::string& turn) {
    int64_t way = below(10);
    if (way < 1) return "1";
    if (way < 4) {
      is("a clear by a scalar");
      return fmt::format("(s == {})", chance(75) ? scalar : below(3));
    }
    if (way >= 7 || turn.empty()) return "0";
    if (way < 6) {
      is("a clear by the turn");
      return fmt::format("({} == {})", turn, below(2));
    }
    is("a clear by a scalar");
    return fmt::format("({} == 1 or s > 1)", turn);
  }
  // What sm_90a can do with any 128×64 tile of f16 by 256 threads.
  std::string pin() {
    is("a named instruction");
    switch (below(7)) {
      case 0:
      case 1:
        return R"(, instruction="wgmma_m64k16_f16_f32_ss", warpgroups_m=2, warpgroups_n=1)";
      case 2:
      case 3:
        return R"(, instruction="wgmma_m64k16_f16_f32_ss", warpgroups_m=1, warpgroups_n=2)";
      case 4:
        return R"(, instruction="mma_m16n8k16_f16_f32", warps_m=4, warps_n=2)";
      case 5:
        return R"(, instruction="mma_m16n8k16_f16_f32", warps_m=2, warps_n=4)";
      default:
        return R"(, instruction="fma")";
    }
  }
  // Do the tiles of the products of one loop, each of two slots, fit into a block's memory on every chip?
  bool fits(const Product& p) const {
    constexpr int64_t memory = 96 * 1024, slots = 2;
    int64_t bytes = p.type == "tf32" ? 4 : p.type.ends_with("16") ? 2 : 1;
    return together * slots * (rows + columns) * p.k * bytes <= memory;
  }
  Product product() {
    Product p{.type = pinned ? "f16" : operand_type(), .k = 32 * (1 + below(2))};
    if (!fits(p)) p.k = 32;
    if (!fits(p)) p.type = kind == "i32" ? "i8" : "f16";
    p.turns = chance(70) ? 1 + below(3) : 0;
    p.trans_a = chance(25), p.trans_b = chance(50);
    p.a_in_registers = !pinned && chance(25), p.b_in_registers = !pinned && chance(10);
    p.a = fresh("a"), p.b = fresh("b");
    auto shape = [](bool turned, int64_t x, int64_t y) {
      return turned ? fmt::format("{}, {}", y, x) : fmt::format("{}, {}", x, y);
    };
    std::string left = shape(p.trans_a, rows, p.k), right = shape(p.trans_b, p.k, columns);
    int64_t most = std::max<int64_t>(1, p.turns);
    params +=
        fmt::format(", X{}: {}[{}, {}], Y{}: {}[{}, {}]", p.a, p.type, most, left, p.b, p.type, most, right);
    declarations += fmt::format("    {} = shared {}[{}]\n    {} = shared {}[{}]\n", p.a, p.type, left, p.b,
                                p.type, right);
    if (p.a_in_registers) declarations += fmt::format("    {}r = fragment {}[{}]\n", p.a, p.type, left);
    if (p.b_in_registers) declarations += fmt::format("    {}r = fragment {}[{}]\n", p.b, p.type, right);
    p.attrs = fmt::format("policy=\"{}\", trans_a={}, trans_b={}",
                          pick<std::string>({"square", "square", "full_row", "full_col"}), int(p.trans_a),
                          int(p.trans_b));
    if (pinned && chance(90)) p.attrs += pin();
    if (p.a_in_registers) is(p.trans_a ? "A in registers, transposed" : "A in registers");
    if (p.b_in_registers) is("B in registers");
    if (!p.trans_b) is("B along its columns");
    is("operands of " + p.type);
    return p;
  }
  void multiply(const Product& p, const std::string& turn) {
    auto part = [&](const std::string& name, bool turned, int64_t x, int64_t y) {
      return fmt::format("{}[{}, 0 : +{}, 0 : +{}]", name, turn.empty() ? "0" : turn, turned ? y : x,
                         turned ? x : y);
    };
    line("copy({}, {})", part("X" + p.a, p.trans_a, rows, p.k), p.a);
    line("copy({}, {})", part("Y" + p.b, p.trans_b, p.k, columns), p.b);
    if (p.a_in_registers) line("copy({0}, {0}r)", p.a);
    if (p.b_in_registers) line("copy({0}, {0}r)", p.b);
    line("gemm({}{}, {}{}, sums) {{{}, clear_accum={}}}", p.a, p.a_in_registers ? "r" : "", p.b,
         p.b_in_registers ? "r" : "", p.attrs, clears(turn));
  }
  void run(const Product& p) {
    if (p.turns == 0) return multiply(p, "");
    std::string k = fresh("k"), how = pick<std::string>({"pipelined", "pipelined", "serial"});
    loops++;
    under(fmt::format("for {} in {}({}){}", k, how, p.turns,
                      how == "pipelined" ? fmt::format(" {{num_stages={}}}", 1 + below(3)) : ""),
          [&] { multiply(p, k); });
  }
  void threads_look() {
    is("threads between products");
    line("for i in parallel({}):", rows);
    line("  for j in parallel({}):", columns);
    line("    sums[i, j] = {}", pick<std::string>({"max(sums[i, j], -sums[i, j])", "-sums[i, j]"}));
  }
  void products() {
    int64_t count = 2 + below(3);
    if (chance(25)) {
      is("products of one loop");
      std::string k = fresh("k");
      std::vector<Product> all;
      together = count;
      if (!fits({.type = "f16"})) together = count = 2;
      for (int64_t i = 0; i < count; i++) all.push_back(product()), all.back().turns = 3;
      for (auto& p : all)  // each its own turns of the tensors
        for (auto* name : {&p.a, &p.b}) widen(*name);
      return under(fmt::format("for {} in pipelined(3) {{num_stages=2}}", k), [&] {
        for (auto& p : all) multiply(p, k);
      });
    }
    for (int64_t i = 0; i < count; i++) {
      run(product());
      if (chance(25)) threads_look();
      if (chance(40)) leave();  // what a later clear would hide
    }
  }
  // A tensor of three turns.
  void widen(const std::string& name) {
    for (std::string head : {"X" + name + ": ", "Y" + name + ": "})
      if (size_t at = params.find(head); at != params.npos) {
        size_t from = params.find('[', at) + 1;
        params.replace(from, params.find(',', from) - from, "3");
      }
  }
  void leave() {
    std::string out = fresh("O");
    params += fmt::format(", {}: {}[{}, {}]", out, kind, rows, columns);
    line("copy(sums, {})", out);
  }
  Program make() {
    kind = !pinned && chance(20) ? "i32" : "f32";
    threads = pinned ? 256 : pick<int64_t>({128, 128, 256, 256, 384, 512});
    rows = pinned ? 128 : pick<int64_t>({64, 64, 128, 128, 192, 96, 32});
    columns = pinned ? 64 : pick<int64_t>({32, 64, 64, 96, 112, 128, 160});
    if (!pinned && chance(10))
      rows = 192, columns = 128, threads = 128, is("as many registers as a thread has");
    indent = 2, scalar = below(3);
    line("{}", chance(50) ? "clear(sums)" : kind == "f32" ? "fill(sums, 3.0)" : "fill(sums, 3)");
    if (chance(25)) {
      is("in a loop around");
      under("for o in serial(2)", [&] { products(); });
    } else {
      products();
    }
    leave();
    if (loops > 1) is("several loops");
    std::string text = fmt::format(
        "func main({}):\n  kernel main grid(bx: 1) threads({}):\n{}    sums = fragment {}[{}, {}]\n", params,
        threads, declarations, kind, rows, columns);
    return {.text = text + this->text(), .given = {{"s", double(scalar)}}};
  }
};

}  // namespace tl::fuzz
