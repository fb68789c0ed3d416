// How an iteration of a random pipelined program fills a shared tile: whole or in part, once or twice, by
// copies, loop nests, atomic updates, by way of registers or of another view, under a condition or not.
#pragma once
#include "fuzz/pipeline_text.h"

namespace tl::fuzz {

struct FillText : PipelineText {
  Place placed = {};  // that of the copy at hand

  // Of another type than the tile's now and then.
  std::string source_type(const Tile& t) {
    if (!draws(20, "copy with a cast")) return t.type;
    if (is_unsigned(t.type)) return "u8";
    if (t.type == "i4") return "i8";
    if (chance(20) && !own_copies) return "i4";  // which the lockstep machine does not know
    return is_float(t.type) ? pick<std::string>({"f32", "f16", "bf16", "i8", "e4m3", "i32"})
                            : pick<std::string>({"i8", "i32", "i16"});
  }
  Source source_of(const Tile& t, const Place* moved = nullptr) {
    return source(t.shape.back() % 2 ? t.type : source_type(t), t.shape, moved);
  }
  std::string of(const std::string& element) { return fmt::format("cast<f32>({})", element); }

  // ── whole ───────────────────────────────────────────────────────────────────────────────────────────
  Step copy_of(const Tile& t, const Place* moved = nullptr) {
    return step([&] { line("copy({}, {})", source_of(t, moved).region(), t.name); });
  }
  Step nest_of(const Tile& t) {
    is("filled by a nest");
    Source a = source_of(t), b = chance(40) ? source_of(t) : Source{};
    return nest(t.shape, [&] {
      std::string v = of(a.element());
      if (!b.name.empty()) v += fmt::format(" {} {}", pick<std::string>({"+", "-"}), of(b.element()));
      if (chance(30)) v = fmt::format("{} * 2.0 + 1.0", v);
      line("{}[{}] = {}", t.name, indices(t.shape), stored(t, v));
    });
  }
  // Rows that an index tensor names, or a tile of indices of the same iteration.
  std::vector<Step> gather_of(const Tile& t) {
    Source from = source(t.type, t.shape);
    std::vector<Step> steps;
    Tile rows = chance(60) ? tile("i32", {t.shape[0]}) : Tile{};
    std::string row;
    if (rows.name.empty()) {
      is("indirect rows: a tensor");
      row = fmt::format("cast<i64>({}) + 3", source("i32", {t.shape[0]}).element());
    } else {
      is("indirect rows: a tile of the iteration");
      steps.push_back(copy_of(rows));
      row = fmt::format("cast<i64>({}[i0]) + 3", rows.name);
    }
    steps.push_back(nest(
        t.shape, [&] { line("{}[{}] = {}", t.name, indices(t.shape), stored(t, of(from.element(row)))); }));
    return steps;
  }
  std::vector<Step> through_registers(const Tile& t) {
    Tile r = registers_of(chance(60) ? t.type : is_float(t.type) ? "f32" : "i32", t.shape);
    if (r.name.empty()) return {copy_of(t)};
    is("by way of a fragment");
    return {step([&] { line("copy({}, {})", source_of(r).region(), r.name); }),
            step([&] { line("copy({}, {})", r.name, t.name); })};
  }
  std::vector<Step> through_another(const Tile& t) {
    Tile other = tile(t.type, t.shape, {t});
    if (other.name.empty()) return {copy_of(t)};
    is("by way of another shared tile");
    return {copy_of(other), step([&] { line("copy({}, {})", other.name, t.name); })};
  }
  // From where an element of a tile of the same iteration says.
  std::vector<Step> by_page(const Tile& t) {
    Tile pages = chance(60) ? tile("i32", {4}, {t}) : registers_of("i32", {4});
    if (pages.name.empty()) return {copy_of(t)};
    is("place: an element of a tile of the iteration");
    int64_t e = t.shape[0] + t.shape[0] % 2;  // two elements may lie in a byte
    Step copy = copy_of(pages);
    placed = {fmt::format("(cast<i64>({}[{}]) + 3)*{}", pages.name, below(4), e), 6 * e};
    return {copy, copy_of(t, &placed)};
  }
  // Not where two elements lie in a byte.
  static bool has_parts(const Tile& t) { return !is_packed(t.type) || t.shape.size() > 1; }
  // Two copies that fill one half each.
  std::vector<Step> halves_of(const Tile& t) {
    if (t.shape[0] % 2 || !has_parts(t)) return {copy_of(t)};
    is("in two halves");
    std::vector<Step> steps;
    Shape half = t.shape;
    half[0] /= 2;
    for (int64_t i = 0; i < 2; i++) steps.push_back(step([&] { copy_part(t, i * half[0], half); }));
    return steps;
  }
  void copy_part(const Tile& t, int64_t first_row, const Shape& part) {
    Source to{.name = t.name};
    for (size_t d = 0; d < part.size(); d++)
      to.first.push_back(d ? "0" : std::to_string(first_row)), to.extents.push_back(part[d]);
    line("copy({}, {})", source(t.type, part).region(), to.region());
  }
  // Another view of its memory is filled, of another shape or of as many bits.
  std::vector<Step> view_of(const Tile& t) {
    if (own.contains(t.name) || laid_out.contains(t.name) || is_packed(t.type)) return {copy_of(t)};
    is("aliased");
    Tile v = t;
    v.name = fresh_name("V");
    int64_t size = t.size();
    if (chance(60))
      v.shape = size % 4 == 0 && chance(50) ? Shape{4, size / 4} : Shape{size};
    else if (!is_float(t.type) && !own_copies)  // as the lockstep machine has no bytes
      v.type = t.type[0] == 'i' ? "u" + t.type.substr(1) : "i" + t.type.substr(1);
    declarations.push_back(
        fmt::format("{} = shared {}[{}] alias({})", v.name, v.type, listed(v.shape), t.name));
    return {step([&] { line("copy({}, {})", source(t.type, v.shape).region(), v.name); })};
  }
  std::vector<Step> atomics_of(const Tile& t) {
    bool can = t.type == "f32" || t.type == "f16" || t.type == "i32";
    Tile r = can ? registers_of(t.type, t.shape) : Tile{};
    if (r.name.empty()) return {copy_of(t)};
    is("filled by atomics");
    Step clear{fmt::format("clear({})", t.name)};
    if (chance(30)) clear = copy_of(t);
    return {step([&] { line("copy({}, {})", source(r).region(), r.name); }),
            clear,
            {fmt::format("atomic_{}_tile({}, {})", pick<std::string>({"add", "max"}), t.name, r.name)}};
  }
  std::vector<Step> twice(const Tile& t) {
    is("written twice");
    std::vector<Step> steps{copy_of(t)};
    if (is_plain(t) && chance(40)) steps.push_back({fmt::format("clear({})", t.name)});
    steps.push_back(chance(50) && is_plain(t) ? nest_of(t) : copy_of(t));
    return steps;
  }
  std::vector<Step> in_place(const Tile& t) {
    is("modified after the copy");
    Source more = source_of(t);
    std::string own_element = fmt::format("{}[{}]", t.name, indices(t.shape));
    bool other = chance(40);
    return {copy_of(t), nest(t.shape, [&] {
              std::string v = other ? fmt::format("{} + {}", of(own_element), of(more.element()))
                                    : fmt::format("{} * 2.0 - 1.0", of(own_element));
              line("{} = {}", own_element, stored(t, v));
            })};
  }

