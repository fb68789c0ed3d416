// What the threads of a block have while they go in step: memory, evaluators, and who of them is here.
#pragma once
#include <algorithm>
#include <optional>

#include "fuzz/evaluate.h"
#include "fuzz/strands.h"
#include "ops/op.h"
#include "trial.h"

namespace tl::test {

using Threads = std::vector<char>;  // by number: does it take part?

[[noreturn]] inline void no_meaning(const std::string& why) { throw std::logic_error("no meaning: " + why); }

struct LockstepMemory {
  const Function& f;
  Trial& trial;
  using Cell = std::optional<Value>;                            // nothing: nobody has written it
  std::map<BufferId, std::vector<Cell>> common = {};            // shared tiles and fragments
  std::map<BufferId, std::vector<std::vector<Cell>>> own = {};  // by thread

  Tensor* tensor(BufferId b) {
    if (f[b].alias_of) b = f[b].alias_of;
    for (size_t i = 0; i < f.params.size(); i++)
      if (f.params[i].buffer == b) return &trial.tensors[i];
    return nullptr;
  }
  std::vector<int64_t> shape_of(BufferId b) {
    if (Tensor* t = tensor(b)) return t->shape;
    std::vector<int64_t> shape;
    for (auto& e : f[b].shape) shape.push_back(*as_int(e));
    return shape;
  }
  // In row-major order; -1 outside of a tensor.
  int64_t place(BufferId b, const std::vector<int64_t>& at) {
    std::vector<int64_t> shape = shape_of(b);
    int64_t offset = 0;
    for (size_t d = 0; d < at.size(); d++) {
      if (at[d] < 0 || at[d] >= shape[d]) {
        if (f[b].scope == Scope::global) return -1;
        no_meaning(fmt::format("{}[{}] is outside", f[b].name, at[d]));
      }
      offset = offset * shape[d] + at[d];
    }
    return offset;
  }
  bool is_own(BufferId b) const { return f[b].scope == Scope::local && f[b].reducer.empty(); }
  std::vector<Cell>& cells(int64_t thread, BufferId b) {
    if (f[b].alias_of) return cells(thread, f[b].alias_of);
    return is_own(b) ? own[b].at(size_t(thread)) : common[b];
  }
  Value get(int64_t thread, BufferId b, int64_t place) {
    if (place < 0) return {};
    Tensor* t = tensor(b);
    if (!t) {
      const Cell& cell = cells(thread, b).at(size_t(place));
      if (!cell)
        no_meaning(fmt::format("element {} of {} is read, but no thread has written it", place, f[b].name));
      return *cell;
    }
    Scalar s = element_access(t->type).get(t->at(place));
    return t->type.is_float() ? Value{0, s.d} : whole(s.i, t->type);
  }
  static Value whole(int64_t n, DType t) { return {t == u64 ? Wide(uint64_t(n)) : Wide(n), 0}; }
  void put(int64_t thread, BufferId b, int64_t place, Value v) {
    if (place < 0) return;
    if (Tensor* t = tensor(b))
      element_access(t->type).put(t->at(place),
                                  t->type.is_float() ? scalar(v.f) : scalar(int64_t(uint64_t(v.i))));
    else
      cells(thread, b).at(size_t(place)) = v;
  }
  void begin(BufferId b, size_t threads) {
    int64_t size = 1;
    for (int64_t e : shape_of(b)) size *= e;
    std::vector<Cell> cells(size_t(size), Cell{});
    if (!is_own(b))
      common[b] = cells;
    else
      own[b].assign(threads, cells);
  }
};

struct LockstepBlock {
  const Function& f;
  LockstepMemory memory;
  const Kernel* kernel = nullptr;
  int64_t count = 0;  // of threads
  std::vector<Evaluator> threads = {};
  Threads here = {};  // who executes
  int64_t team = 0;   // threads of the groups around
  std::map<std::pair<BufferId, int64_t>, MemoryBarrier> barriers = {};
  struct Named {
    int64_t arrived = 0, phase = 0;
  };
  std::map<int64_t, Named> named = {};  // 0: the block's

  int64_t how_many() const { return std::count(here.begin(), here.end(), 1); }
  bool all_here() const { return how_many() == team; }
  template <class F>
  void each(F work) {
    for (int64_t t = 0; t < count; t++)
      if (here[size_t(t)]) work(t);
  }
  Value value(int64_t thread, const Expr& e) { return threads[size_t(thread)](e); }
  int64_t integer(int64_t thread, const Expr& e) { return int64_t(value(thread, e).i); }
  int64_t place(int64_t thread, BufferId b, const std::vector<Expr>& index) {
    std::vector<int64_t> at;
    for (auto& i : index) at.push_back(integer(thread, i));
    return memory.place(b, at);
  }

  // lockstep_calls.cpp; the value of a call, and what one does that is a statement.
  Value call(int64_t thread, const Call& c);
  Value atomic(int64_t thread, const Call& c);
  void beside(int64_t thread, const Call& c);

  int64_t source(std::string_view name, int64_t thread, int64_t number, int64_t width);
  Value shuffle(int64_t thread, const Call& c);
  Value vote(int64_t thread, const Call& c);
  Value barrier_vote(const Call& c);
  Value function(int64_t thread, const Call& c);
  std::pair<BufferId, int64_t> key(int64_t thread, const Expr& address);
  MemoryBarrier& barrier(int64_t thread, const Expr& address);
  void change(int64_t thread, const Expr& address, int64_t arrivals, int64_t bytes);
  void copy(int64_t thread, const Call& c, int64_t bytes, int64_t given);
};

// Does a thread wait there for a barrier in memory?
inline bool waits(std::string_view name) { return name.starts_with("mbarrier_t"); }

}  // namespace tl::test
