// What a random thread-level program is written with: registers, shared arrays, expressions over what may be
// read.
#pragma once
#include <algorithm>
#include <array>

#include "fuzz/division_text.h"
#include "fuzz/thread_program.h"

namespace tl::fuzz {

// What threads may do to a shared array while they are not all in step.
enum class Use { none, read, own, atomic };

struct Shared {
  std::string name, type;
  int64_t size = 0, per_thread = 1;  // elements; how many of them each thread owns: x, x + threads, …
  int64_t turn = 0;                  // the thread's own element is (x + turn) % how many threads own it
  std::string atomic = {};           // the one update it ever gets; empty: plain stores
  Use use = Use::none;
  bool frozen = false;  // several teams read it now
};
struct Register {
  std::string name, type;
  int64_t size = 1;
};

struct ThreadText : RandomText {
  int64_t threads = 0, warps = 0, blocks = 1;  // of the team whose statements are written: x and t count them
  int64_t first = 0, block_threads = 0;        // its first one in the block
  std::array<int, 3> barriers_of_team = {};    // named ones: of them all, and two for some of them
  int next_barrier = 1;
  std::vector<Shared> arrays = {};
  std::vector<Register> registers = {};
  std::vector<std::pair<std::string, std::string>> names = {};  // of values in scope: name, type
  std::vector<Register> inputs = {};                            // tensors that are only read
  std::string params = {};
  std::map<std::string, double> given = {};  // scalars that a call brings
  std::vector<Register> written = {};
  int fresh = 0;
  bool divergent = false, in_loop = false, scalar = false;

  // ── barriers, arrays ────────────────────────────────────────────────────────────────────────────────
  // A named barrier of the team; 0: none is left, as teams that the compiler forms need some, too.
  int named(size_t which) {
    int& id = barriers_of_team[which];
    if (id == 0 && next_barrier <= 11) id = next_barrier++;
    return id;
  }
  void sync_all() {
    if (threads == block_threads) return line("sync_threads()");
    if (threads == 32) return line("sync_warp(4294967295:u32)");
    line("bar_sync({}, {})", named(0), threads);
  }
  // That may be written; there is one at least.
  Shared& any_array() {
    for (;;)
      if (Shared& a = arrays[size_t(below(int64_t(arrays.size())))]; !a.frozen) return a;
  }

