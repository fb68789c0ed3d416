// The generator of random pipelined programs: strands side by side in a body, loops, what is around them.
#include "fuzz/pipelined_program.h"

#include "fuzz/strand_text.h"

namespace tl::fuzz {
namespace {

struct OwnCopies : StrandText {
  // A tensor that the loop writes too: the part that is copied was written some iterations before.
  Strand update() {
    Strand s;
    Shape shape = any_shape();
    std::string type = pick<std::string>({"f32", "f16", "i32", "i8"});
    if (shape.size() != 2) shape = {16, 32};
    Tile t = tile(type, shape);
    if (t.name.empty()) return s;
    const Around& a = loop();
    std::string u = fresh_name("U"), read = u, write = u;
    int64_t ahead = below(3), rows = (a.highest + std::max<int64_t>(a.most, 1) + 2) * shape[0];
    std::string extents = fmt::format("{}, {}, {}", blocks, rows, shape[1]);
    parameter(u, type, extents);
    is("tensor that the loop writes");
    if (draws(30, "view of a tensor that the loop writes")) {
      std::string v = fresh_name("V");
      declarations.push_back(fmt::format("{} = global {}[{}] alias({})", v, type, extents, u));
      (chance(50) ? read : write) = v;
    }
    Source from{.name = read,
                .first = {"b", fmt::format("{}*{}", a.var, shape[0]), "0"},
                .extents = {0, shape[0], shape[1]}};
    Source to{.name = write,
              .first = {"b", fmt::format("({} + {})*{}", a.var, ahead, shape[0]), "0"},
              .extents = {0, shape[0], shape[1]}};
    Step copy = step([&] { line("copy({}, {})", from.region(), t.name); });
    Step store = nest(shape, [&] {
      line("{} = {}", to.element(),
           stored(t, fmt::format("{}({} + 1.0)", chance(50) ? "-" : "", of(t.name + "[i0, i1]"))));
    });
    s.add(copy);
    s.add(use(t));
    s.add(store);
    if (s.steps.size() == 3 && chance(30)) std::swap(s.steps[1], s.steps[2]);
    s.filled = {t};
    return s;
  }
  // Only read, whatever has written it.
  Strand look() {
    Strand s;
    if (pool.empty()) return s;
    Tile t = pool[size_t(below(int64_t(pool.size())))];
    begin_with(t);
    s.add(use(t));
    return s;
  }

  // Two slots that the program itself fills in turn.
  Strand slots_by_hand() {
    Strand s{.always = true};
    Shape shape = any_shape(), slots = shape;
    slots.insert(slots.begin(), 2);
    std::string type = any_kind();
    Tile t = add("shared", type, slots), seen{.name = "", .type = type, .shape = shape};
    Tile to = sum(sum_type(type), shape);
    if (t.name.empty() || to.name.empty()) return s;
    is("slots by hand");
    const Around& a = loop();
    auto slot = [&](const std::string& n) {
      Source one{
          .name = t.name, .first = {fmt::format("({} - {} + {}) % 2", a.var, a.first, n)}, .extents = {0}};
      for (int64_t e : shape) one.first.push_back("0"), one.extents.push_back(e);
      return one;
    };
    std::vector<Around> inner = std::exchange(around, {});
    Source first = slot("0");
    first.first[0] = "0";
    before(frames.size() - 1, step([&] { line("copy({}, {})", source(seen).region(), first.region()); }));
    around = std::move(inner);
    s.add(step([&] { line("copy({}, {})", source(seen).region(), slot("1").region()); }));
    std::string at = fmt::format("{}[{}]", to.name, indices(shape));
    s.add(nest(shape, [&] { line("{0} = {0} + cast<{1}>({2})", at, to.type, slot("0").element()); }));
    return s;
  }

