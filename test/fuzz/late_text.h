// Copies that go on while their threads do other work, and are waited for late: behind a loop, in one, in
// both arms of a condition, each at its own place, or in one arm and behind it.
#pragma once
#include "fuzz/parted_text.h"

namespace tl::fuzz {

struct LateText : PartedText {
  bool all_barriers = false;  // the compiler places none

  void placed() {
    if (all_barriers) sync_all();
  }
  // The same in all threads, and known to the data alone now and then.
  std::string uniform() {
    if (chance(40)) return common();
    std::string t, element;
    if (chance(60)) {
      const Register& r = inputs[size_t(below(int64_t(inputs.size())))];
      t = r.type, element = fmt::format("{}[{}]", r.name, below(r.size));
    } else {
      const Shared& a = any_array();
      t = a.type, element = fmt::format("{}[{}]", a.name, below(a.size));
    }
    if (all_barriers || chance(50)) {
      std::string v = name("v");
      line("{} = {}", v, element);
      placed();
      element = v;
    }
    return fmt::format("{} {} {}", element, pick<std::string>({">", "<=", "=="}), constant(t));
  }
  template <class F>
  void otherwise(F body) {
    line("else:");
    nested(body);
  }

  // ── copies ──────────────────────────────────────────────────────────────────────────────────────────
  struct Late {
    std::string name, type;
    int64_t first, size;  // elements that the present team has copied
  };
  // In order: the threads' parts lie in the array as they are numbered.
  Late begin_late(bool in_order = false) {
    int64_t each = chance(40) ? 4 : 1, turn = !in_order && chance(40) ? below(threads) : 0;
    Late a{.name = name("L"), .type = chance(50) ? "i32" : "f32", .first = 0, .size = threads * each};
    line("{} = shared {}[{}]", a.name, a.type, a.size);
    std::string from;
    for (auto& input : inputs)
      if (input.type == a.type && input.size >= 4)
        from = fmt::format("{}[({}) % {} * {}]", input.name, index(97, 2), input.size / each, each);
    bool partly = chance(30);
    line("cp_async_{}{}(address_of({}[(x + {}) % {} * {}]), address_of({}){})", 4 * each,
         partly ? "_zfill" : "", a.name, turn, threads, each, from,
         partly ? fmt::format(", select({}, {}, 0)", condition(1), 4 * each) : "");
    return a;
  }
  void use_late(const Late& a) {
    const Register& r = any_register();
    std::string element = fmt::format("{}[{}]", r.name, below(r.size)),
                from = fmt::format("{}[{} + {}]", a.name, a.first, somewhere(std::to_string(a.size)));
    line("{} = {}", element, mix(r.type, element, cast(r.type, a.type, from)));
  }
  // Threads exchange something else meanwhile.
  void swap() {
    const Register& r = any_register();
    std::string a = name("A"), t = pick<std::string>({"i32", "f32", "u8"}),
                element = fmt::format("{}[{}]", r.name, below(r.size));
    line("{} = shared {}[{}]", a, t, threads);
    line("{}[x] = {}", a, expr(t, 2));
    placed();
    line("{} = {}", element,
         mix(r.type, element, cast(r.type, t, fmt::format("{}[{} - x]", a, threads - 1))));
    placed();
  }
  void meanwhile(int depth) {
    auto one = [&] { chance(60) ? swap() : in_step(depth - 1); };
    switch (below(5)) {
      case 0:
        return under(
            fmt::format("for {} in {}({})", name("k"), chance(50) ? "serial" : "unrolled", 1 + below(2)),
            one);
      case 1:
        return under("if " + uniform(), one);
      default:
        return one();
    }
  }

  // ── waits ───────────────────────────────────────────────────────────────────────────────────────────
  struct Flight {
    std::vector<Late> copies = {};
    bool committed = true;
    int depth = 0;
  };
  void wait_here(const Flight& all) {
    if (chance(30)) meanwhile(all.depth);
    if (chance(40)) {
      line("cp_async_wait_all()");
    } else {
      if (!all.committed) line("cp_async_commit_group()");
      line("cp_async_wait_group(0)");
    }
    placed();
    for (auto& a : all.copies)
      if (chance(80)) use_late(a);
    placed();  // another tile may take their place
  }
  void wait_in_loop(const Flight& all) {
    auto body = [&] { wait_here(all); };
    std::string k = name("k");
    switch (below(4)) {
      case 0:  // at least once
        return under(fmt::format("for {} in {}({})", k, chance(50) ? "serial" : "unrolled", 1 + below(3)),
                     body);
      case 1:  // perhaps never
        under(fmt::format("for {} in serial({})", k, trips(2).text), body);
        break;
      case 2:  // not in each turn
        under(fmt::format("for {} in serial({})", k, 1 + below(3)), [&] {
          under("if " + uniform(), [&] { line("{}", chance(50) ? "break()" : "continue()"); });
          body();
        });
        break;
      default: {
        line("{} = local i32[1]", k);
        line("{}[0] = 0", k);
        under(fmt::format("while {}[0] < {}", k, chance(50) ? "cast<i32>(bx)" : std::to_string(below(3))),
              [&] {
                line("{0}[0] = {0}[0] + 1", k);
                body();
              });
      }
    }
    wait_here(all);
  }
  void late_step(int depth) {
    Flight all{.committed = chance(70), .depth = depth};
    Late earlier;
    bool two = all.committed && chance(30);
    if (two) {
      earlier = begin_late();
      line("cp_async_commit_group()");
      if (chance(50)) meanwhile(depth);
    }
    for (int64_t i = 1 + below(2); i > 0; i--) all.copies.push_back(begin_late());
    if (all.committed) line("cp_async_commit_group()");
    if (two) {
      if (chance(50)) meanwhile(depth);
      line("cp_async_wait_group(1)");
      placed();
      use_late(earlier);
      placed();
    }
    if (chance(80)) meanwhile(depth);
    switch (below(6)) {
      case 0:
        return wait_here(all);
      case 1:
      case 2:
        under("if " + uniform(), [&] { wait_here(all); });
        return otherwise([&] { wait_here(all); });
      case 3:
        under("if " + uniform(), [&] { wait_here(all); });
        if (chance(50)) otherwise([&] { meanwhile(depth); });
        return wait_here(all);
      default:
        wait_in_loop(all);
    }
  }
};

}  // namespace tl::fuzz
