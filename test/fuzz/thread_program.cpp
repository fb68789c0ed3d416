// The generator of random thread-level programs: statements, exchanges, kernels.
#include "fuzz/thread_program.h"

#include "fuzz/group_text.h"

namespace tl::fuzz {
namespace {

// What whole warps, and the whole block, do.
struct StepText : GroupText {
  void warp_step() {
    std::string n = name("v"), t = pick<std::string>({"i32", "u32", "f32"}), all = "4294967295:u32";
    if (chance(60)) {
      line("{} = {}", n, exchange(t, all, pick<int64_t>({8, 16, 32})));
    } else {
      std::string vote =
          pick<std::string>({"any_sync", "all_sync", "ballot_sync", "match_any_sync", "match_all_sync"});
      bool match = vote[0] == 'm';
      line("{} = {}({}, {})", n, vote, match ? fmt::format("({}) % 5", expr("i32", 2)) : condition(2), all);
      t = vote[0] == 'a' ? "i32" : "u32";
    }
    names.push_back({n, t});
  }
  void block_vote() {
    std::string n = name("v");
    line("{} = sync_threads_{}({})", n, pick<std::string>({"count", "and", "or"}), condition(2));
    names.push_back({n, "i32"});
  }
  void with_use(const std::vector<Use>& uses, auto body) {
    for (size_t i = 0; i < arrays.size(); i++) arrays[i].use = uses[i];
    body();
    for (auto& a : arrays) a.use = Use::none;
  }
  // In common flow a statement that stores reads other arrays only.
  void store_step() {
    Shared& a = any_array();
    if (!a.atomic.empty()) return;
    std::vector<Use> uses;
    for (auto& other : arrays) uses.push_back(&other == &a ? Use::none : Use::read);
    with_use(uses, [&] {
      if (chance(75) || !own_copy(a)) line("{}[{}] = {}", a.name, own_place(a), expr(a.type, 3));
    });
  }
  void read_step() {
    with_use(std::vector<Use>(arrays.size(), Use::read), [&] { chance(50) ? define() : assign(); });
  }
  void update_step() {
    Shared& a = any_array();
    if (a.atomic.empty()) return;
    if (may_sync() &&
        chance(30)) {  // each thread its own element, and nobody else now: the old value is known
      std::string n = name("v");
      sync_all();
      line("{} = {}<{}>(address_of({}[x]), {}, \"relaxed\")", n, a.atomic, a.type, a.name, expr(a.type, 2));
      sync_all();
      names.push_back({n, a.type});
    } else {
      line("{}(address_of({}[{}]), {}, \"relaxed\")", a.atomic, a.name, index(a.size, 2), expr(a.type, 2));
    }
  }
  // Threads part: each array gets one use for as long as they do.
  void part(int depth) {
    std::vector<Use> uses;
    for (auto& a : arrays)
      uses.push_back(a.frozen            ? Use::read
                     : !a.atomic.empty() ? (chance(60) ? Use::atomic : Use::read)
                     : chance(50)        ? Use::own
                                         : Use::read);
    with_use(uses, [&] {
      divergent = true;
      std::string cond = condition(2);
      whole_warps = chance(30);
      if (whole_warps)
        cond = fmt::format("x//32 {} {}", pick<std::string>({"==", "<", ">="}), below(warps + 1));
      if (chance(20))
        count_loop(fmt::format("cast<i64>({} % 4)", expr("i32", 2)), depth);
      else if (chance(20))
        while_loop(depth);
      else
        branch(cond, depth);
      whole_warps = true;
      divergent = false;
    });
  }
  // Barriers of one warp, and of some.
  void partial_step() {
    Shared& a = any_array();
    if (!a.atomic.empty() || a.turn) return;
    const Register& r = any_register();
    if (!casts(a.type, r.type)) return;
    std::string cast = fmt::format("cast<{}>", r.type);
    int64_t ways = threads >= 64 && may_sync() && named(1) && named(2) ? 3 : 1;
    switch (below(ways)) {
      case 0:
        line("if x//32 == {}:", below(warps));
        nested([&] {
          line("{}[x] = {}", a.name, expr(a.type, 2));
          line("sync_warp(4294967295:u32)");
          line("{}[0] = {}({}[x ^ {}])", r.name, cast, a.name, 1 + below(31));
        });
        break;
      case 1:
        line("if x < 64:");
        nested([&] {
          line("{}[x] = {}", a.name, expr(a.type, 2));
          line("bar_sync({}, 64)", named(1));
          line("{}[0] = {}({}[63 - x])", r.name, cast, a.name);
        });
        break;
      default:
        line("if x < 32:");
        nested([&] {
          line("{}[x] = {}", a.name, expr(a.type, 2));
          line("bar_arrive({}, 64)", named(2));
        });
        line("else:");
        nested([&] {
          line("if x < 64:");
          nested([&] {
            line("bar_sync({}, 64)", named(2));
            line("{}[0] = {}({}[(x + {}) % 32])", r.name, cast, a.name, below(32));
          });
        });
    }
    if (may_sync()) sync_all();  // the next one may use the same barriers
  }
  // Two arrays that nothing else uses: where some threads read the last of the one, they write the first of
  // the other.
  void relay() {
    if (!may_sync()) return assign();
    const Register& r = any_register();
    std::string a = name("A"), b = name("A"), v = name("v"), t = pick<std::string>({"i32", "f32", "i16"});
    if (!casts(t, r.type)) return;
    int64_t n =
        1 + below(threads - 1);  // else the condition is none, and a barrier would be due between the two
    line("{} = shared {}[{}]", a, t, threads);
    line("{} = shared {}[{}]", b, t, threads);
    line("{}[x] = {}", a, expr(t, 2));
    sync_all();
    line("if x < {}:", n);
    nested([&] {
      line("{} = {}[{} - x]", v, a, threads - 1);
      line("{}[x] = {}", b, v);
    });
    sync_all();
    line("if x < {}:", n);
    nested([&] { line("{}[0] = cast<{}>({}[{} - x])", r.name, r.type, b, n - 1); });
  }
  void tile_step() {
    Shared &a = any_array(), &b = any_array();
    if (!a.atomic.empty() || !b.atomic.empty() || !casts(b.type, a.type)) return;
    if (chance(30)) return line("fill({}, {})", a.name, constant(a.type));
    if (chance(30)) {
      line("for j in parallel({}):", a.size);
      nested([&] { line("{}[j] = cast<{}>(j % {})", a.name, a.type, 1 + below(40)); });
    } else if (a.name != b.name && a.size == b.size && !is_float(a.type)) {
      line("copy({}, {})", a.name, b.name);
    }
  }
  void common_loop(int depth) {
    std::string i = name("k");
    line("for {} in {}({}):", i, pick<std::string>({"serial", "unrolled"}), 1 + below(3));
    nested([&] {
      names.push_back({i, "i64"});
      some(4, depth - 1);
    });
  }