  // ── copies that the program begins and waits for itself ─────────────────────────────────────────────
  struct Fetch {
    std::string tile = {}, type = {}, tensor = {};
    int64_t each = 1, size = 0, slots = 1;
    bool partly = false;
  };
  Step fetch(const Fetch& f, const std::string& slot, const std::string& turn) {
    return {fmt::format("cp_async_{}{}(address_of({}[{}, tx*{}]), address_of({}[b, {}, tx*{}]){})",
                        4 * f.each, f.partly ? "_zfill" : "", f.tile, slot, f.each, f.tensor, turn, f.each,
                        f.partly ? fmt::format(", tx % 2 * {}", 4 * f.each) : "")};
  }
  Step take(const Fetch& f, const std::string& slot) {
    Tile s = sum(f.type, {f.size});
    if (s.name.empty()) return {};
    int64_t shift = below(f.size);
    return nest(s.shape, [&] {
      line("{0}[i0] = {0}[i0] + {1}[{2}, (i0 + {3}) % {4}]", s.name, f.tile, slot, shift, f.size);
    });
  }
  Strand by_hand() {
    Strand s;
    const Around& a = loop();
    int64_t ahead = below(3);
    Fetch f{.tile = fresh_name("E"),
            .type = pick<std::string>({"f32", "i32"}),
            .tensor = fresh_name("X"),
            .each = pick<int64_t>({1, 2, 4}),
            .slots = 1 + ahead,
            .partly = chance(30)};
    f.size = threads * f.each;
    if (!take_shared(f.slots * f.size * 32)) return s;
    declarations.push_back(fmt::format("{} = shared {}[{}, {}]", f.tile, f.type, f.slots, f.size));
    int64_t turns = std::max<int64_t>(a.most, 1);
    parameter(f.tensor, f.type, fmt::format("{}, {}, {}", blocks, turns, f.size));
    std::string turn = fmt::format("{} - {}", a.var, a.first), commit = "cp_async_commit_group()";
    Step used = take(f, fmt::format("({}) % {}", turn, f.slots));
    if (used.empty()) return s;
    is(ahead ? "a ring by hand beside the loop's" : "a copy by hand in the loop");
    size_t frame = frames.size() - 1;
    for (int64_t i = 0; i < ahead; i++) {
      if (i < turns) before(frame, fetch(f, std::to_string(i), std::to_string(i)));
      before(frame, {commit});
    }
    Step next =
        fetch(f, fmt::format("({} + {}) % {}", turn, ahead, f.slots), fmt::format("{} + {}", turn, ahead));
    if (ahead) next = under(fmt::format("if {} + {} < {}", turn, ahead, a.extent), next);
    next.push_back(commit);
    s.add(next);
    used.insert(used.begin(), fmt::format("cp_async_wait_group({})", ahead));
    s.add(used);
    after(frame, {"cp_async_wait_group(0)"});
    return s;
  }
  // Begun before the loop, waited for behind it.
  void over_the_loop() {
    size_t frame = frames.size() - 1;
    Fetch f{.tile = fresh_name("E"),
            .type = "f32",
            .tensor = fresh_name("X"),
            .each = pick<int64_t>({1, 4}),
            .size = 0,
            .slots = 1,
            .partly = false};
    f.size = threads * f.each;
    if (!take_shared(f.size * 32)) return;
    Step used = take(f, "0");
    if (used.empty()) return;
    is("a copy by hand over the loop");
    declarations.push_back(fmt::format("{} = shared {}[1, {}]", f.tile, f.type, f.size));
    parameter(f.tensor, f.type, fmt::format("{}, 1, {}", blocks, f.size));
    before(frame, fetch(f, "0", "0"));
    before(frame, {"cp_async_commit_group()"});
    used.insert(used.begin(), "cp_async_wait_group(0)");
    after(frame, used);
  }
};

struct PipelineGenerator : OwnCopies {
  bool in_team = false;
  int64_t warp = 32;

