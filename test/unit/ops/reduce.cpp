// The layout of a reduction's results: every thread that holds a part of a row holds the row's result, once.
#include "ops/reduce.h"

#include <doctest/doctest.h>

#include <random>
#include <set>

#include "base/error.h"
#include "compile/compile.h"
#include "ir/rewrite.h"
#include "ir/text.h"

using namespace tl;

namespace {

Function function_of(const std::vector<int64_t>& shape, const std::vector<int64_t>& result, size_t dim) {
  std::string text = fmt::format(
      "func main(A: f32[8]):\n"
      "  kernel main grid(bx: 1) threads(64):\n"
      "    S = fragment f32[{}]\n"
      "    D = fragment f32[{}]\n"
      "    reduce_sum(S, D) {{clear=1, dim={}}}\n",
      fmt::join(shape, ", "), fmt::join(result, ", "), dim);
  return parse(text, "test", text_vocabulary());
}

// Digits of the given radices, dealt to threads and registers at random.
Fragment random_fragment(const std::vector<int64_t>& shape, std::mt19937& random) {
  std::vector<Term> terms;
  int64_t threads = 1, registers = 1;
  struct Piece {
    int dim;
    int64_t divisor, radix;
  };
  std::vector<Piece> pieces;
  for (size_t d = 0; d < shape.size(); d++) {
    int64_t first = 1 + int64_t(random() % 6), rest = (shape[d] + first - 1) / first;
    pieces.push_back({int(d), 1, first});
    pieces.push_back({int(d), first, rest});
  }
  int64_t replicas = 1 + int64_t(random() % 2);
  pieces.push_back({int(shape.size()), 1, replicas});
  std::shuffle(pieces.begin(), pieces.end(), random);
  for (auto& p : pieces) {
    bool to_threads = p.dim == int(shape.size()) || random() % 2;
    int64_t& stride = to_threads ? threads : registers;
    terms.push_back({.output = to_threads ? 0 : 1, .stride = stride, .digit = {p.dim, p.divisor, p.radix}});
    stride *= p.radix;
  }
  return make_fragment(shape, replicas, std::move(terms));
}

// Element -> thread -> registers.
using Places = std::map<std::vector<int64_t>, std::map<int64_t, std::set<int64_t>>>;
Places places(const Fragment& f) {
  Places out;
  std::vector<int64_t> x(f.layout.extents.size(), 0), all = table(f.layout);
  for (size_t i = 0; i * 2 < all.size(); i++) {
    out[{x.begin(), x.end() - 1}][all[i * 2]].insert(all[i * 2 + 1]);
    for (size_t d = x.size(); d-- > 0 && ++x[d] == f.layout.extents[d];) x[d] = 0;
  }
  return out;
}

}  // namespace

TEST_CASE("reduce: whoever holds a part of a row holds its result") {
  std::mt19937 random(7);
  for (int turn = 0; turn < 300; turn++) {
    std::vector<int64_t> shape(1 + random() % 3);
    for (auto& e : shape) e = 1 + int64_t(random() % 13);
    size_t dim = random() % shape.size();
    bool keeps = shape.size() == 1 || random() % 2;
    std::vector<int64_t> result = shape;
    if (keeps)
      result[dim] = 1;
    else
      result.erase(result.begin() + std::ptrdiff_t(dim));
    Function f = function_of(shape, result, dim);
    std::optional<Reduce> r;
    visit(f.kernels[0].body, [&](const Tile& t) { r.emplace(read_reduce(t, f)); });
    Fragment src = random_fragment(shape, random);
    Rows rows = rows_of(*r, src);
    INFO(to_string(src), " over ", dim, " -> ", to_string(rows.fragment));
    CHECK(rows.fragment.shape() == result);
    Places have = places(rows.fragment);
    std::map<int64_t, std::map<int64_t, std::vector<int64_t>>> held;  // thread -> register -> element
    for (auto& [element, threads] : have)
      for (auto& [thread, registers] : threads) {
        CHECK(registers.size() == 1);
        for (int64_t reg : registers) CHECK(held[thread].emplace(reg, element).second);
      }
    for (auto& [element, threads] : places(src)) {
      std::vector<int64_t> row = element;
      row[dim] = 0;
      if (!keeps) row.erase(row.begin() + std::ptrdiff_t(dim));
      for (auto& [thread, registers] : threads) CHECK(have[row].contains(thread));
    }
  }
}

TEST_CASE("reduce: shuffles are refused where a block has one thread") {
  std::string text =
      "func main(A: f32[8]):\n"
      "  kernel main grid(bx: 1) threads(32):\n"
      "    A[0] = shfl_xor(A[1], 4)\n";
  Function f = parse(text, "test", text_vocabulary());
  CHECK_THROWS_WITH_AS(compile(f, *find_target("haswell")),
                       doctest::Contains("shfl_xor is thread-level code"), CompileError);
}