  // What whole warps do with their registers.
  void between() {
    bool outer = std::exchange(divergent, true);
    switch (below(4)) {
      case 0:
        parted([&] { branch(condition(2), 0); });
        break;
      case 1:
        warp_step();
        break;
      case 2:
        define();
        break;
      default:
        assign();
    }
    divergent = outer;
  }
  // Where the compiler places no barriers, one stands behind each.
  void step(int depth) {
    outer(depth);
    placed();
  }

  // Statements of the block as a whole.
  void outer(int depth) {
    if (!silent && chance(depth == 2 ? often : often / 6)) return async_step();
    if (depth > 0 && chance(teams)) return groups_step(depth);
    switch (below(depth > 0 ? 19 : 13)) {
      case 0:
      case 1:
        store_step();
        break;
      case 2:
      case 3:
        read_step();
        break;
      case 4:
        update_step();
        break;
      case 5:
        warp_step();
        break;
      case 6:
        !in_group() && chance(40) ? block_vote() : warp_step();
        break;
      case 7:
        assign();
        break;
      case 8:
        define();
        break;
      case 9:
        partial_step();
        break;
      case 10:
        may_sync() && chance(50) ? sync_all() : update_step();
        break;
      case 11:
        chance(50) ? tile_step() : relay();
        break;
      case 12:
      case 13:
      case 14:
        part(2);
        break;
      case 15:
        common_loop(depth);
        break;
      case 16:
        line("if {}:", uniform());
        nested([&] { some(3, depth - 1); });
        break;
      case 17:
        late_step(depth);
        break;
      default:
        part(3);
    }
  }
};

struct ThreadGenerator : StepText {
  void declare() {
    std::vector<Shared> made;
    for (int64_t i = 1 + below(3); i > 0; i--) made.push_back(declare_array());
    line("t = thread_number()");
    line("x = cast<i32>(t)");
    names = {{"x", "i32"}, {"t", "i64"}};
    if (scalar) names.insert(names.end(), {{"s", "i32"}, {"w", "u64"}});
    for (int64_t i = 2 + below(3); i > 0; i--) {
      Register r{name("r"), i == 1 ? "i32" : type(), pick<int64_t>({1, 1, 2, 4})};
      line("{} = local {}[{}]", r.name, r.type, r.size);
      for (int64_t e = 0; e < r.size; e++) line("{}[{}] = {}", r.name, e, converted(r.type, 1));
      registers.push_back(r);
    }
    for (auto& a : made) fill_array(a);
    arrays = made;
  }
  void output(const std::string& type, const std::string& value) {
    std::string y = name("Y");
    written.push_back({y, type, blocks * threads});
    params += fmt::format(", {}: {}[{}]", y, type, blocks * threads);
    line("{}[bx*{} + t] = {}", y, threads, value);
  }
  void kernel(const std::string& title) {
    threads = pick<int64_t>({32, 64, 64, 96, 128});
    block_threads = threads;
    next_barrier = 1;
    barriers_of_team = {};
    formed.clear();
    warps = threads / 32;
    blocks = 1 + below(3);
    arrays.clear();
    registers.clear();
    bool flat = threads % 16 != 0 || chance(75);
    line("kernel {} grid(bx: {}) threads({}):", title, blocks,
         flat ? std::to_string(threads) : fmt::format("16, {}", threads / 16));
    indent++;
    declare();
    sync_all();
    for (int64_t i = 2 + below(7); i > 0; i--) step(2);
    sync_all();
    if (chance(20)) {
      line("if {}:", condition(2));
      nested([&] { line("thread_return()"); });
      std::string own = name("A");  // no barrier may stand before it any more
      line("{} = shared i32[{}]", own, threads);
      line("{}[x] = {}", own, expr("i32", 2));
      output("i32", fmt::format("{}[x]", own));
    }
    for (auto& a : arrays)
      for (int64_t e = 0; e < a.per_thread; e++)
        output(a.type,
               fmt::format("{}[{}]", a.name, a.per_thread == 1 ? "x" : fmt::format("x + {}", threads * e)));
    for (auto& r : registers)
      for (int64_t e = 0; e < r.size; e++) output(r.type, fmt::format("{}[{}]", r.name, e));
    indent--;
  }
  Program run() {
    for (std::string t : {"i32", "f32", "u8"}) {
      inputs.push_back({name("X"), t, 97});
      params += fmt::format("{}{}: {}[97]", params.empty() ? "" : ", ", inputs.back().name, t);
    }
    Program p;
    if ((scalar = chance(50))) {
      params += ", s: i32";
      given["s"] = double(below(8));
      params += ", w: u64";
      given["w"] = pick<double>({0x1p63, 0x1p63 + 2048, 0x1.8p63, 0x1p64 - 2048, 77});
    }
    often = pick({0, 30, 50});
    teams = pick({0, 10, 30});
    newer = chance(50);
    aside = [this] { between(); };
    in_step = [this](int depth) { step(depth); };
    if ((all_barriers = chance(50))) p.skip = {"insert_sync"};
    indent = 1;
    kernel("main");
    if (chance(15)) {
      inputs.insert(inputs.end(), written.begin(), written.end());
      kernel("second");
    }
    p.given = given;
    p.text = fmt::format("func main({}):\n{}", params, text());
    return p;
  }
};

}  // namespace

Program random_thread_program(uint64_t seed) {
  ThreadGenerator generator;
  generator.random.seed(seed);
  return generator.run();
}

}  // namespace tl::fuzz