  // ── expressions ─────────────────────────────────────────────────────────────────────────────────────
  static bool is_float(const std::string& t) { return t[0] == 'f'; }
  static int64_t bits(const std::string& t) { return std::stoll(t.substr(1)); }
  // Whatever the value is: i64 holds indices, which stay small.
  static bool casts(const std::string& from, const std::string& to) {
    return is_float(from) == is_float(to) && (from != "u64" || to != "i64");
  }
  std::string type() {
    return pick<std::string>(
        {"i32", "i32", "i32", "i32", "u32", "i16", "u8", "i8", "f32", "f32", "f16", "i64", "u64"});
  }
  std::string large() {
    uint64_t n = pick<uint64_t>({uint64_t(1) << 63, (uint64_t(1) << 63) + (uint64_t(1) << 55) + 1, UINT64_MAX,
                                 UINT64_MAX - 1, uint64_t(INT64_MAX), 0x9e3779b97f4a7c15});
    return fmt::format("{}:u64", chance(20) ? random() : n);
  }
  std::string constant(const std::string& t) {
    if (is_float(t)) return fmt::format("{}.0:{}", below(9) - 4, t);
    if (t == "bool") return chance(50) ? "true" : "false";
    if (t == "u64" && chance(50)) return large();
    int64_t n =
        t == "i32" && chance(10) ? pick<int64_t>({255, 65535, 1 << 20, INT32_MAX, INT32_MIN}) : below(13);
    return fmt::format("{}:{}", t[0] == 'i' && chance(30) ? -(n % 100) : n, t);
  }
  // In [0, n), for an index.
  std::string index(int64_t n, int depth) {
    if (chance(30) && n >= threads) return "x";
    if (chance(20)) return fmt::format("{}", below(n));
    if (chance(40)) return fmt::format("(x*{} + {}) % {}", 1 + below(7), below(n), n);
    return fmt::format("({}) % {}", expr("i32", depth - 1), n);
  }
  std::string leaf(const std::string& t) {
    std::vector<std::string> fitting;
    for (auto& [name, of] : names)
      if (of == t) fitting.push_back(name);
    for (auto& r : registers)
      if (r.type == t) fitting.push_back(fmt::format("{}[{}]", r.name, below(r.size)));
    if (fitting.empty() || chance(20)) return constant(t);
    return fitting[size_t(below(int64_t(fitting.size())))];
  }
  // An element of an array that may be read now; empty if there is none.
  std::string element(const std::string& t, int depth) {
    std::vector<std::string> fitting;
    for (auto& r : registers)
      if (r.type == t && r.size > 1) fitting.push_back(fmt::format("{}[{}]", r.name, index(r.size, depth)));
    for (auto& r : inputs)
      if (r.type == t) fitting.push_back(fmt::format("{}[{}]", r.name, index(r.size, depth)));
    for (auto& a : arrays) {
      if (a.type != t || a.use == Use::atomic || (!divergent && a.use != Use::read)) continue;
      if (divergent && a.use == Use::none) continue;
      fitting.push_back(
          fmt::format("{}[{}]", a.name, a.use == Use::own ? own_place(a) : index(a.size, depth)));
    }
    return fitting.empty() ? "" : fitting[size_t(below(int64_t(fitting.size())))];
  }
  std::string own_place(const Shared& a) {
    int64_t owners = a.size / a.per_thread;
    std::string mine = a.turn ? fmt::format("(x + {}) % {}", a.turn, owners) : "x";
    return a.per_thread == 1 ? mine : fmt::format("{} + {}", mine, owners * below(a.per_thread));
  }
  std::string number(const std::string& t, int depth) {  // an f32 that is a small integer
    std::string a = expr(t, depth - 1), b = expr(t, depth - 1);
    std::string sum = fmt::format(fmt::runtime(pick<std::string>(
                                      {"({} + {})", "({} - {})", "min({}, {})", "max({}, {})", "({} * {})"})),
                                  a, b);
    return fmt::format("min(max({}, -16.0:{}), 16.0:{})", sum, t, t);
  }
  // 0 now and then, but not always: a constant 0 is refused.
  std::string divisor(const std::string& t, int depth) {
    return fmt::format("({} - cast<{}>(x % 3))", expr(t, depth - 1), t);
  }
  std::string integer(const std::string& t, int depth) {
    std::string a = expr(t, depth - 1);
    if (chance(10)) {
      return guarded_quotient(*this, t, extreme(t, a), divisor(t, depth), constant(t));
    }
    switch (below(9)) {
      case 0:
        return fmt::format("({}//{}:{})", a, 1 + below(9), t);
      case 1:
        return fmt::format("({} % {}:{})", a, 1 + below(30), t);
      case 2:
        return fmt::format("({} {} {}:{})", a, chance(50) ? ">>" : "<<", below(t == "i64" ? 8 : bits(t)), t);
      case 3:
        return fmt::format("{}({}, {})", pick<std::string>({"truncdiv", "truncmod"}), a,
                           fmt::format("{}:{}", 1 + below(9), t));
      case 4:
        return fmt::format("{}({}, {})", pick<std::string>({"min", "max"}), a, expr(t, depth - 1));
      case 5:
        return fmt::format("({} {} {})", a, pick<std::string>({"&", "|", "^"}), expr(t, depth - 1));
      case 6:
        return fmt::format("({}({}))", t[0] == 'u' || chance(50) ? "~" : "-", a);
      default:
        return fmt::format("({} {} {})", a, pick<std::string>({"+", "-", "*"}), expr(t, depth - 1));
    }
  }
  // A dividend, and no constant: the text of a program divides none by 0.
  std::string extreme(const std::string& t, const std::string& a) {
    std::string own = fmt::format("({} ^ cast<{}>(x))", a, t);
    if (chance(50) || t == "i64") return own;
    return fmt::format("select({} > 1:{}, {}, {})", own, t, least_of(t), own);
  }
  // i64 is the index type, whose arithmetic must not overflow.
  std::string small(const std::string& t, int depth) {
    std::string e = integer(t, depth);
    return t == "i64" ? fmt::format("({} % 100003:i64)", e) : e;
  }
  std::string converted(const std::string& t, int depth) {
    std::string from = type();
    if (is_float(t) && !is_float(from))
      return fmt::format("cast<{}>({} % 15:{})", t, expr(from, depth - 1), from);
    if (is_float(from) && t[0] == 'u')
      return fmt::format("cast<{}>(max({}, 0.0:{}))", t, expr(from, depth - 1), from);
    if (chance(20)) return fmt::format("cast<{}>({})", t, condition(depth - 1));
    if (chance(15) && !is_float(t) && t != "i64" && t != "i16" &&
        t != "u64")  // a type of the other sign is there
      return fmt::format("reinterpret<{}>({})", t, expr((t[0] == 'u' ? "i" : "u") + t.substr(1), depth - 1));
    if (t == "i64" && from == "u64") return fmt::format("cast<i64>({} % 100003:u64)", expr(from, depth - 1));
    if (t == "i64") return fmt::format("cast<i64>({}) % 100003", expr(from, depth - 1));
    return fmt::format("cast<{}>({})", t, expr(from, depth - 1));
  }
  std::string expr(const std::string& t, int depth) {
    if (depth <= 0) return leaf(t);
    int64_t way = below(100);
    if (way < 15) return leaf(t);
    if (way < 30)
      if (std::string e = element(t, depth); !e.empty()) return e;
    if (way < 42) return converted(t, depth);
    if (way < 50)
      return fmt::format("select({}, {}, {})", condition(depth - 1), expr(t, depth - 1), expr(t, depth - 1));
    return is_float(t) ? number(t, depth) : small(t, depth);
  }
  std::string condition(int depth) {
    if (depth > 1 && chance(25))
      return fmt::format("({} {} {})", condition(depth - 1), pick<std::string>({"and", "or"}),
                         condition(depth - 1));
    if (chance(10)) return fmt::format("(not {})", condition(depth - 1));
    std::string t = type(),
                as = t == "u64" && chance(40) ? "cast<" + pick<std::string>({"f32", "f64", "f16"}) + ">" : "";
    if (depth > 1 && chance(10) && !is_float(t))
      return guarded_condition(*this, t, extreme(t, expr(t, depth - 2)), divisor(t, depth - 1));
    return fmt::format("({0}({1}) {2} {0}({3}))", as, expr(t, depth - 1),
                       pick<std::string>({"<", "<=", ">", ">=", "==", "!="}), expr(t, depth - 1));
  }
  // The same in all threads of the block.
  std::string common(int depth = 0) {
    std::string what = pick<std::string>({"bx", "bx", "s"});
    if (what == "s" && !scalar) what = "bx";
    if (what == "s")
      return fmt::format("s % {} {} {}", 2 + below(3), pick<std::string>({"==", ">", "<"}), below(3));
    if (depth == 0 && chance(20)) return fmt::format("({}) or ({})", common(1), common(1));
    return fmt::format("bx {} {}", pick<std::string>({"<", ">", "==", "!="}), below(blocks + 1));
  }
};

}  // namespace tl::fuzz
