// Random programs that move tiles by the tensor memory accelerator: by all threads of a block, or through a
// ring between a team that fetches and a team that uses.  Tiles of every layout that boxes fill, tensors of
// up to five dimensions, parts that lie outside of them.
#include <doctest/doctest.h>

#include "fuzz/harness.h"
#include "fuzz/tile_text.h"
#include "ops/op.h"

namespace tl::fuzz {
namespace {

struct BoxText : RandomText {
  enum class Use { store, copy, through, in_place };
  struct Part {
    std::string type = {}, tensor = {}, out = {}, tile = {};
    Shape shape = {};             // of a tile
    std::vector<std::string> at;  // where it begins in the tensor, for a turn; a point is an index alone
  };
  std::string params = {};
  int64_t blocks = 1, turns = 1, slots = 1, all = 0, named = 0;
  bool ring = false;

  std::string fresh(const char* prefix) { return fmt::format("{}{}", prefix, named++); }
  void parameter(const std::string& name, const std::string& type, const Shape& shape) {
    params += fmt::format("{}{}: {}[{}]", params.empty() ? "" : ", ", name, type, listed(shape));
  }

  // ── what moves ──────────────────────────────────────────────────────────────────────────────────────
  Shape tile_shape(int64_t bytes) {
    if (chance(15)) return {std::min<int64_t>(256, 128 * (1 + below(4)) / bytes)};
    Shape shape{8 * (1 + below(5)), 16 * pick<int64_t>({1, 2, 3, 4, 6, 8, 8, 10, 12, 16, 24}) / bytes};
    if (chance(15)) shape = {1 + below(20), 128 * (1 + below(2)) / bytes};
    if (chance(15)) shape.insert(shape.begin(), 2 + below(2));
    return shape;
  }
  // A tensor, and where the tile of a turn lies in it.
  Part part() {
    Part p{.type = pick<std::string>(
               {"f16", "f16", "f32", "i32", "bf16", "u8", "i8", "i64", "f64", "tf32", "e4m3"}),
           .at = {}};
    int64_t bytes = std::max<int64_t>(1, bits_of(p.type) / 8), unit = 16 / bytes;
    p.shape = tile_shape(bytes);
    p.tensor = fresh("X"), p.out = fresh("Y"), p.tile = fresh("S");
    Shape extents;
    size_t rank = p.shape.size();
    for (size_t d = 0; d < rank; d++) {
      bool last = d + 1 == rank;
      int64_t e = p.shape[d], shift = chance(30) ? below(2 * e + 1) - e : 0, size = e;
      if (last) shift = shift / unit * unit;
      std::string begin = std::to_string(shift);
      if (shift < 0) begin = fmt::format("k*{} + {}", last ? unit : 1, shift);
      if (d == 0 && chance(70)) {
        begin = fmt::format("k*{} + {}", last ? (e + unit - 1) / unit * unit : e, shift);
        size = turns * e;
      }
      size = std::max<int64_t>(1, size + (chance(40) ? below(e + 1) - e / 2 : 0));
      if (last) size = std::max(unit, size / unit * unit);
      for (; extents.size() + rank - d < 5 && chance(15);) {  // a point
        int64_t n = 1 + below(3);
        extents.push_back(n);
        p.at.push_back(
            fmt::format("{}", pick<std::string>({"0", fmt::format("b % {}", n), fmt::format("k % {}", n)})));
      }
      extents.push_back(size);
      p.at.push_back(fmt::format("{} : +{}", begin, e));
    }
    parameter(p.tensor, p.type, extents);
    Shape out{blocks, turns};
    out.insert(out.end(), p.shape.begin(), p.shape.end());
    if (chance(30)) out[2] = std::max<int64_t>(1, out[2] - below(out[2]));
    if (rank == 1) out[2] = std::max(unit, out[2] / unit * unit);
    parameter(p.out, p.type, out);
    return p;
  }
  std::string slot_of(const Part& p) const {
    std::string index = ring ? fmt::format("k % {}", slots) : "";
    for (int64_t e : p.shape) index += fmt::format("{}0 : +{}", index.empty() ? "" : ", ", e);
    return fmt::format("{}[{}]", p.tile, index);
  }
  static std::string whole(const std::string& tile, const Shape& shape) {
    std::string index;
    for (int64_t e : shape) index += fmt::format("{}0 : +{}", index.empty() ? "" : ", ", e);
    return fmt::format("{}[{}]", tile, index);
  }
  std::string result_of(const Part& p) const {
    std::string index = "b, k";
    for (int64_t e : p.shape) index += fmt::format(", 0 : +{}", e);
    return fmt::format("{}[{}]", p.out, index);
  }