  Strand strand(int depth) {
    switch (below(27)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return multiply();
      case 4:
        return attend();
      case 5:
      case 6:
        return running();
      case 7:
      case 8:
      case 9:
        return loads();
      case 10:
      case 11:
        return update();
      case 12:
      case 13:
        return of_an_element();
      case 14:
        return look();
      case 15:
        return slots_by_hand();
      case 16:
      case 17:
        if (depth >= 2) return simple();
        return nested(depth);
      default:
        return simple();
    }
  }
  // What it fills is known to nobody else: other strands may come first, and a condition may stand around it.
  Strand nested(int depth) {
    is("nested in a pipelined loop");
    Strand s;
    known_inside([&] { s.add(step([&] { loops(depth + 1); })); });
    return s;
  }
  // Under one condition: all of it, or each step again.
  void guard(Strand& s) {
    is("condition around copies and uses");
    std::string cond = "if " + condition();
    s.filled.clear();
    if (chance(50)) {
      for (auto& one : s.steps) one = under(cond, one);
      return;
    }
    Step all;
    for (auto& one : s.steps) all.insert(all.end(), one.begin(), one.end());
    s.steps = {under(cond, all)};
  }
  // The steps of all strands, each strand's in order.
  Step merge(std::vector<Strand>& strands) {
    Step all;
    bool mixed = chance(70);
    for (size_t left = 1; left > 0;) {
      left = 0;
      std::vector<Strand*> open;
      for (auto& s : strands)
        if (!s.steps.empty()) open.push_back(&s), left++;
      if (open.empty()) break;
      Strand& s = *open[mixed ? size_t(below(int64_t(open.size()))) : 0];
      all.insert(all.end(), s.steps[0].begin(), s.steps[0].end());
      s.steps.erase(s.steps.begin());
    }
    return all;
  }
  Step body(int depth, std::vector<Tile>& filled) {
    std::vector<Strand> strands;
    bool alone = chance(15);
    if (alone) strands.push_back(multiply(true));
    for (int64_t i = alone ? 0 : 1 + below(depth ? 2 : 3); i > 0; i--) {
      Strand s = strand(depth);
      if (s.steps.empty()) continue;
      if (!s.always && chance(15)) guard(s);
      filled.insert(filled.end(), s.filled.begin(), s.filled.end());
      strands.push_back(std::move(s));
    }
    if (alone && !strands[0].steps.empty()) {
      filled = strands[0].filled;
      return merge_all(strands);
    }
    if (strands.empty() || chance(20)) strands.push_back(loads());
    if (own_copies && !in_team && chance(60)) strands.push_back(by_hand());
    if (!in_team && draws(5, "a barrier of the program")) strands.push_back({.steps = {{"sync_threads()"}}});
    return merge_all(strands);
  }
  Step merge_all(std::vector<Strand>& strands) {
    Step all = merge(strands);
    all.insert(all.begin(), top.begin(), top.end());
    if (all.empty()) all.push_back("pass");
    return all;
  }
  void one_loop(int depth) {
    framed([&] {
      Around a = pipelined();
      std::set<std::string> known = initial;
      Step outer_top = std::exchange(top, {});
      around.push_back(a);
      std::vector<Tile> filled;
      Step all = body(depth, filled);
      around.pop_back();
      top = std::move(outer_top);
      if (!a.open.empty() && !brought.contains(a.open)) parameter(fresh_name("X"), "f32", a.open);
      line("{}:", head_of(a));
      indent++, put(all), indent--;
      if (a.stages * shared_bytes > shared_of_all) is("more slots than fit");
      if (own_copies && !in_team && chance(20)) over_the_loop();
      initial = std::move(known);
      std::erase_if(filled, [&](auto& t) { return own.contains(t.name); });
      if (a.least > 0)
        for (auto& t : filled) initial.insert(t.name);
      if (filled.empty() || !draws(25, "tile read after the loop")) return;
      Tile t = filled[size_t(below(int64_t(filled.size())))];
      begin_with(t);
      put(add_up(t));
    });
  }
  static constexpr int64_t shared_of_all = 163 * 1024;
  void loops(int depth) {
    for (int64_t i = depth == 0 && chance(25) ? 2 : 1; i > 0; i--) one_loop(depth);
  }

