// Boxes of tensors: what lands where, what lies outside, and what is told of programs that are wrong.
#include "unit/sim/machine_text.h"

using namespace tl;

namespace {

using Shape = std::vector<int64_t>;

std::string listed(const Shape& s) { return fmt::format("{}", fmt::join(s, ", ")); }
int64_t product(const Shape& s) {
  int64_t n = 1;
  for (int64_t e : s) n *= e;
  return n;
}

struct Box {
  Shape tensor, box, at;
  int64_t swizzle = 0;

  std::string map() const {
    return fmt::format("tensor_map M = T box({}){}", listed(box),
                       swizzle ? fmt::format(" swizzle({})", swizzle) : "");
  }
  // Where the n-th element of the box lies in the tensor; -1: outside.
  int64_t in_tensor(int64_t n) const {
    int64_t place = 0, stride = 1;
    for (size_t d = box.size(); d-- > 0; n /= box[d], stride *= tensor[d]) {
      int64_t i = at[d] + n % box[d];
      if (i < 0 || i >= tensor[d]) return -1;
      place += i * stride;
    }
    return place;
  }
  // Where it lies in shared memory, in elements of so many bytes: the rows of 128 bytes of the pattern,
  // written out.
  int64_t in_shared(int64_t n, int64_t bytes) const {
    int64_t byte = n * bytes, row = byte / 128, piece = byte % 128 / 16;
    if (swizzle == 128) piece ^= row % 8;
    if (swizzle == 64) piece ^= row % 4;
    if (swizzle == 32) piece ^= row % 2;
    return (row * 128 + piece * 16 + byte % 16) / bytes;
  }
};

template <class... T>
SimulationReport report_of(std::string_view text, const SimulationOptions& options,
                           std::vector<T>&... tensors) {
  auto simulation = prepare_simulation(machine_function(text), *find_target("sm_90"));
  std::vector<HostArg> args;
  (args.push_back({.data = tensors.data()}), ...);
  return simulate(*simulation, args, options);
}
std::string first_of(const SimulationReport& report) {
  if (report.findings.empty()) return "";
  const Finding& f = report.findings[0];
  return fmt::format("{}: {}: {}", f.span.line, name_of(f.kind), f.text);
}

std::string load_text(const Box& b, std::string_view type, int64_t bytes) {
  return fmt::format(R"(
func main(T: {0}[{1}], Y: {0}[{2}]):
  {3}
  kernel main grid(b: 1) threads(32) thread(tx):
    S = shared {0}[{2}] address(1024) elements({2})
    F = shared u64[1] address(0) elements(1)
    if tx == 0:
      mbarrier_init(address_of(F[0]), 1)
      fence_mbarrier_init()
      mbarrier_arrive_expect_tx(address_of(F[0]), {4})
      cp_async_bulk_tensor_{5}d_load(address_of(S[0]), "M", address_of(T[0]), {6}, address_of(F[0]))
    sync_threads()
    while not mbarrier_try_wait(address_of(F[0]), 0):
      pass
    for k in serial({7}):
      if k*32 + tx < {2}:
        Y[k*32 + tx] = S[k*32 + tx]
)",
                     type, listed(b.tensor), product(b.box), b.map(), product(b.box) * bytes, b.box.size(),
                     listed(b.at), (product(b.box) + 31) / 32);
}
std::string store_text(const Box& b, std::string_view type, std::string_view fence = "fence_proxy_async()") {
  return fmt::format(R"(
func main(T: {0}[{1}], X: {0}[{2}]):
  {3}
  kernel main grid(b: 1) threads(32) thread(tx):
    S = shared {0}[{2}] address(0) elements({2})
    for k in serial({5}):
      if k*32 + tx < {2}:
        S[k*32 + tx] = X[k*32 + tx]
    {6}
    sync_threads()
    if tx == 0:
      cp_async_bulk_tensor_{4}d_store("M", address_of(T[0]), {7}, address_of(S[0]))
      cp_async_bulk_commit_group()
      cp_async_bulk_wait_group(0)
)",
                     type, listed(b.tensor), product(b.box), b.map(), b.box.size(),
                     (product(b.box) + 31) / 32, fence, listed(b.at));
}

