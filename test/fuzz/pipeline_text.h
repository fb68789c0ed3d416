// What random pipelined programs are written with: loops of every trip count, the parts of tensors that their
// iterations copy, conditions, and sums that tell at the end what was read.
#pragma once
#include <set>
#include <utility>

#include "fuzz/tile_text.h"

namespace tl::fuzz {

using Step = std::vector<std::string>;  // lines that stay together

// A loop around.
struct Around {
  std::string var = {}, first = "0", extent = {};  // of i64; how it is counted
  int64_t highest = 0;                             // first value
  int64_t least = 0, most = 0;                     // iterations
  int64_t stages = 0;                              // -1: it is serial
  std::string open = {};                           // the extent of a tensor that says how many iterations
  int64_t step = 16, total = 0;                    // … so many elements each, of so many
};

// A part of a tensor, of a tile's shape.
struct Source {
  std::string name = {};
  std::vector<std::string> first = {};
  std::vector<int64_t> extents = {};  // 0: a point

  std::string region() const {
    std::string out;
    for (size_t d = 0; d < first.size(); d++)
      out += (d ? ", " : "") + first[d] + (extents[d] ? fmt::format(" : +{}", extents[d]) : "");
    return fmt::format("{}[{}]", name, out);
  }
  // That of a nest with variables i0, i1, …; its first row where another one is named.
  std::string element(const std::string& row = {}) const {
    std::string out;
    for (size_t d = 0, i = 0; d < first.size(); d++) {
      std::string at = extents[d] ? fmt::format("{} + i{}", first[d], i) : first[d];
      if (extents[d] && i++ == 0 && !row.empty()) at = row;
      out += (d ? ", " : "") + at;
    }
    return fmt::format("{}[{}]", name, out);
  }
};

struct PipelineText : NestText {
  struct Frame {
    Step before = {}, after = {};
    int indent = 0;
  };
  std::set<std::string> features = {};
  bool own_copies = false;  // the program begins and waits for some itself
  std::vector<Frame> frames = {};
  size_t scope = 0;  // the frame before which sums begin
  std::vector<Around> around = {};
  std::vector<Tile> pool = {}, sums = {};  // shared tiles that several loops use; fragments that are results
  std::set<std::string> initial = {};      // tiles that are written, whatever the call brings
  std::set<std::string> brought = {};      // extents that a tensor has
  std::set<std::string> laid_out = {};     // tiles with a layout of their own
  std::set<std::string> own = {};          // of one iteration
  Step top = {};                           // of the body: what is allocated there
  std::vector<std::string> kinds = {};     // of the program: few, so that tiles are shared
  std::vector<Shape> shapes = {};

  void is(const std::string& feature) { features.insert(feature); }
  bool draws(int percent, const char* feature) {
    bool yes = chance(percent);
    if (yes) is(feature);
    return yes;
  }
  std::string fresh_name(const char* hint) { return fmt::format("{}_{}", hint, tensors++); }  // no type, i32

  // ── lines ───────────────────────────────────────────────────────────────────────────────────────────
  template <class F>
  Step step(F write) {
    Step outer = std::exchange(lines, {});
    int before = std::exchange(indent, 0);
    write();
    indent = before;
    std::swap(lines, outer);
    return outer;
  }
  void put(const Step& s) {
    for (auto& l : s) line("{}", l);
  }
  Step under(const std::string& head, const Step& s, const Step& otherwise = {}) {
    if (s.empty()) return {};
    return step([&] {
      line("{}:", head);
      indent++, put(s), indent--;
      if (otherwise.empty()) return;
      line("else:");
      indent++, put(otherwise), indent--;
    });
  }
  // Before a frame, outside of the loops that it holds, or behind it.
  void before(size_t frame, const Step& s) { join(frames[frame].before, s, frames[frame].indent); }
  void after(size_t frame, const Step& s) { join(frames[frame].after, s, frames[frame].indent); }
  static void join(Step& all, const Step& s, int indent) {
    for (auto& l : s) all.push_back(std::string(size_t(indent) * 2, ' ') + l);
  }
  template <class F>
  void framed(F write) {
    Step outer = std::exchange(lines, {});
    frames.push_back({.indent = indent});
    write();
    Step inner = std::exchange(lines, std::move(outer));
    for (auto& l : frames.back().before) lines.push_back(l);
    for (auto& l : inner) lines.push_back(l);
    for (auto& l : frames.back().after) lines.push_back(l);
    frames.pop_back();
  }
  template <class F>
  Step nest(const Shape& shape, F write) {
    return step([&] {
      open_nest(shape);
      write();
      indent -= int(shape.size());
    });
  }