  // ── what is done with it ────────────────────────────────────────────────────────────────────────────
  void wait(const std::string& word, const std::string& parity) {
    line("while not mbarrier_try_wait(address_of({}), {}):", word, parity);
    line("  pass");
  }
  void arrive(const std::string& word) { line("mbarrier_arrive(address_of({}))", word); }
  std::string word(const char* barrier) const {
    return fmt::format("{}[{}]", barrier, ring ? fmt::format("k % {}", slots) : "0");
  }
  void fetch(const std::vector<Part>& parts) {
    for (auto& p : parts)
      line("tma_load({}[{}], {}, {}[{}])", p.tensor, fmt::join(p.at, ", "), slot_of(p), "full",
           ring ? fmt::format("k % {}", slots) : "0");
    arrive(word("full"));
  }
  // Each element as it is, or changed by a number.
  void change(const Part& p, const std::string& from, const std::string& to, bool by_slot) {
    size_t rank = p.shape.size();
    int depth = indent;
    for (size_t d = 0; d < rank; d++, indent++) line("for i{} in parallel({}):", d, p.shape[d]);
    std::string slot = ring ? fmt::format("k % {}, ", slots) : "", at = indices(p.shape);
    std::string value = fmt::format("{}[{}{}]", from, slot, at);
    bool number = p.type != "tf32" && p.type != "e4m3";
    line("{}[{}{}] = {}{}", to, by_slot ? slot : "", at, value,
         number ? fmt::format(" + cast<{}>({})", p.type, 1 + below(3)) : "");
    indent = depth;
  }
  void use(const Part& p, Use how) {
    bool stores = chance(60);
    if (how == Use::store) line("tma_store({}, {})", slot_of(p), result_of(p));
    if (how == Use::copy) line("copy({}, {})", slot_of(p), result_of(p));
    if (how == Use::in_place) {
      change(p, p.tile, p.tile, true);
      line("{}({}, {})", stores ? "tma_store" : "copy", slot_of(p), result_of(p));
    }
    if (how == Use::through) {
      std::string r = p.tile + "_r";
      change(p, p.tile, r, false);
      line("{}({}, {})", stores ? "tma_store" : "copy", whole(r, p.shape), result_of(p));
    }
  }
  void use(const std::vector<Part>& parts, const std::vector<Use>& how) {
    for (size_t i = 0; i < parts.size(); i++) use(parts[i], how[i]);
    line("cp_async_bulk_wait_group_read(0:i32)");
    if (ring && std::ranges::find(how, Use::in_place) != how.end()) line("fence_proxy_async()");
  }

  // ── programs ────────────────────────────────────────────────────────────────────────────────────────
  void declare(const std::vector<Part>& parts, const std::vector<Use>& how, int64_t filling, int64_t using_) {
    line("full = shared u64[{}]", slots);
    line("empty = shared u64[{}]", slots);
    line("if elected(0):");
    for (int64_t i = 0; i < slots; i++) {
      line("  mbarrier_init(address_of(full[{}]), {}:i32)", i, filling);
      line("  mbarrier_init(address_of(empty[{}]), {}:i32)", i, using_);
    }
    line("  fence_mbarrier_init()");
    line("sync_threads()");
    for (size_t i = 0; i < parts.size(); i++) {
      auto& p = parts[i];
      line("{} = shared {}[{}{}]", p.tile, p.type, ring ? fmt::format("{}, ", slots) : "", listed(p.shape));
      if (how[i] == Use::through) line("{}_r = shared {}[{}]", p.tile, p.type, listed(p.shape));
    }
  }
  void loop(const auto& body) {
    line("for k in serial({}):", turns);
    indent++;
    body();
    indent--;
  }
  // Each team has its loop, or both are in one.
  void teams(const std::vector<Part>& parts, const std::vector<Use>& how, int64_t filling, int64_t using_) {
    bool first = chance(50), in_one = chance(50);
    auto turns_of = [&](const auto& body) { in_one ? body() : loop(body); };
    auto fill = [&] {
      line("group({} : +{}):", first ? 0 : using_, filling);
      indent++;
      turns_of([&] {
        wait(word("empty"), fmt::format("(k // {} + 1) % 2", slots));
        fetch(parts);
      });
      indent--;
    };
    auto both = [&] {
      if (first) fill();
      line("group({} : +{}):", first ? filling : 0, using_);
      indent++;
      turns_of([&] {
        wait(word("full"), fmt::format("k // {} % 2", slots));
        use(parts, how);
        arrive(word("empty"));
      });
      indent--;
      if (!first) fill();
    };
    in_one ? loop(both) : both();
  }
  Program program() {
    ring = chance(60);
    blocks = 1 + below(2), turns = 1 + below(6), slots = ring ? 1 + below(3) : 1;
    int64_t filling = 32 * (1 + below(2)), using_ = 32 * pick<int64_t>({1, 2, 4});
    all = ring ? filling + using_ : using_;
    std::vector<Part> parts;
    std::vector<Use> how;
    for (int64_t n = 1 + below(2); n > 0; n--) {
      parts.push_back(part());
      how.push_back(pick<Use>({Use::store, Use::copy, Use::through, Use::in_place}));
    }
    indent = 2;
    declare(parts, how, ring ? filling : all, using_);
    if (ring)
      teams(parts, how, filling, using_);
    else
      loop([&] {
        fetch(parts);
        wait("full[0]", "k % 2");
        use(parts, how);
      });
    std::string text = fmt::format("func main({}):\n  kernel main grid(b: {}) threads({}):\n{}", params,
                                   blocks, all, BoxText::text());
    return {.text = text};
  }
};

}  // namespace

Program random_boxes(uint64_t seed) { return BoxText{{.random = std::mt19937_64(seed)}}.program(); }

}  // namespace tl::fuzz

TEST_CASE("tiles that move in boxes hold what they mean" * doctest::test_suite("programs")) {
  tl::fuzz::run_programs({.name = "boxes",
                          .programs = 60,
                          .fresh = 20,
                          .make = tl::fuzz::random_boxes,
                          .targets = {"sim:sm_90"}});
}
