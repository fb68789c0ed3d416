// Statements of threads that are not in step: each computes, branches and loops for itself.
#pragma once
#include <utility>

#include "fuzz/handed_text.h"

namespace tl::fuzz {

struct PartedText : HandedText {
  bool whole_warps = true;                      // all lanes of a warp are here
  std::function<void(int depth)> in_step = {};  // a statement of the block as a whole

  std::string name(const char* hint) { return fmt::format("{}{}", hint, fresh++); }
  const Register& any_register() { return registers[size_t(below(int64_t(registers.size())))]; }
  void assign() {
    const Register& r = any_register();
    std::string at = r.size > 1 && chance(50) ? index(r.size, 2) : std::to_string(below(r.size));
    line("{}[{}] = {}", r.name, at, expr(r.type, 3));
  }
  void define() {
    std::string t = type(), n = name("v");
    line("{} = {}", n, expr(t, 3));
    names.push_back({n, t});
  }
  template <class F>
  void nested(F body) {
    size_t outer = names.size();
    indent++;
    size_t before = lines.size();
    body();
    if (lines.size() == before) line("pass");
    indent--;
    names.resize(outer);
  }
  void some(int64_t most, int depth) {
    for (int64_t i = 1 + below(most); i > 0; i--) divergent ? inner(depth) : in_step(depth);
  }

  // Statements of threads that are not in step.
  void inner(int depth) {
    switch (below(depth > 0 ? 13 : 6)) {
      case 0:
        define();
        break;
      case 1:
        own_store();
        break;
      case 2:
        update();
        break;
      case 3:
        if (in_loop && chance(50)) {
          line("if {}:", condition(2));
          nested([&] { line("{}", chance(50) ? "break()" : "continue()"); });
          break;
        }
        [[fallthrough]];
      case 4:
      case 5:
        assign();
        break;
      case 6:
      case 7:
      case 8:
        parted([&] { branch(condition(2), depth); });
        break;
      case 9:
      case 10:
        parted([&] { count_loop(fmt::format("cast<i64>({} % 4)", expr("i32", 2)), depth); });
        break;
      case 11:
        parted([&] { while_loop(depth); });
        break;
      default:
        lane_exchange();
        break;
    }
  }
  template <class F>
  void parted(F body) {
    bool outer = std::exchange(whole_warps, false);
    body();
    whole_warps = outer;
  }
  void branch(const std::string& cond, int depth) {
    line("if {}:", cond);
    nested([&] { some(3, depth - 1); });
    if (chance(40)) {
      line("else:");
      nested([&] { some(3, depth - 1); });
    }
  }
  void count_loop(const std::string& extent, int depth) {
    std::string i = name("k");
    bool constant = extent.find_first_not_of("0123456789") == extent.npos;
    line("for {} in {}({}):", i, constant && chance(40) ? "unrolled" : "serial", extent);
    bool outer = std::exchange(in_loop, true);
    nested([&] {
      names.push_back({i, "i64"});
      some(3, depth - 1);
    });
    in_loop = outer;
  }
  // It counts in a register of its own, which nothing else may set.
  void while_loop(int depth) {
    std::string c = name("c");
    line("{} = local i32[1]", c);
    line("{}[0] = 0", c);
    line("while {}[0] < {}:", c,
         chance(50) ? std::to_string(1 + below(4)) : fmt::format("({}) % 4", expr("i32", 2)));
    bool outer = std::exchange(in_loop, true);
    nested([&] {
      line("{}[0] = {}[0] + 1", c, c);
      some(3, depth - 1);
    });
    in_loop = outer;
  }
  void own_store() {
    for (auto& a : arrays)
      if (a.use == Use::own && chance(60)) {
        if (chance(25) && own_copy(a)) return;
        line("{}[{}] = {}", a.name, own_place(a), expr(a.type, 3));
        return;
      }
    assign();
  }
  void update() {
    for (auto& a : arrays)
      if (a.use == Use::atomic && chance(70)) {
        line("{}(address_of({}[{}]), {}, \"relaxed\")", a.atomic, a.name, index(a.size, 2), expr(a.type, 2));
        return;
      }
    assign();
  }
  std::string exchange(const std::string& t, const std::string& mask, int64_t width) {
    std::string v = expr(t, 2);
    if (chance(40)) return fmt::format("shfl_xor_sync({}, {}, {}, {})", v, 1 + below(width - 1), width, mask);
    if (chance(40))
      return fmt::format("shfl_sync({}, ({}) % {}, {}, {})", v, expr("i32", 1), width, width, mask);
    return fmt::format("shfl_{}_sync({}, {}, {}, {})", chance(50) ? "up" : "down", v, below(width), width,
                       mask);
  }
  // Half of the warps' lanes among themselves, under a condition that the other half does not meet.
  void lane_exchange() {
    if (in_loop || !whole_warps) return assign();
    bool upper = chance(50);
    const Register& r = any_register();
    if (r.type != "i32" && r.type != "u32" && r.type != "f32") return assign();
    line("if x % 32 {} 16:", upper ? ">=" : "<");
    nested([&] { line("{}[0] = {}", r.name, exchange(r.type, upper ? "4294901760:u32" : "65535:u32", 16)); });
  }
};

}  // namespace tl::fuzz