  // ── loops ───────────────────────────────────────────────────────────────────────────────────────────
  const Around& loop() const { return around.back(); }
  // A number that the call brings.
  std::string given(int64_t value, const std::string& type = "i64") {
    std::string n = fresh_name("n");
    params += fmt::format("{}{}: {}", params.empty() ? "" : ", ", n, type);
    program.given[n] = double(value);
    return n;
  }
  void count(Around& a, int64_t stages) {
    a.least = a.most =
        chance(60) ? 1 + below(6) : pick<int64_t>({0, 0, 1, 1, std::max<int64_t>(stages - 1, 0)});
    a.extent = std::to_string(a.most);
    switch (below(10)) {
      case 0:
        a.extent = given(a.most);
        return is("trips: scalar");
      case 1:
        a.extent = fmt::format("cast<i64>({})", given(a.most, "i32"));
        return is("trips: scalar");
      case 2:
      case 3:
        a.open = fresh_name("n");
        a.step = shapes[0][0];
        a.total = std::max<int64_t>(a.most * a.step - below(a.step), 0);
        if (a.total == 0) a.total = a.least = a.most = 1;
        program.given[a.open] = double(a.total);
        a.extent = fmt::format("ceildiv({}, {})", a.open, a.step);
        return is("trips: ceildiv of an extent");
      case 4:
        a.extent = fmt::format("(b + {})", a.least = below(3));
        a.most = a.least + blocks - 1;
        return is("trips: of the block");
      case 5: {
        std::string counts = fresh_name("N");
        parameter(counts, "i32", std::to_string(blocks));
        a.extent = fmt::format("(cast<i64>({}[b]) + 3)", counts);
        a.least = 0, a.most = 6;
        return is("trips: of a tensor");
      }
      default:
        return is("trips: constant");
    }
  }
  Around pipelined() {
    Around a{.var = fresh_name("k")};
    a.stages = pick<int64_t>({0, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4});
    count(a, a.stages);
    is(fmt::format("num_stages={}", a.stages));
    if (a.most == 0) is("trips: 0");
    if (a.most == 1) is("trips: 1");
    if (a.most > 0 && a.most < a.stages) is("trips: fewer than stages");
    if (!draws(25, "loop begins elsewhere")) return a;
    a.highest = 1 + below(4);
    a.first = chance(60) ? std::to_string(a.highest) : given(a.highest);
    if (chance(20)) a.first = "b", a.highest = blocks - 1;
    return a;
  }
  std::string head_of(const Around& a) {
    return fmt::format("for {} in pipelined({}{}) {{num_stages={}}}", a.var,
                       a.first == "0" ? "" : a.first + " : +", a.extent, a.stages);
  }

