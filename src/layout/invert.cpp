// The inverse of a layout.  Its digits: cut every input and output where a digit begins anywhere, into atoms;
// each place of an output then holds one atom, or the XOR of several bits, and is solved for the atoms.
//
//   out = i*64 + ((j // 8) ^ (i % 8))*8 + j % 8
//   i = out // 64,   j = (((out // 8) % 8) ^ (out // 64 % 8))*8 + out % 8
#include <algorithm>
#include <set>

#include "base/error.h"
#include "layout/algebra.h"
#include "layout/table.h"

namespace tl {
namespace {

using Atom = std::pair<int, int64_t>;  // input, divisor

struct Inversion {
  const Layout& l;
  std::vector<Term> terms = {};                    // cut into atoms
  std::vector<std::set<int64_t>> cuts = {};        // per input: where its atoms begin
  std::map<Atom, std::vector<Digit>> solved = {};  // digits of the outputs, XORed
  // Rows of the linear system over bits: atoms XORed are output bits XORed.
  std::vector<std::pair<std::set<Atom>, std::set<Atom>>> rows = {};

  bool top(const Digit& d) const { return d.divisor * d.radix >= l.extents[size_t(d.input)]; }

  // XORs into single bits; notes where digits begin and end.
  bool cut_xors() {
    cuts.resize(l.extents.size());
    for (auto& t : *l.terms) {
      int64_t count = t.xors.empty() ? 1 : t.digit.radix;
      if (t.xors.empty()) terms.push_back(t);
      for (int64_t bit = 1; bit < count; bit *= 2) {
        std::vector<Digit> digits;
        for (size_t i = 0; i <= t.xors.size(); i++) {
          const Digit& d = i ? t.xors[i - 1] : t.digit;
          if (d.radix > bit) digits.push_back({d.input, d.divisor * bit, 2});
        }
        auto row = xor_term(t.stride * bit, digits, l.extents);
        if (!row) return false;  // an output bit that is always 0
        row->output = t.output;
        terms.push_back(*row);
      }
    }
    for (auto& t : terms)
      for (size_t i = 0; i <= t.xors.size(); i++) {
        const Digit& d = i ? t.xors[i - 1] : t.digit;
        cuts[size_t(d.input)].insert(d.divisor);
        if (!top(d)) cuts[size_t(d.input)].insert(d.divisor * d.radix);
      }
    for (size_t in = 0; in < cuts.size(); in++) {
      int64_t last = 1;
      if (l.extents[in] > 1 && !cuts[in].contains(1)) return false;
      for (int64_t c : cuts[in]) {
        if (c % last) return false;
        last = c;
      }
    }
    return true;
  }

  bool cut_plain() {
    std::vector<Term> pieces;
    for (Term t : terms) {
      auto& at = cuts[size_t(t.digit.input)];
      for (auto c = at.upper_bound(t.digit.divisor); t.xors.empty() && c != at.end(); c++) {
        if (*c >= t.digit.divisor * t.digit.radix || *c >= l.extents[size_t(t.digit.input)]) break;
        auto parts = cut(t, *c / t.digit.divisor, l.extents);
        if (!parts) return false;
        pieces.push_back(parts->first);
        t = parts->second;
      }
      pieces.push_back(t);
    }
    terms = std::move(pieces);
    return true;
  }

  // What the place of one term says, `room` values long (0: the rest of the output).
  bool read_place(const Term& t, int64_t room) {
    int64_t values = largest(t, l.extents) + 1;
    Digit place{t.output, t.stride, room ? room : (l.ranges[size_t(t.output)] + t.stride - 1) / t.stride};
    bool bits = !t.xors.empty() || values == 2;
    if (room && (room < values || (room > values && (!t.xors.empty() || !top(t.digit))))) return false;
    if (bits && (room == 2 || room == 0)) {
      std::set<Atom> atoms{{t.digit.input, t.digit.divisor}};
      for (auto& x : t.xors) atoms.insert({x.input, x.divisor});
      rows.push_back({std::move(atoms), {{t.output, t.stride}}});
      return true;
    }
    if (!t.xors.empty()) return false;
    return solved.emplace(Atom{t.digit.input, t.digit.divisor}, std::vector{place}).second;
  }