const Box boxes[] = {
    {.tensor = {1000}, .box = {64}, .at = {128}},
    {.tensor = {100}, .box = {64}, .at = {72}},
    {.tensor = {100}, .box = {64}, .at = {-8}},
    {.tensor = {40, 72}, .box = {8, 16}, .at = {3, 4}},
    {.tensor = {40, 72}, .box = {8, 16}, .at = {36, 68}},
    {.tensor = {40, 72}, .box = {8, 16}, .at = {-3, -4}},
    {.tensor = {40, 72}, .box = {8, 16}, .at = {50, 0}},
    {.tensor = {6, 20, 24}, .box = {3, 4, 8}, .at = {4, -1, 20}},
    {.tensor = {3, 5, 7, 16}, .box = {2, 2, 3, 8}, .at = {2, 4, 5, 12}},
    {.tensor = {2, 3, 4, 5, 16}, .box = {2, 2, 2, 2, 8}, .at = {1, -1, 3, 4, 12}},
};

}  // namespace

TEST_CASE("boxes are loaded whole: what lies outside of the tensor is 0") {
  for (auto& b : boxes)
    for (uint64_t seed = 0; seed < 4; seed++) {
      std::string text = load_text(b, "i32", 4);
      CAPTURE(text);
      std::vector<int32_t> t = counted<int32_t>(size_t(product(b.tensor))), y(size_t(product(b.box)), -1);
      for (auto& v : t) v++;
      CHECK_EQ(first_of(report_of(text, {.seed = seed}, t, y)), "");
      for (int64_t n = 0; n < product(b.box); n++)
        CHECK_EQ(y[size_t(n)], b.in_tensor(n) < 0 ? 0 : t[size_t(b.in_tensor(n))]);
    }
}

TEST_CASE("boxes are stored as far as the tensor goes, and nothing else is written") {
  for (Box b : boxes)
    for (uint64_t seed = 0; seed < 4; seed++) {
      for (auto& i : b.at) i = std::abs(i);
      std::string text = store_text(b, "i32");
      CAPTURE(text);
      std::vector<int32_t> t(size_t(product(b.tensor)), -1), wanted = t,
                                                             x = counted<int32_t>(size_t(product(b.box)));
      for (int64_t n = 0; n < product(b.box); n++)
        if (b.in_tensor(n) >= 0) wanted[size_t(b.in_tensor(n))] = int32_t(n);
      CHECK_EQ(first_of(report_of(text, {.seed = seed}, t, x)), "");
      CHECK_EQ(t, wanted);
    }
}

TEST_CASE("the chunks of a swizzled box lie as the chip lays them, for elements of every size") {
  for (int64_t swizzle : {0, 32, 64, 128})
    for (int64_t bytes : {1, 2, 4, 8}) {
      int64_t row = swizzle ? swizzle / bytes : 48 / bytes;
      Box b{.tensor = {40, 128}, .box = {20, row}, .at = {25, 128 - row + 16 / bytes}, .swizzle = swizzle};
      std::string text = load_text(b, fmt::format("u{}", bytes * 8), bytes);
      CAPTURE(text);
      std::vector<uint8_t> t(size_t(40 * 128 * bytes)), y(size_t(20 * row * bytes), 0xFF);
      for (size_t i = 0; i < t.size(); i++) t[i] = uint8_t(i * 37 + i / 256 + 1);
      CHECK_EQ(first_of(report_of(text, {}, t, y)), "");
      for (int64_t n = 0; n < product(b.box); n++)
        for (int64_t byte = 0; byte < bytes; byte++) {
          uint8_t wanted = b.in_tensor(n) < 0 ? 0 : t[size_t(b.in_tensor(n) * bytes + byte)];
          CHECK_EQ(int(y[size_t(b.in_shared(n, bytes) * bytes + byte)]), int(wanted));
        }
    }
}

