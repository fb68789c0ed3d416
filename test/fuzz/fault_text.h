// One fault in a program that is right but for it, and the line at which it is to be refused.
#pragma once
#include "fuzz/part_text.h"

namespace tl::fuzz {

struct FaultText : PartText {
  bool has_fault = false;

  template <class... A>
  void wrong(fmt::format_string<A...> format, A&&... args) {
    line(format, std::forward<A>(args)...);
    program.fault = lines.back();
  }
  template <class... A>
  void under(fmt::format_string<A...> head, A&&... args) {
    line(head, std::forward<A>(args)...);
    indent++;
  }

  // ── reducers ────────────────────────────────────────────────────────────────────────────────────────
  void reducer_fault() {
    std::string o = fmt::format("o{}", tensors++), i = fmt::format("c{}", tensors++);
    Tile to = add("shared", "f32", {8});
    if (to.name.empty()) return;
    std::string type = pick<std::string>({"f32", "f16"});
    line("{} = local {}[8] reducer(\"sum\")", o, type);
    auto open = [&] { line("reducer_init({}, {}.0)", o, below(3)); };
    auto close = [&] { line("finalize_reducer({})", o); };
    auto give = [&] {
      under("for {} in parallel(8):", i);
      line("{0}[{1}] = {0}[{1}] + 1.0", o, i);
      indent--;
    };
    int outer = indent;
    switch (below(13)) {
      case 0:  // read before it is finalised, by an operator
        open(), give(), wrong("copy({}, {})", o, to.name), close();
        break;
      case 1:  // … by a loop, which also contributes
        open(), under("for {} in parallel(8):", i);
        wrong("{}[{}] = cast<f32>({}[{}])", to.name, i, o, i);
        indent--, close();
        break;
      case 2:
        under("for {} in parallel(8):", i), wrong("{0}[{1}] = {0}[{1}] + 2.0", o, i), indent--, open(),
            close();
        break;
      case 3:
        open(), give(), wrong("reducer_init({}, 7.0)", o), close();
        break;
      case 4:
        open(), give(), close(), wrong("finalize_reducer({}) {{batch=2}}", o);
        break;
      case 5:
        open(), give(), under("for {} in serial(1):", i), wrong("finalize_reducer({})", o);
        break;
      case 6:
        under("if b >= 0:"), wrong("reducer_init({}, 5.0)", o), indent--, give(), close();
        break;
      case 7:
        open(), under("for {} in parallel(8):", i),
            wrong("{}[{}] = cast<{}>({}[{}])", o, i, type, to.name, i), indent--, close();
        break;
      case 8:
        open(), give(), close(), under("for {} in parallel(8):", i), wrong("{0}[{1}] = {0}[{1}] + 3.0", o, i);
        break;
      case 9:
        open(), wrong("copy({}, {})", to.name, o), close();
        break;
      case 10:
        under("if b >= 0:"), open(), give(), close(), indent--, wrong("copy({}, {})", o, to.name);
        break;
      case 11:
        open(), wrong("v{} = {}[0]", tensors++, o), close();
        break;
      default:
        open(), wrong("{0}[1] = {0}[1] + 1.0", o), close();
    }
    indent = outer;
  }

  // ── what is read and written at once ────────────────────────────────────────────────────────────────
  void overlap_fault() {
    Tile t = find([](const Tile& t) { return t.size() > 1 && !is_packed(t.type); });
    Part a, b;
    if (t.name.empty() || !two_parts(t, true, a, b)) return;
    if (chance(30)) return wrong("atomic_add_tile({}, {})", a.text(t.name), b.text(t.name));
    wrong("copy({}, {})", a.text(t.name), b.text(t.name));
  }
  // The same through a view of another type: the bytes say it.
  void view_fault() {
    int64_t n = 8 + below(100);
    Tile t = add("shared", "f32", {n});
    if (t.name.empty()) return;
    std::string v = fmt::format("V{}", tensors++);
    declarations.push_back(fmt::format("{} = shared f16[{}] alias({})", v, 2 * n, t.name));
    int64_t e = 1 + below(n / 2), here = below(n - e + 1), there = below(2 * n - e + 1);
    bool apart = there + e <= 2 * here || 2 * (here + e) <= there;
    if (apart) there = 2 * here + below(2 * e) - below(e);
    if (there < 0 || there + e > 2 * n) there = std::min(2 * here, 2 * n - e);
    std::string typed = fmt::format("{}[{} : +{}]", t.name, here, e),
                viewed = fmt::format("{}[{} : +{}]", v, there, e);
    chance(50) ? wrong("copy({}, {})", typed, viewed) : wrong("copy({}, {})", viewed, typed);
  }
  void iteration_fault() {
    Tile t = find([](const Tile& t) { return t.shape.back() > 1 && !is_packed(t.type); });
    if (t.name.empty()) return;
    int64_t n = t.shape.back(), by = 1 + below(std::max<int64_t>(1, (n - 1) / 2));
    Shape extents = t.shape;
    extents.back() = n - by;
    if (by >= extents.back() || t.size() > 4096) return;
    int outer = indent;
    open_nest(extents);
    std::string own = indices(t.shape), other = fmt::format("{} + {}", own, by);
    if (chance(50)) std::swap(own, other);
    wrong("{}[{}] = {}[{}]", t.name, own, t.name, other);
    indent = outer;
  }

  // ── loops in loops ──────────────────────────────────────────────────────────────────────────────────
  void nest_fault() {
    Tile t = add("shared", "f32", {8, 8});
    if (t.name.empty()) return;
    int outer = indent;
    std::string i = fmt::format("c{}", tensors++), k = fmt::format("k{}", tensors++);
    bool vector = chance(40);
    under("for {} in {}(4):", i, vector ? "vectorized" : "parallel");
    if (chance(30)) under("if {} % 2 == 0:", i);
    if (chance(30)) under("for {} in {}(2):", k, pick<std::string>({"serial", "unrolled"}));
    switch (below(vector ? 6 : 5)) {
      case 0:
        wrong("fill({}, {}.0)", t.name, below(9));
        break;
      case 1:
        wrong("cumsum({}, {}) {{dim=1}}", t.name, t.name);
        break;
      case 2:
        wrong("sync_threads()");
        break;
      case 3:
        wrong("{} = {} f32[4]", fmt::format("T{}", tensors++), scope());
        break;
      case 4:
        wrong("for p{} in pipelined(2) {{num_stages=2}}:", tensors++);
        line("  pass");
        break;
      default:
        wrong("for p{} in {}(2):", tensors++, pick<std::string>({"parallel", "vectorized"}));
        line("  {}[0, {}] = 1.0", t.name, i);
    }
    indent = outer;
  }

  void fault_step() {
    int outer = indent;
    if (chance(30)) under("for c{} in serial({}):", tensors++, 1 + below(3));
    while (program.fault.empty()) switch (below(5)) {
        case 0:
        case 1:
          reducer_fault();
          break;
        case 2:
          chance(60) ? overlap_fault() : view_fault();
          break;
        case 3:
          iteration_fault();
          break;
        default:
          nest_fault();
      }
    indent = outer;
  }
};

}  // namespace tl::fuzz
