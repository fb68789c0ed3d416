// What is known of each node under given facts, computed once per node: range, divisibility, a structural
// hash.
#pragma once
#include "arith/interval.h"
#include "arith/modular.h"

namespace tl {

struct Info {
  Interval range = {};
  Modular modular = {};
  uint64_t hash = 0;     // equal trees have equal hashes; two impure nodes never do
  bool impure = false;   // has an effect: never merged, moved or dropped
  bool loads = false;    // its value may change when memory does
  bool partial = false;  // it has no meaning everywhere: a load, or a division by what may be 0
  bool fails = false;    // it has a division by what may be 0
  // Made of what memory or a call brings, or of a constant that no index has: an i64 that wraps, while other
  // i64 never overflow.
  bool data = false;
};

inline bool may_be_zero(const Info& i) {
  int64_t m = i.modular.modulus;
  return i.range.contains(0) && (m ? i.modular.remainder % m == 0 : i.modular.remainder == 0);
}

// No memory has more elements than these bits count, so what is made of a larger constant, or shifted
// further, is no index.
constexpr int index_bits = 48;
inline bool is_beyond_index(int64_t constant) {
  constexpr int64_t most = int64_t(1) << index_bits;
  return constant > most || constant < -most;
}

// Remembers by address, and keeps what it remembers alive.  Facts that change must be followed by forget().
struct Analysis {
  explicit Analysis(const Facts& facts);
  Info of(const Expr& e);
  Interval range(const Expr& e) { return of(e).range; }
  bool same(const Expr& a, const Expr& b);  // equal and without effect: the same value

  const Expr* find_result(const Expr& e);  // a note per node, for the simplifier's own use
  void note_result(const Expr& e, Expr result);
  void forget();

 private:
  struct Row {
    Expr node, result = {};
    Info info = {};
    bool known = false;
  };
  size_t row_of(const Expr& e);
  void grow();

  const Facts& facts;
  std::vector<Row> rows;
  std::vector<uint32_t> index;  // by address: one more than the row; 0 is free
};

}  // namespace tl