  // ── parts of tensors ────────────────────────────────────────────────────────────────────────────────
  struct Place {
    std::string first = "0";
    int64_t highest = 0;
  };
  // Where the iteration's part begins; parts of `e` elements, where 2 lie in a byte at even places.
  Place moving(int64_t e, bool pairs) {
    const Around& a = loop();
    int64_t last = std::max<int64_t>(a.highest + a.most - 1, 0), turns = std::max<int64_t>(a.most - 1, 0);
    switch (below(24)) {
      case 0:
      case 1:
        return {fmt::format("({} - {})*{}", a.var, a.first, e), turns * e};
      case 2:  // from the end
        return {fmt::format("({} + {} - 1 - {})*{}", a.first, a.extent, a.var, e), turns * e};
      case 3: {
        int64_t shift = pairs ? 2 : 1 + below(7);
        is("columns: offset");
        return {fmt::format("{}*{} + {}", a.var, e, shift), last * e + shift};
      }
      case 4:
        return {fmt::format("{} % 2*{}", a.var, e), e};
      case 5:  // parts that overlap
        if (e % 4) break;
        return {fmt::format("{}*{}", a.var, e / 2), last * (e / 2)};
      case 6:
      case 7: {
        is("place: an index tensor");
        std::string index = fresh_name("I");
        parameter(index, "i32", std::to_string(last + 1));
        return {fmt::format("(cast<i64>({}[{}]) + 3)*{}", index, a.var, e), 6 * e};
      }
      case 8:  // of the last iteration, which the first does not have
        return {fmt::format("max({} - 1, 0)*{}", a.var, e), last * e};
      default:
        break;
    }
    return {fmt::format("{}*{}", a.var, e), last * e};
  }
  Place resting(int64_t e, bool pairs) {
    if (blocks > 1 && chance(30)) return {fmt::format("b*{}", e), (blocks - 1) * e};
    if (around.size() > 1 && chance(40)) {
      const Around& outer = around[around.size() - 2];
      return {fmt::format("{}*{}", outer.var, e), (outer.highest + std::max<int64_t>(outer.most - 1, 0)) * e};
    }
    if (!chance(20)) return {};
    is("columns: offset");
    int64_t shift = pairs ? 2 * below(4) : below(9);
    return {std::to_string(shift), shift};
  }
  int64_t extent_of(const Place& p, int64_t e, bool last_dim, bool pairs, bool& ragged) {
    int64_t size = p.highest + e;
    if (chance(25)) ragged = true, size -= below(std::max<int64_t>(e, 1));
    if (last_dim && chance(25)) size += pick<int64_t>({1, 2, 3, 4, 8, 12});
    size = std::max<int64_t>(size, 1);
    return pairs ? size + size % 2 : size;
  }
  // Of a new tensor.  `moved`: where its part begins, if not as moving() says.
  Source source(const std::string& type, const Shape& shape, const Place* moved = nullptr) {
    Source s{.name = fresh_name("X")};
    std::string extents;
    size_t rank = shape.size(),
           moves = around.empty() ? rank : size_t(below(int64_t(rank) + (moved ? 0 : 1)));
    bool ragged[3] = {}, leading = moves == rank && !around.empty();
    if (leading) {  // of a dimension that the tile has not
      Place p = moving(1, false);
      s.first.push_back(p.first), s.extents.push_back(0);
      extents = std::to_string(p.highest + 1);
    }
    int64_t row = 1;
    for (size_t d = 0; d < rank; d++) {
      bool last = d + 1 == rank, pairs = last && is_packed(type);
      Place p = d != moves ? resting(shape[d], pairs) : moved ? *moved : moving(shape[d], pairs);
      row = extent_of(p, shape[d], last, pairs, ragged[d]);
      std::string size = std::to_string(row);
      bool all = d == moves && !loop().open.empty() && loop().step == shape[d] && !pairs;
      if (all)
        size = loop().open, row = loop().total, ragged[d] = row % shape[d], brought.insert(size);
      else if (!pairs && chance(12))
        size = fresh_name("n"), program.given[size] = double(row);
      extents += (extents.empty() ? "" : ", ") + size;
      s.first.push_back(p.first), s.extents.push_back(shape[d]);
    }
    tell(type, rank, row, ragged);
    parameter(s.name, type, extents);
    return s;
  }
  void tell(const std::string& type, size_t rank, int64_t row, const bool* ragged) {
    is(fmt::format("tensor of {} dimensions", rank));
    is("copies " + type);
    if (rank == 1) return ragged[0] ? is("ragged: columns") : void();
    bool rows = ragged[0] || (rank > 2 && ragged[1]), columns = ragged[rank - 1];
    if (rows || columns) is(rows && columns ? "ragged: both" : rows ? "ragged: rows" : "ragged: columns");
    int64_t bytes = row * bits_of(type) / 8;
    for (int64_t n : {4, 8, 16})
      if (bytes % n) return is(fmt::format("row stride: no multiple of {}", n));
  }
  Source source(const Tile& t) { return source(t.type, t.shape); }