  // ── in part, or not always ──────────────────────────────────────────────────────────────────────────
  std::vector<Step> part_of(const Tile& t) {
    if (t.shape[0] < 2 || !has_parts(t)) return {copy_of(t)};
    is("partly written");
    begin_with(t);
    Shape part = t.shape;
    part[0] = 1 + below(t.shape[0] - 1);
    int64_t first = below(t.shape[0] - part[0] + 1);
    return {step([&] { copy_part(t, first, part); })};
  }
  std::vector<Step> conditional(const Tile& t) {
    if (chance(50)) {
      is("condition around the copy alone");
      begin_with(t);
      if (chance(70)) return {under("if " + condition(), copy_of(t))};
      is("condition: variable");  // another step of the iteration changes it
      std::string x = fresh_name("x");
      before(frames.size() - 1,
             {fmt::format("{} = local i32[1]", x), fmt::format("{}[0] = {}", x, below(3))});
      Step copy = under(fmt::format("if {}[0] % 3 != 1", x), copy_of(t)),
           next{fmt::format("{0}[0] = {0}[0] + {1}", x, 1 + below(2))};
      return chance(50) ? std::vector{next, copy} : std::vector{copy, next};
    }
    std::string cond = condition();
    is("condition around the copy, filled otherwise");
    Step otherwise = is_plain(t) && chance(60) ? Step{fmt::format("clear({})", t.name)} : copy_of(t);
    return {under("if " + cond, copy_of(t), otherwise)};
  }
  // By a variable that the iteration computes, or that counts up.
  std::vector<Step> by_variable(const Tile& t) {
    const Around& a = loop();
    std::string x = fresh_name("x"), kind = pick<std::string>({"i64", "i32"}), set;
    int64_t highest = 0, last = std::max<int64_t>(a.highest + a.most - 1, 0);
    Step after;
    if (chance(50)) {
      is("variable of an iteration in a copy's place");
      before(frames.size() - 1, {fmt::format("{} = local {}[1]", x, kind)});
      int64_t turn = 2 + below(3);
      set = fmt::format("{}[0] = cast<{}>(({}*{} + 1) % {})", x, kind, a.var, 1 + below(3), turn);
      highest = turn - 1;
    } else {
      is("variable that counts in a copy's place");
      before(frames.size() - 1, {fmt::format("{} = local {}[1]", x, kind), fmt::format("{}[0] = 0", x)});
      int64_t by = 1 + below(2);
      highest = (last + 1) * by;
      Step next{fmt::format("{0}[0] = {0}[0] + {1}", x, by)};
      if (chance(30)) next = under("if " + condition(), next);
      chance(50) ? void(after = next) : void(set = "");
      if (after.empty()) return {next, copy_of(t, place_at(t, x, highest))};
    }
    std::vector<Step> steps;
    if (!set.empty()) steps.push_back({set});
    steps.push_back(copy_of(t, place_at(t, x, highest)));
    if (!after.empty()) steps.push_back(after);
    return steps;
  }
  const Place* place_at(const Tile& t, const std::string& x, int64_t highest) {
    int64_t e = t.shape[0] + t.shape[0] % 2;  // two elements may lie in a byte
    placed = {fmt::format("cast<i64>({}[0])*{}", x, e), highest * e};
    return &placed;
  }
  // A name for the place.
  std::vector<Step> by_name(const Tile& t) {
    is("name of a copy's place");
    std::string p = fresh_name("p");
    Place m = moving(t.shape[0] + t.shape[0] % 2, true);
    Step name{fmt::format("{} = {}", p, m.first)};
    placed = {p, m.highest};
    Step copy = copy_of(t, &placed);
    name.insert(name.end(), copy.begin(), copy.end());
    return {name};
  }

  std::vector<Step> fill_plain(const Tile& t) {
    switch (below(12)) {
      case 0:
        return {nest_of(t)};
      case 1:
        return gather_of(t);
      case 2:
        return atomics_of(t);
      case 3:
      case 4:
        return in_place(t);
      default:
        return {copy_of(t)};
    }
  }
  std::vector<Step> fill(const Tile& t) {
    if (is_plain(t) && chance(35)) return fill_plain(t);
    switch (below(27)) {
      case 0:
        return through_registers(t);
      case 1:
        return halves_of(t);
      case 2:
        return view_of(t);
      case 3:
        return twice(t);
      case 4:
      case 5:
        return part_of(t);
      case 6:
      case 7:
      case 8:
        return conditional(t);
      case 9:
      case 10:
        return by_variable(t);
      case 11:
        return by_name(t);
      case 12:
        return through_another(t);
      case 13:
        return by_page(t);
      default:
        return {copy_of(t)};
    }
  }
};

}  // namespace tl::fuzz