TEST_CASE("a map of its own shape: panels of 64 columns, one behind the other") {
  std::vector<int32_t> x = counted<int32_t>(4 * 32), y(size_t(4 * 32), -1);
  CHECK_EQ(first_of(report_of(R"(
func main(T: i32[4, 32], Y: i32[128]):
  tensor_map M = T[4, 4, 8] strides(8, 32, 1) box(4, 4, 8)
  kernel main grid(b: 1) threads(128) thread(tx):
    S = shared i32[128] address(128) elements(128)
    F = shared u64[1] address(0) elements(1)
    if tx == 0:
      mbarrier_init(address_of(F[0]), 1)
      fence_mbarrier_init()
      mbarrier_arrive_expect_tx(address_of(F[0]), 512)
      cp_async_bulk_tensor_3d_load(address_of(S[0]), "M", address_of(T[0]), 0, 0, 0, address_of(F[0]))
    sync_threads()
    while not mbarrier_try_wait(address_of(F[0]), 0):
      pass
    Y[tx] = S[tx]
)",
                              {}, x, y)),
           "");
  for (int panel = 0; panel < 4; panel++)
    for (int row = 0; row < 4; row++)
      for (int col = 0; col < 8; col++)
        CHECK_EQ(y[size_t(panel * 32 + row * 8 + col)], row * 32 + panel * 8 + col);
}

TEST_CASE("what is wrong with a copy of a box is told") {
  Box b{.tensor = {40, 72}, .box = {8, 16}, .at = {36, 68}};
  std::string load = load_text(b, "i32", 4), store = store_text(b, "i32");
  auto replaced = [](std::string text, std::string_view what, std::string_view by) {
    size_t at = text.find(what);
    REQUIRE(at != text.npos);
    return text.replace(at, what.size(), by);
  };
  auto told = [&](const std::string& text) {
    std::vector<int32_t> t(40 * 72), other(128);
    return first_of(report_of(text, {}, t, other));
  };
  CHECK_EQ(told(load), "");
  CHECK_EQ(told(store), "");
  // The bytes outside of the tensor count, too: the phase ends too early.
  std::string clipped =
      told(replaced(load, "expect_tx(address_of(F[0]), 512)", "expect_tx(address_of(F[0]), 96)"));
  CHECK_MESSAGE(contains(clipped, "17: race: data race on S[0]"), clipped);
  std::string more =
      told(replaced(load, "expect_tx(address_of(F[0]), 512)", "expect_tx(address_of(F[0]), 528)"));
  CHECK_MESSAGE(contains(more, "deadlock"), more);
  std::string early =
      told(replaced(load, "while not mbarrier_try_wait(address_of(F[0]), 0):\n      pass", "pass"));
  CHECK_MESSAGE(contains(early, "S[0]"), early);
  CHECK_MESSAGE(contains(early, "race"), early);
  std::string bare = told(replaced(store, "fence_proxy_async()", "pass"));
  CHECK_MESSAGE(contains(bare, "missing proxy fence"), bare);
  std::string crooked = told(replaced(load, "address(1024)", "address(1040)"));
  CHECK_MESSAGE(contains(crooked, "128"), crooked);
  // An illegal instruction on the chip.
  std::string between = told(replaced(load, "36, 68", "36, 66"));
  CHECK_MESSAGE(
      contains(between,
               "misaligned: cp_async_bulk_tensor_2d_load: the last coordinate is 66, which is 264 bytes"),
      between);
  std::string before = told(replaced(store, "36, 68", "-1, 68"));
  CHECK_MESSAGE(contains(before, "coordinate 0 is -1"), before);
  std::string unread = told(replaced(store, "      cp_async_bulk_wait_group(0)\n", ""));
  CHECK_MESSAGE(contains(unread, "may still read shared memory"), unread);
  std::string far = told(replaced(load, "S = shared i32[128] address(1024) elements(128)",
                                  "S = shared i32[64] address(1024) elements(64)"));
  CHECK_MESSAGE(contains(far, "S[64]: element 64"), far);
}

