// Fragments: making them, and the loops over the elements that one thread holds.
#include "layout/fragment.h"

#include <algorithm>

#include "base/error.h"
#include "layout/algebra.h"

namespace tl {
namespace {

// The digits sent to one output, from the largest stride to the smallest.
std::vector<Term> digits_of(const std::vector<Term>& terms, int output) {
  std::vector<Term> out;
  for (auto& t : terms)
    if (t.output == output) out.push_back(t);
  std::ranges::sort(out, [](const Term& a, const Term& b) {
    return std::tuple(-a.stride, a.digit.input) < std::tuple(-b.stride, b.digit.input);
  });
  for (auto& t : out) internal_check(t.xors.empty(), "a fragment without XOR");
  return out;
}

// The thread's digits; each must start where the smaller ones end, or behind that, so that it reads back as
// (thread // stride) % (the next larger digit's stride // stride).
std::vector<Term> thread_digits(const std::vector<Term>& terms) {
  std::vector<Term> out = digits_of(terms, 0);
  for (size_t i = 0; i + 1 < out.size(); i++)
    internal_check(
        out[i].stride % out[i + 1].stride == 0 && out[i].stride >= out[i + 1].stride * out[i + 1].digit.radix,
        "a fragment that can be inverted");
  return out;
}

// What a digit of the thread index reads as.
Expr thread_digit(const Term& t, const Expr& thread, int64_t threads) {
  Expr e = floordiv(thread, t.stride);
  return t.stride * t.digit.radix >= threads ? e : floormod(e, t.digit.radix);
}

// The threads between two digits: null if there are none, else that (thread // low) % (high / low) is 0.
Expr gap(const Expr& thread, int64_t low, int64_t high) {
  if (high <= low) return {};
  return eq(floormod(floordiv(thread, low), high / low), imm(0));
}

}  // namespace

Fragment fragment_of(Layout layout) {
  Fragment f{.layout = std::move(layout), .threads = 0, .registers = 0, .replicas = 1};
  f.replicas = f.layout.extents.back();
  f.threads = f.layout.ranges[0];
  f.registers = f.layout.ranges[1];
  return f;
}

Fragment make_fragment(std::vector<int64_t> shape, int64_t replicas, std::vector<Term> terms) {
  shape.push_back(replicas);
  return fragment_of(from_terms(std::move(shape), 2, std::move(terms)));
}

Fragment fragment_from_map(const IndexMap& map) {
  internal_check(map.outputs.size() == 2 && !map.vars.empty(), "a fragment maps to thread and register");
  return fragment_of(from_map(map));
}

bool equal(const Fragment& a, const Fragment& b) {
  return a.replicas == b.replicas && equal(a.layout, b.layout);
}
std::string to_string(const Fragment& f) { return to_string(f.layout); }

std::string why_not_inverse(const Fragment& f) {
  if (!f.layout.terms) return "it is not made of digits of the indices";
  for (auto& t : *f.layout.terms)
    if (!t.xors.empty()) return "it has an XOR";
  for (int output : {0, 1}) {
    std::vector<Term> digits = digits_of(*f.layout.terms, output);
    for (size_t i = 0; i + 1 < digits.size(); i++)
      if (digits[i].stride % (digits[i + 1].stride * digits[i + 1].digit.radix))
        return fmt::format("the terms of {} do not nest: one has stride {}, but a smaller one reaches {}",
                           output ? "the register" : "the thread", digits[i].stride,
                           digits[i + 1].stride * digits[i + 1].digit.radix);
  }
  return "";
}

FragmentLoops inverse(const Fragment& f, const Expr& thread, int64_t threads) {
  internal_check(f.layout.terms.has_value(), "a fragment with digits");
  size_t dims = f.layout.extents.size() - 1;
  FragmentLoops loops;
  loops.indices.assign(dims, imm(0));
  Expr replica = imm(0);
  std::vector<int64_t> reach(dims, 1);  // one more than the largest index the loops can form
  auto add = [&](const Term& t, const Expr& value) {
    if (size_t(t.digit.input) == dims) {
      replica = replica + value * t.digit.divisor;
      return;
    }
    size_t d = size_t(t.digit.input);
    loops.indices[d] = loops.indices[d] + value * t.digit.divisor;
    reach[d] += t.digit.divisor * (t.digit.radix - 1);
  };
  int64_t above = f.threads;  // threads that no digit reaches take no part
  for (auto& t : thread_digits(*f.layout.terms)) {
    int64_t end = t.stride * t.digit.radix;
    if (end < above && above % end) {  // a loop that ends within a digit of the fragment that it follows
      Expr value = floormod(floordiv(thread, t.stride), above / t.stride);
      add(t, value);
      loops.guard = both(loops.guard, lt(value, imm(t.digit.radix)));
    } else {
      add(t, thread_digit(t, thread, threads));
      loops.guard = both(loops.guard, gap(thread, end, above));
    }
    above = t.stride;
  }
  loops.guard = both(loops.guard, gap(thread, 1, above));
  for (auto& t : digits_of(*f.layout.terms, 1)) {
    FragmentLoops::Axis axis{
        .var = var("r" + std::to_string(loops.axes.size())), .extent = t.digit.radix, .stride = t.stride};
    add(t, axis.var);
    loops.axes.push_back(std::move(axis));
  }
  if (f.threads < threads) loops.guard = both(loops.guard, lt(thread, imm(f.threads)));
  for (size_t d = 0; d < dims; d++)
    if (reach[d] > f.layout.extents[d])
      loops.guard = both(loops.guard, lt(loops.indices[d], imm(f.layout.extents[d])));
  if (!is_int(replica, 0)) loops.first_replica = eq(replica, imm(0));
  return loops;
}

}  // namespace tl