  // ── conditions, all threads' ────────────────────────────────────────────────────────────────────────
  std::string condition() {
    const Around& a = loop();
    switch (below(8)) {
      case 0:
      case 1:
        is("condition: scalar");
        if (scalar.empty()) scalar = given(below(8), "i32");
        return fmt::format("{} {} {}", scalar, pick<std::string>({">", "<="}), below(8));
      case 2:
      case 3: {
        is("condition: element of a tensor");
        std::string flags = fresh_name("G");
        parameter(flags, "i32", std::to_string(a.highest + std::max<int64_t>(a.most, 1)));
        return fmt::format("{}[{}] {} 0", flags, a.var, pick<std::string>({">", "<=", "!="}));
      }
      case 4:
        is("condition: block");
        return "b % 2 == 0";
      default:
        is("condition: loop variable");
        return fmt::format(
            fmt::runtime(pick<std::string>({"{0} % 2 == 0", "{0} % 3 != 1", "{0} > {1}",
                                            "{0} < {1} + {2} - 1", "{0} == {1}", "{0} >= {1} + 2"})),
            a.var, a.first, a.extent);
    }
  }

  // ── tiles ───────────────────────────────────────────────────────────────────────────────────────────
  static bool is_plain(const Tile& t) { return !is_storage(t.type); }  // nests may write it
  static std::string sum_type(const std::string& type) { return is_float(type) ? "f32" : "i32"; }
  // Swizzled, or with rows further apart, by the program itself.
  void lay_out(const Tile& t) {
    int64_t last = t.shape.back(), chunks = last / 8;
    if (t.shape.size() != 2 || last % 8 || bits_of(t.type) < 8 || !chance(8)) return;
    bool swizzled = (chunks & (chunks - 1)) == 0 && chance(60);
    if (!swizzled && !take_shared(8 * t.shape[0] * bits_of(t.type))) return;
    is("tile with a layout");
    laid_out.insert(t.name);
    declarations.back() += swizzled
                               ? fmt::format(" layout((i, j) -> i*{} + (j//8 ^ i%{})*8 + j%8)", last, chunks)
                               : fmt::format(" layout((i, j) -> i*{} + j)", last + 8);
  }
  // One that no step of the present strand uses.
  Tile tile(const std::string& type, const Shape& shape, const std::vector<Tile>& used = {}) {
    std::vector<Tile> found;
    for (auto& t : pool)
      if (t.type == type && t.shape == shape &&
          std::none_of(used.begin(), used.end(), [&](auto& u) { return u.name == t.name; }))
        found.push_back(t);
    if (!found.empty() && draws(40, "tile of several loops or strands"))
      return found[size_t(below(int64_t(found.size())))];
    Tile t = tile_alone(type, shape);
    if (!t.name.empty() && !own.contains(t.name)) pool.push_back(t);
    return t;
  }
  // One that no other strand uses: what it holds stays the same from step to step.
  Tile tile_alone(const std::string& type, const Shape& shape) {
    Tile t = add("shared", type, shape);
    if (t.name.empty()) return t;
    lay_out(t);
    if (around.empty() || !draws(15, "allocated in the loop")) return t;
    top.push_back(declarations.back());
    declarations.pop_back();
    own.insert(t.name);
    return t;
  }
  // What the tile holds before the first iteration; of one that is allocated inside, before anything else.
  void begin_with(const Tile& t) {
    if (initial.contains(t.name)) return;
    std::vector<Around> outer;
    if (!own.contains(t.name)) outer = std::exchange(around, {});
    Step s = step([&] {
      if (is_plain(t) && chance(40))
        line("{}", chance(50) ? fmt::format("clear({})", t.name)
                              : fmt::format("fill({}, {})", t.name, is_float(t.type) ? "1.0" : "1"));
      else
        line("copy({}, {})", source(t).region(), t.name);
    });
    if (own.contains(t.name)) {
      top.insert(top.end(), s.begin(), s.end());
    } else {
      around = std::move(outer);
      before(chance(50) ? scope : frames.size() - 1, s);
    }
    initial.insert(t.name);
  }
  Tile sum(const std::string& type, const Shape& shape, int percent = 50) {
    for (auto& t : sums)
      if (t.type == type && t.shape == shape && chance(percent)) return t;
    Tile t = add("fragment", type, shape);
    if (t.name.empty()) return t;
    sums.push_back(t);
    before(scope, {fmt::format("clear({})", t.name)});
    return t;
  }
  Tile registers_of(const std::string& type, const Shape& shape) { return add("fragment", type, shape); }
};

}  // namespace tl::fuzz