  // ── what is around the loops ────────────────────────────────────────────────────────────────────────
  template <class F>
  void known_inside(F f) {
    std::set<std::string> known = initial;
    f();
    initial = std::move(known);
  }
  void in_serial() {
    is("in a serial loop");
    Around a{.var = fresh_name("r"), .extent = std::to_string(1 + below(3)), .stages = -1};
    a.least = a.most = std::stoll(a.extent);
    line("for {} in serial({}):", a.var, a.extent);
    around.push_back(a);
    indent++, loops(0), indent--;
    around.pop_back();
  }
  // Sums are the team's, or the tile's, and given out there.
  template <class F>
  void with_own_sums(F f, const std::string& index = {}, int64_t extent = 1) {
    std::vector<Tile> outer = std::exchange(sums, {});
    size_t outer_scope = std::exchange(scope, frames.size());
    framed([&] {
      f();
      give_sums(index, extent);
    });
    scope = outer_scope;
    sums = std::move(outer);
  }
  void give_sums(const std::string& index, int64_t extent) {
    for (auto& t : sums) {
      Source y{.name = fresh_name("Y"), .first = {"b"}, .extents = {0}};
      std::string extents = std::to_string(blocks);
      if (!index.empty())
        y.first.push_back(index), y.extents.push_back(0), extents += fmt::format(", {}", extent);
      for (int64_t e : t.shape)
        y.first.push_back("0"), y.extents.push_back(e), extents += fmt::format(", {}", e);
      parameter(y.name, t.type, extents);
      line("copy({}, {})", t.name, y.region());
    }
  }
  void in_persistent() {
    is("in the loop over tiles of a persistent kernel");
    int64_t tiles = blocks + below(2 * blocks + 1);
    Around a{.var = fresh_name("t"),
             .extent = fmt::format("(({} - b)//{})", tiles + blocks - 1, blocks),
             .stages = -1};
    a.least = 1, a.most = (tiles + blocks - 1) / blocks;
    std::string t = fresh_name("tile");
    line("for {} in serial({}):", a.var, a.extent);
    indent++;
    line("{} = {}*{} + b", t, a.var, blocks);
    Around tile_of{.var = t, .extent = std::to_string(tiles), .stages = -1};
    tile_of.least = tile_of.most = tiles;
    around.push_back(tile_of);
    with_own_sums([&] { loops(0); }, t, tiles);
    around.pop_back();
    indent--;
  }
  void in_teams() {
    int64_t all = threads, cut = warp * (1 + below(std::max<int64_t>(1, all / warp - 1)));
    if (cut >= all || all % warp) return loops(0);
    is("in a team");
    in_team = true;
    int64_t alone = chance(40) ? below(2) : 2;
    for (int64_t team = 0; team < 2; team++) {
      if (alone == 1 - team) continue;
      threads = team ? all - cut : cut;
      line("group({} : +{}):", team ? cut : 0, threads);
      indent++, with_own_sums([&] { loops(0); }), indent--;
    }
    threads = all;
    in_team = false;
  }
  void in_while() {
    is("in a while loop");
    std::string w = fresh_name("w");
    line("{} = local i32[1]", w);
    line("{}[0] = 0", w);
    line("while {}[0] < {}:", w, below(3));
    indent++, loops(0);
    line("{0}[0] = {0}[0] + 1", w);
    indent--;
  }
  void unit() {
    framed([&] {
      known_inside([&] {
        switch (below(16)) {
          case 0:
          case 1:
            return in_serial();
          case 2:
          case 3:
            return in_persistent();
          case 4:
            is("under a condition");
            line("if {}:",
                 chance(50) ? "b % 2 == 0" : fmt::format("{} > 3", scalar = given(below(8), "i32")));
            indent++, loops(0), indent--;
            return;
          case 5:
          case 6:
            return in_teams();
          case 7:
            return in_while();
          default:
            return loops(0);
        }
      });
    });
  }
  void draw_kinds() {
    for (int64_t i = 1 + below(3); i > 0; i--)
      kinds.push_back(chance(60) ? pick<std::string>({"f16", "f32", "i8", "i32"})
                      : own_copies || chance(70)
                          ? pick<std::string>({"bf16", "e4m3", "e5m2", "i16", "u8", "f64", "i64"})
                          : pick<std::string>({"i4", "e2m1"}));
    bool large = chance(5);
    for (int64_t i = 1 + below(2); i > 0; i--)
      shapes.push_back(
          large        ? Shape{64, 128}
          : chance(60) ? Shape{pick<int64_t>({8, 16, 32, 24}), pick<int64_t>({8, 16, 32, 64, 20})}
          : chance(50) ? Shape{pick<int64_t>({16, 32, 64, 128, 100, 256})}
                       : Shape{pick<int64_t>({2, 4, 3}), pick<int64_t>({4, 8}), pick<int64_t>({8, 16, 32})});
  }
  void run() {
    threads = pick<int64_t>({32, 64, 64, 128, 128, 128, 256});
    blocks = pick<int64_t>({1, 1, 2, 3});
    draw_kinds();
    indent = 2;
    int64_t many = pick<int64_t>({1, 1, 1, 2, 2, 3});
    for (int64_t i = 0; i < many; i++) unit();
    if (many > 1) is(fmt::format("{} loops or nests of loops", many));
    give_sums("", 1);
    bool unaligned = !own_copies && draws(8, "addresses of no known alignment");
    program.text = fmt::format("func main({}):\n  kernel main grid(b: {}) threads({}){}:\n", params, blocks,
                               threads, unaligned ? " {alignment=0}" : "");
    if (own_copies) program.text += "    tx = thread_index(0)\n";
    for (auto& d : declarations) program.text += "    " + d + "\n";
    program.text += text();
  }
};

}  // namespace

PipelinedProgram pipelined_program(uint64_t seed, const PipelinedOptions& options) {
  PipelineGenerator g{{{{{{{{std::mt19937_64(seed)}, 100 * 1024, 200}}}}}}};
  g.own_copies = options.own_copies;
  g.warp = options.warp;
  g.run();
  return {std::move(g.program), std::move(g.features)};
}

}  // namespace tl::fuzz