TEST_CASE(
    "a tensor map that breaks a rule of the chip is an error at its line, or at the copy where a call "
    "decides") {
  auto error = [](std::string_view map) {
    std::string text = fmt::format(
        "func main(T: f16[100, n], m: i32):\n  {}\n  kernel main grid(b: 1) threads(32):\n    pass\n", map);
    try {
      parse(text, "map.ir", {find_op_info, find_row});
    } catch (const CompileError& e) {
      return fmt::format("{}: {}", e.span.line, e.text);
    }
    return std::string();
  };
  CHECK_EQ(error("tensor_map M = T box(8, 64) swizzle(128)"), "");
  CHECK_EQ(error("tensor_map M = T box(8, 20)"),
           "2: tensor map M: a row of its box has 40 bytes, which must be a multiple of 16");
  CHECK_EQ(error("tensor_map M = T box(8)"), "2: tensor map M: it has 2 dimensions, but its box 1");
  CHECK_EQ(error("tensor_map M = T box(8, 512)"),
           "2: tensor map M: an extent of its box is 512, not 1 to 256");
  CHECK_EQ(
      error("tensor_map M = T box(8, 64) swizzle(64)"),
      "2: tensor map M: a row of its box has 128 bytes, but its swizzle is one of 64: make several boxes");
  CHECK_EQ(error("tensor_map M = T box(8, 32) swizzle(128)"),
           "2: tensor map M: a row of its box has 64 bytes, but its swizzle is one of 128: rows would lie so "
           "far apart, and leave holes");
  CHECK_EQ(error("tensor_map M = T[100, 8] strides(12, 1) box(8, 8)"),
           "2: tensor map M: a stride is 24 bytes, which must be a multiple of 16, from 0 to 2^40");
  CHECK_EQ(error("tensor_map M = T strides(12, 1) box(8, 64)"),
           "2: tensor map M: a stride is 24 bytes, which must be a multiple of 16, from 0 to 2^40");
  CHECK_EQ(error("tensor_map M = T strides(64) box(8, 64)"),
           "2: tensor map M: it has 2 dimensions, but 1 strides");
  CHECK_EQ(
      error("buffer U = global f16[8, 64]\n  tensor_map M = U box(8, 64)"),
      "3: tensor map M: U is neither a parameter nor a workspace, so its address is not known at launch");
  CHECK_EQ(error("tensor_map M = T[100, 8] strides(16, 2) box(8, 8)"),
           "2: tensor map M: its last stride is 2: the elements of a row must be neighbours");

  Function f = machine_function(R"(
func main(T: i32[8, n]):
  tensor_map M = T box(8, 8)
  kernel main grid(b: 1) threads(32) thread(tx):
    S = shared i32[64] address(0) elements(64)
    if tx == 0:
      cp_async_bulk_tensor_2d_store("M", address_of(T[0]), 0, 0, address_of(S[0]))
)");
  auto simulation = prepare_simulation(f, *find_target("sm_90"));
  std::vector<int32_t> t(8 * 18);
  std::vector<HostArg> args = {{.data = t.data(), .shape = {8, 18}}};
  SimulationReport report = simulate(*simulation, args, {});
  CHECK_EQ(first_of(report),
           "7: fault: tensor map M: a stride is 72 bytes, which must be a multiple of 16, from 0 to 2^40");
}

TEST_CASE("a copy of a box names a map of its own rank, and the tensor of that map") {
  auto error = [](std::string_view call) {
    std::string text = fmt::format(R"(
func main(T: i32[8, 16], U: i32[8, 16]):
  tensor_map M = T box(8, 8)
  kernel main grid(b: 1) threads(32) thread(tx):
    S = shared i32[64] address(0) elements(64)
    {}
)",
                                   call);
    auto finding = check(parse(text, "map.ir", {find_op_info, find_row}), Level::machine);
    return finding ? finding->text : "";
  };
  CHECK_EQ(error("cp_async_bulk_tensor_2d_store(\"M\", address_of(T[0]), 0, 0, address_of(S[0]))"), "");
  CHECK_EQ(error("cp_async_bulk_tensor_2d_store(\"N\", address_of(T[0]), 0, 0, address_of(S[0]))"),
           "argument 1 of cp_async_bulk_tensor_2d_store is the name of a tensor map, and there is no N");
  CHECK_EQ(error("cp_async_bulk_tensor_2d_store(\"M\", address_of(U[0]), 0, 0, address_of(S[0]))"),
           "argument 2 of cp_async_bulk_tensor_2d_store is the tensor of the map M, &T[…]");
  CHECK_EQ(error("cp_async_bulk_tensor_1d_store(\"M\", address_of(T[0]), 0, address_of(S[0]))"),
           "cp_async_bulk_tensor_1d_store takes 1 coordinates, but the map M has 2 dimensions");
}
