#include "ops/gemm_fragments.h"

namespace tl {
namespace {

// Neighbouring digits of one input that are also neighbours in the output are one digit.
void merge(std::vector<Term>& terms) {
  for (size_t i = 0; i < terms.size(); i++)
    for (size_t j = 0; j < terms.size(); j++) {
      Term &low = terms[i], &high = terms[j];
      if (i == j || low.output != high.output || low.digit.input != high.digit.input) continue;
      if (high.digit.divisor != low.digit.divisor * low.digit.radix ||
          high.stride != low.stride * low.digit.radix)
        continue;
      low.digit.radix *= high.digit.radix;
      terms.erase(terms.begin() + int64_t(j));
      return merge(terms);
    }
}

}  // namespace

Fragment repeated(const OperandFragment& tile, std::vector<int64_t> shape, bool transposed,
                  const std::vector<Repeat>& registers, const std::vector<Repeat>& threads, int64_t replicas,
                  int64_t replica_stride) {
  std::vector<Term> terms;
  auto input = [&](int d) { return transposed ? 1 - d : d; };
  for (auto& d : tile.digits) {
    bool lane = d.from == FragmentDigit::From::lane;
    terms.push_back(
        {.output = lane ? 0 : 1,
         .stride = d.divisor,
         .digit = {.input = input(d.row ? 0 : 1), .divisor = d.row ? d.row : d.col, .radix = d.radix}});
  }
  for (auto& r : registers)
    terms.push_back({.output = 1, .stride = r.stride, .digit = {input(r.input), r.divisor, r.radix}});
  for (auto& t : threads)
    terms.push_back({.output = 0, .stride = t.stride, .digit = {input(t.input), t.divisor, t.radix}});
  if (replicas > 1) terms.push_back({.output = 0, .stride = replica_stride, .digit = {2, 1, replicas}});
  merge(terms);
  if (transposed) std::swap(shape[0], shape[1]);
  for (auto& t : terms)
    if (size_t in = size_t(t.digit.input); in < shape.size())
      t.digit.radix = std::min(t.digit.radix, (shape[in] + t.digit.divisor - 1) / t.digit.divisor);
  return make_fragment(std::move(shape), replicas, std::move(terms));
}

}  // namespace tl
