// What the iterations of T.Parallel or T.vectorized touch: their accesses, and of each the elements,
// iteration by iteration, where indices and conditions depend only on the loops and on what all iterations
// share.
#pragma once
#include <map>
#include <optional>

#include "ir/rewrite.h"
#include "ops/op.h"

namespace tl {

constexpr int64_t most_points = 1 << 16;  // iterations that are looked at

struct LoopCounter {
  Expr var;
  int64_t extent;
};

// An access in every iteration in which its conditions hold.
struct IterationAccess {
  bool is_store;
  BufferId buffer;
  std::vector<Expr> index = {}, conditions;
  std::vector<LoopCounter> inner;  // loops of the body around it
  Span span;
  Expr value = {};  // that is stored
};

using CounterValues = std::map<const ExprNode*, int64_t>;
// Nothing where it depends on more than these values.
std::optional<int64_t> value_under(const Expr& e, const CounterValues& values);

struct IterationAccesses {
  std::vector<IterationAccess> found = {};
  VarMap lets = {};        // the value of each name of the body
  bool by_thread = false;  // each thread may have iterations of its own
};
IterationAccesses accesses_of(const Stmt& body);

// A nest of such loops.
struct Iterations {
  const Function& f;
  Loop kind = Loop::parallel;
  std::vector<LoopCounter> loops = {};

  // All loops around an access.
  std::vector<LoopCounter> counters_of(const IterationAccess& a) const;
  // Calls visit(number of the iteration, element, number of the point) for all points, the values of all
  // loops around the access, as far as the indices depend on these; the rest of the indices goes to `shared`.
  // False where that is unknown.
  template <class F>
  bool points(const IterationAccess& a, std::vector<Expr>& shared, F visit) const {
    std::vector<LoopCounter> counters = counters_of(a);
    int64_t count = 1, inner = 1;
    for (auto& c : counters) count *= std::min<int64_t>(c.extent, most_points + 1);
    for (auto& c : a.inner) inner *= c.extent;
    if (count > most_points || count == 0) return false;
    std::vector<Expr> own = own_parts(a, shared);
    CounterValues values;
    std::vector<int64_t> element(own.size());
    for (int64_t n = 0; n < count; n++) {
      set(values, counters, n);
      bool happens = true;
      for (auto& c : a.conditions) {
        auto holds = value_under(c, values);
        if (!holds) return false;
        happens &= *holds != 0;
      }
      for (size_t d = 0; d < own.size(); d++) {
        auto at = value_under(own[d], values);
        if (!at) return false;
        element[d] = *at;
      }
      if (happens) visit(n / inner, element, n);
    }
    return true;
  }
  CounterValues values_at(const IterationAccess& a, int64_t point) const {
    CounterValues values;
    set(values, counters_of(a), point);
    return values;
  }
  // "i = 3, j = 0"
  std::string name_of(int64_t iteration) const;

  // An index without what all iterations share, which goes to `shared`.
  std::vector<Expr> own_parts(const IterationAccess& a, std::vector<Expr>& shared) const;

 private:
  static void set(CounterValues& values, const std::vector<LoopCounter>& counters, int64_t point) {
    for (size_t c = counters.size(); c-- > 0; point /= counters[c].extent)
      values[counters[c].var.get()] = point % counters[c].extent;
  }
};

// CompileError where two iterations write different values to one element.
void check_writes(const Iterations& iterations, const IterationAccesses& accesses);  // check_writes.cpp

}  // namespace tl