  bool read_places() {
    for (size_t o = 0; o < l.ranges.size(); o++) {
      std::vector<Term> here;
      for (auto& t : terms)
        if (size_t(t.output) == o) here.push_back(t);
      std::ranges::sort(here, [](const Term& a, const Term& b) { return a.stride < b.stride; });
      if (!here.empty() && here[0].stride != 1) return false;
      for (size_t i = 0; i < here.size(); i++) {
        bool last = i + 1 == here.size();
        if (!last && here[i + 1].stride % here[i].stride) return false;
        if (!last && here[i + 1].stride == here[i].stride) return false;
        if (!read_place(here[i], last ? 0 : here[i + 1].stride / here[i].stride)) return false;
      }
    }
    return true;
  }

  static void add(std::set<Atom>& to, const std::set<Atom>& what) {
    for (auto& a : what)
      if (!to.insert(a).second) to.erase(a);
  }

  // Gauss over bits.
  bool solve() {
    for (size_t r = 0; r < rows.size(); r++) {
      if (rows[r].first.empty()) return false;  // a place that says nothing new
      Atom pivot = *rows[r].first.begin();
      for (size_t s = 0; s < rows.size(); s++)
        if (s != r && rows[s].first.contains(pivot)) {
          add(rows[s].first, rows[r].first);
          add(rows[s].second, rows[r].second);
        }
    }
    for (auto& [atoms, places] : rows) {
      if (atoms.size() != 1) return false;
      std::vector<Digit> digits;
      for (auto& [output, divisor] : places) digits.push_back({output, divisor, 2});
      if (!solved.emplace(*atoms.begin(), std::move(digits)).second) return false;
    }
    for (size_t in = 0; in < cuts.size(); in++)
      for (int64_t c : cuts[in])
        if (l.extents[in] > 1 && !solved.contains({int(in), c})) return false;
    return true;
  }

  std::optional<std::vector<Term>> run() {
    if (!cut_xors() || !cut_plain() || !read_places() || !solve()) return std::nullopt;
    std::vector<Term> out;
    for (auto& [atom, digits] : solved) {
      auto t = xor_term(atom.second, digits, l.ranges);
      if (!t) continue;
      t->output = atom.first;
      out.push_back(*t);
    }
    return merged_terms(out);
  }
};

std::optional<std::vector<Term>> inverse_terms(const Layout& l) {
  if (!l.terms) return std::nullopt;
  return Inversion{.l = l}.run();
}

}  // namespace

bool is_injective(const Layout& l) { return inverse_terms(l) || !find_collision(table(l), l.ranges.size()); }

Layout inverse(const Layout& l) {
  size_t n = l.ranges.size(), inputs = l.extents.size();
  if (auto terms = inverse_terms(l)) return from_terms(l.ranges, int(inputs), std::move(*terms));
  std::vector<int64_t> points = table(l);
  if (auto at = find_collision(points, n)) {
    std::vector<int64_t> place(points.begin() + std::ptrdiff_t(at->first) * std::ptrdiff_t(n),
                               points.begin() + std::ptrdiff_t(at->first + 1) * std::ptrdiff_t(n));
    fail({}, "the layout has no inverse: the elements {} and {} both go to {}",
         tuple_text(point_at(l.extents, at->first)), tuple_text(point_at(l.extents, at->second)),
         tuple_text(place));
  }
  int64_t places = product(l.ranges);
  if (places > most_points)
    fail({},
         "the inverse of this layout goes over {} places, of the extents {}: too many to enumerate ({} at "
         "most)",
         places, tuple_text(l.ranges), most_points);
  std::vector<int64_t> back(size_t(places) * inputs, 0);
  for (size_t i = 0; i < back.size(); i += inputs) back[i] = l.extents[0];  // where nothing lies
  for (size_t p = 0; p < size_t(l.size()); p++) {
    int64_t at = 0;
    for (size_t o = 0; o < n; o++) at = at * l.ranges[o] + points[p * n + o];
    std::vector<int64_t> x = point_at(l.extents, int64_t(p));
    std::copy(x.begin(), x.end(), back.begin() + at * std::ptrdiff_t(inputs));
  }
  return from_points(l.ranges, int(inputs), std::move(back));
}

}  // namespace tl
