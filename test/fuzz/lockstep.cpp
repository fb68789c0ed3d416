// One evaluator per thread; statements walk down with the set of threads that execute them.  What is copied
// beside the threads is copied where it is begun, so that of all waits only those for barriers in memory can
// fail.  Where such waits stand on both sides of a condition, the two sides take turns.
#include "fuzz/lockstep.h"

#include <algorithm>
#include <optional>

#include "fuzz/evaluate.h"
#include "fuzz/strands.h"
#include "ops/op.h"

namespace tl::test {
namespace {

using Threads = std::vector<char>;  // by number: does it take part?

struct Jumps {  // of the loop around
  Threads broken, continued;
};

struct Machine {
  const Function& f;
  Trial& trial;
  bool wraps = false;  // 64-bit integers
  const Kernel* kernel = nullptr;
  int64_t count = 0;  // of threads
  std::vector<Evaluator> threads = {};
  using Cell = std::optional<Value>;                            // nothing: nobody has written it
  std::map<BufferId, std::vector<Cell>> common = {};            // shared tiles and fragments
  std::map<BufferId, std::vector<std::vector<Cell>>> own = {};  // by thread
  std::map<const ExprNode*, Value> of_call = {};                // extents and scalars that the call brings
  Threads here = {}, returned = {};                             // who executes, who has left
  Jumps* jumps = nullptr;
  bool as_one = false;  // a tile operator: the first thread does it for all
  std::map<std::pair<BufferId, int64_t>, MemoryBarrier> barriers = {};
  Strands strands = {};

  [[noreturn]] static void no_meaning(const std::string& why) {
    throw std::logic_error("no meaning: " + why);
  }
  static bool any(const Threads& t) { return std::find(t.begin(), t.end(), 1) != t.end(); }
  template <class F>
  void each(F work) {
    for (int64_t t = 0; t < count; t++)
      if (here[size_t(t)]) work(t);
  }
  Value value(int64_t thread, const Expr& e) { return threads[size_t(thread)](e); }
  int64_t integer(int64_t thread, const Expr& e) { return int64_t(value(thread, e).i); }

  // ── memory ──────────────────────────────────────────────────────────────────────────────────────────
  Tensor* tensor(BufferId b) {
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
  int64_t place(int64_t thread, BufferId b, const std::vector<Expr>& index) {
    std::vector<int64_t> at;
    for (auto& i : index) at.push_back(integer(thread, i));
    return place(b, at);
  }
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
        no_meaning(fmt::format("element {} of {} is read, but nobody has written it", place, f[b].name));
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

  // ── calls ───────────────────────────────────────────────────────────────────────────────────────────
  // PTX's shfl: the lane that is read, the own one where that lies outside of its run of `width`.
  int64_t source(std::string_view name, int64_t thread, int64_t number, int64_t width) {
    int64_t lane = thread % 32, first = lane & ~(width - 1), last = first | (width - 1);
    int64_t other = name == "shfl_sync"       ? first | (number & (width - 1))
                    : name == "shfl_xor_sync" ? lane ^ number
                    : name == "shfl_up_sync"  ? lane - number
                                              : lane + number;
    bool inside = name == "shfl_up_sync" ? other >= first : other <= last;
    return thread - lane + (inside ? other : lane);
  }
  Value shuffle(int64_t thread, const Call& c) {
    int64_t from = source(c.callee->name, thread, integer(thread, c.args[1]), integer(thread, c.args[2]));
    if (from >= count || !here[size_t(from)]) no_meaning("a shuffle from a thread that is not there");
    return value(from, c.args[0]);
  }
  Value vote(int64_t thread, const Call& c) {
    uint32_t mask = uint32_t(integer(thread, c.args[1])), yes = 0, equal = 0, among = 0;
    Wide mine = value(thread, c.args[0]).i;
    for (int64_t lane = 0, first = thread - thread % 32; lane < 32; lane++) {
      if (!(mask >> lane & 1)) continue;
      if (first + lane >= count || !here[size_t(first + lane)])
        no_meaning("a vote without one of its threads");
      Wide v = value(first + lane, c.args[0]).i;
      among |= 1u << lane;
      yes |= uint32_t(v != 0) << lane;
      equal |= uint32_t(v == mine) << lane;
    }
    std::string_view name = c.callee->name;
    if (name == "any_sync") return {yes != 0, 0};
    if (name == "all_sync") return {yes == among, 0};
    if (name == "ballot_sync") return {Wide(yes), 0};
    return {Wide(name == "match_any_sync" ? equal : equal == among ? among : 0), 0};
  }
  Value barrier_vote(const Call& c) {
    int64_t yes = 0;
    if (std::count(here.begin(), here.end(), 1) != count) no_meaning("a barrier that not all threads reach");
    each([&](int64_t t) { yes += value(t, c.args[0]).i != 0; });
    std::string_view name = c.callee->name;
    return {name == "sync_threads_count" ? Wide(yes)
            : name == "sync_threads_and" ? yes == count
                                         : yes > 0,
            0};
  }
  // The old value; the updates of one statement happen thread by thread.
  Value atomic(int64_t thread, const Call& c) {
    const Load& where = *place_of(c.args[0]);
    int64_t at = place(thread, where.buffer, where.index);
    Value old = get(thread, where.buffer, at), v = value(thread, c.args[1]);
    using Atomic = Callee::Atomic;
    Atomic kind = c.callee->atomic;
    if (kind == Atomic::load) return old;
    BinaryOp op = kind == Atomic::add   ? BinaryOp::add
                  : kind == Atomic::max ? BinaryOp::max
                  : kind == Atomic::min ? BinaryOp::min
                                        : BinaryOp::bit_or;
    DType t = f[where.buffer].dtype;
    Value now = kind == Atomic::store ? v
                : t.is_float()        ? Evaluator::number(op, old.f, v.f, t)
                                      : Value{Evaluator{}.integer(op, old.i, v.i, t), 0};
    put(thread, where.buffer, at, now);
    return old;
  }
  // ── what goes on beside the threads ─────────────────────────────────────────────────────────────────
  static bool waits(std::string_view name) { return name.starts_with("mbarrier_t"); }
  template <class R>
  static bool waits_in(const R& r) {
    bool found = false;
    if (r) visit(r, [&](const Call& c) { found |= waits(c.callee->name); });
    return found;
  }
  std::pair<BufferId, int64_t> key(int64_t thread, const Expr& address) {
    return {place_of(address)->buffer, place(thread, place_of(address)->buffer, place_of(address)->index)};
  }
  MemoryBarrier& barrier(int64_t thread, const Expr& address) {
    auto it = barriers.find(key(thread, address));
    if (it == barriers.end()) no_meaning("a barrier in memory that nobody has made");
    return it->second;
  }
  void change(int64_t thread, const Expr& address, int64_t arrivals, int64_t bytes) {
    if (!barrier(thread, address).change(arrivals, bytes))
      no_meaning("more arrivals at a barrier in memory than it counts");
  }
  // (to, from): what is not given is 0.
  void copy(int64_t thread, const Call& c, int64_t bytes, int64_t given) {
    auto [to, at] = key(thread, c.args[0]);
    auto [from, source] = key(thread, c.args[1]);
    int64_t size = f[to].dtype.bytes();
    if (f[from].dtype != f[to].dtype || bytes % size || given % size || given < 0 || given > bytes || at < 0)
      no_meaning("a copy of parts of elements");
    for (int64_t i = 0; i < bytes / size; i++) {
      bool has = i < given / size;
      if (has && (source < 0 || (tensor(from) && source + i >= tensor(from)->size())))
        no_meaning("a copy from outside of a tensor");
      put(thread, to, at + i, has ? get(thread, from, source + i) : Value{});
    }
  }
  // Groups, their waits and fences have nothing to do.
  void beside(int64_t thread, const Call& c) {
    std::string_view name = c.callee->name;
    auto argument = [&](size_t i) { return integer(thread, c.args[i]); };
    if (name == "mbarrier_init") {
      barriers.insert_or_assign(key(thread, c.args[0]), MemoryBarrier{argument(1), argument(1)});
    } else if (name == "mbarrier_inval") {
      barriers.erase(key(thread, c.args[0]));
    } else if (name == "mbarrier_arrive" || name == "cp_async_mbarrier_arrive_noinc") {
      change(thread, c.args[0], 1, 0);
    } else if (name == "mbarrier_expect_tx" || name == "mbarrier_arrive_expect_tx") {
      change(thread, c.args[0], name == "mbarrier_arrive_expect_tx", argument(1));
    } else if (name == "cp_async_bulk_load" || name == "cp_async_bulk_store") {
      copy(thread, c, argument(2), argument(2));
      if (c.args.size() > 3) change(thread, c.args[3], 0, -argument(2));
    } else if (size_t digit = name.find_first_of("0123456789");
               name.starts_with("cp_async_") && digit != name.npos) {
      int64_t bytes = std::stoll(std::string(name.substr(digit)));
      copy(thread, c, bytes, c.args.size() > 2 ? argument(2) : bytes);
    }
  }
  Value call(int64_t thread, const Call& c) {
    std::string_view name = c.callee->name;
    if (waits(name)) return {barrier(thread, c.args[0]).has_ended(integer(thread, c.args[1])), 0};
    auto& dims = kernel->threads;
    if (name == "thread_number") return {Wide(thread), 0};
    if (name == "thread_index") {
      int64_t below = 1, dim = integer(thread, c.args[0]);
      for (int64_t d = 0; d < dim; d++) below *= dims[size_t(d)];
      return {Wide(thread / below % dims[size_t(dim)]), 0};
    }
    if (name == "reinterpret")
      return test::Evaluator::reinterpreted(value(thread, c.args[0]), c.args[0]->dtype.scalar(),
                                            c.dtype.scalar());
    if (name.starts_with("shfl")) return shuffle(thread, c);
    if (name.starts_with("sync_threads_")) return barrier_vote(c);
    if (name.ends_with("_sync")) return vote(thread, c);
    if (c.callee->atomic != Callee::Atomic::none) return atomic(thread, c);
    if (c.callee->eval) return function(thread, c);
    throw std::logic_error(fmt::format("{} is not known here", name));
  }
  Value function(int64_t thread, const Call& c) {
    std::vector<double> args;
    for (auto& a : c.args) {
      Value v = value(thread, a);
      args.push_back(a->dtype.is_float() ? v.f : double(v.i));
    }
    double result = c.callee->eval(args.data());
    return c.dtype.is_float() ? Value{0, Evaluator::rounded(result, c.dtype)} : Value{Wide(result), 0};
  }

  // ── statements ──────────────────────────────────────────────────────────────────────────────────────
  void run(const Stmt& s) {
    if (!s || !any(here)) return;
    dispatch(s, overloads{
                    [&](const Block& n) {
                      for (auto& child : n.stmts) run(child);
                    },
                    [&](const Let& n) { define(n.var, n.value); },
                    [&](const Store& n) { store(n); },
                    [&](const Alloc& n) { begin(n.buffer); },
                    [&](const For& n) { loop(n); },
                    [&](const While& n) { loop(n); },
                    [&](const If& n) { branch(n); },
                    [&](const Eval& n) { effect(n); },
                    [&](const Tile& n) { tile(n); },
                    [&](const Group&) { throw std::logic_error("groups are not known here"); },
                });
  }
  void define(const Expr& var, const Expr& e) {
    std::vector<Value> values(size_t(count), Value{});
    each([&](int64_t t) { values[size_t(t)] = value(t, e); });
    each([&](int64_t t) { threads[size_t(t)].vars[var.get()] = values[size_t(t)]; });
  }
  void store(const Store& n) {
    std::vector<std::pair<int64_t, Value>> what(size_t(count), {-1, {}});
    each([&](int64_t t) {
      int64_t at = place(t, n.buffer, n.index);  // what is stored nowhere is not computed
      if (at >= 0) what[size_t(t)] = {at, value(t, n.value)};
    });
    each([&](int64_t t) { put(t, n.buffer, what[size_t(t)].first, what[size_t(t)].second); });
  }
  void begin(BufferId b) {
    std::erase_if(barriers, [&](auto& other) { return other.first.first == b; });
    int64_t size = 1;
    for (int64_t e : shape_of(b)) size *= e;
    std::vector<Cell> cells(size_t(size), Cell{});
    if (!is_own(b))
      common[b] = cells;
    else
      own[b].assign(size_t(count), cells);
  }
  // The body for the threads in `now`, as an iteration of a loop; those that break are not in `left` any
  // more.
  void iterate(const Stmt& body, Threads now, Threads& left) {
    Jumps mine{Threads(size_t(count)), Threads(size_t(count))};
    Jumps* outer = std::exchange(jumps, &mine);
    std::swap(here, now);
    run(body);
    std::swap(here, now);
    jumps = outer;
    for (size_t t = 0; t < size_t(count); t++) left[t] = left[t] && !mine.broken[t] && !returned[t];
  }
  void after(const Threads& before) {  // a loop or condition: all go on that have not jumped
    for (size_t t = 0; t < size_t(count); t++)
      here[t] = before[t] && !returned[t] && !(jumps && (jumps->broken[t] || jumps->continued[t]));
  }
  void loop(const For& n) {
    if (n.loop == Loop::parallel) return in_common([&] { serial(n); });
    serial(n);
  }
  void serial(const For& n) {
    Threads before = here, left = here;
    std::vector<std::pair<int64_t, int64_t>> ranges(size_t(count), {0, 0});
    int64_t most = 0;
    each([&](int64_t t) {
      ranges[size_t(t)] = {integer(t, n.min), integer(t, n.extent)};
      most = std::max(most, ranges[size_t(t)].second);
    });
    for (int64_t i = 0; i < most; i++) {
      Threads now = left;
      for (size_t t = 0; t < size_t(count); t++) {
        now[t] = left[t] && i < ranges[t].second;
        threads[t].vars[n.var.get()] = {Wide(ranges[t].first + i), 0};
      }
      if (any(now)) iterate(n.body, now, left);
    }
    after(before);
  }
  void loop(const While& n) {
    Threads before = here, left = here;
    for (int64_t trips = 0;; trips++) {
      if (trips > 10000) no_meaning("a loop without an end");
      here = left;
      each([&](int64_t t) { left[size_t(t)] = value(t, n.cond).i != 0; });
      if (!any(left)) break;
      if (waits_in(n.cond)) pass_on();
      iterate(n.body, left, left);
    }
    after(before);
  }
  void branch(const If& n) {
    Threads before = here, yes = here, no = here;
    Jumps* outer = jumps;
    each([&](int64_t t) { no[size_t(t)] = !(yes[size_t(t)] = value(t, n.cond).i != 0); });
    auto side = [&](const Threads& who, const Stmt& body) {
      here = who;
      jumps = outer;
      run(body);
    };
    if (waits_in(n.then_body) && waits_in(n.else_body))
      strands.run([&] { side(yes, n.then_body); }, [&] { side(no, n.else_body); });
    else
      side(yes, n.then_body), side(no, n.else_body);
    jumps = outer;
    after(before);
  }
  void pass_on() {  // this one's threads wait
    Threads mine = here;
    Jumps* around = jumps;
    strands.pass_on();
    here = mine;
    jumps = around;
  }
  void effect(const Eval& n) {
    auto& c = *n.value.as<Call>();
    std::string_view name = c.callee->name;
    if (name == "sync_threads" && std::count(here.begin(), here.end(), 1) != count)
      no_meaning("a barrier that not all threads reach");
    if (name == "break" || name == "continue" || name == "thread_return") {
      Threads& to = name == "break" ? jumps->broken : name == "continue" ? jumps->continued : returned;
      each([&](int64_t t) { to[size_t(t)] = 1; });
      std::fill(here.begin(), here.end(), 0);
    } else if (c.callee->atomic != Callee::Atomic::none) {
      each([&](int64_t t) { atomic(t, c); });
    } else if (c.callee->result != Callee::Result::none) {
      each([&](int64_t t) { call(t, c); });
    } else {
      each([&](int64_t t) { beside(t, c); });
    }  // other barriers, of all kinds: nothing to wait for
  }

  // ── what the block does as one: by the row's own meaning ─────────────────────────────────────────────
  template <class F>
  void in_common(F work) {
    if (as_one) return work();
    if (std::count(here.begin(), here.end(), 1) != count)
      no_meaning("a tile operator for some of the threads");
    Threads all = std::exchange(here, Threads(size_t(count)));
    here[0] = as_one = true;
    work();
    here = all;
    as_one = false;
  }
  template <class F>
  void each_element(const Region& r, F work) {
    std::vector<int64_t> min, extent;
    int64_t size = 1;
    for (auto& range : r.ranges) {
      min.push_back(integer(0, range.min));
      extent.push_back(integer(0, range.extent));
      size *= extent.back();
    }
    for (int64_t n = 0; n < size; n++) {
      std::vector<int64_t> at = min;
      for (int64_t d = int64_t(at.size()) - 1, left = n; d >= 0; left /= extent[size_t(d)], d--)
        at[size_t(d)] += left % extent[size_t(d)];
      work(n, place(r.buffer, at));
    }
  }
  void tile(const Tile& n) {
    in_common([&] {
      row_of(n).eval(n, f,
                     {.read =
                          [&](const Region& r) {
                            DType t = f[r.buffer].dtype;
                            Array a = make_array(t, region_shape(r));
                            each_element(r, [&](int64_t i, int64_t at) {
                              Value v = get(0, r.buffer, at);
                              t.is_float() ? void(a.floats[size_t(i)] = v.f)
                                           : void(a.ints[size_t(i)] = int64_t(uint64_t(v.i)));
                            });
                            return a;
                          },
                      .write =
                          [&](const Region& r, const Array& a) {
                            DType t = f[r.buffer].dtype;
                            each_element(r, [&](int64_t i, int64_t at) {
                              put(0, r.buffer, at,
                                  t.is_float() ? Value{0, Evaluator::rounded(a.floats[size_t(i)], t)}
                                               : whole(wrap_int(a.ints[size_t(i)], t), t));
                            });
                          },
                      .value =
                          [&](const Expr& e) {
                            Array a = make_array(e->dtype, {});
                            Value v = value(0, e);
                            e->dtype.is_float() ? void(a.floats[0] = v.f)
                                                : void(a.ints[0] = int64_t(uint64_t(v.i)));
                            return a;
                          },
                      .apply = {}});
    });
  }

  // ── blocks ──────────────────────────────────────────────────────────────────────────────────────────
  void bind_call() {
    for (size_t i = 0; i < f.params.size(); i++) {
      auto& p = f.params[i];
      if (p.var) of_call[p.var.get()] = {Wide(trial.scalars[i]), trial.scalars[i]};
      for (size_t d = 0; p.buffer && d < f[p.buffer].shape.size(); d++)
        if (f[p.buffer].shape[d].as<Var>())
          of_call[f[p.buffer].shape[d].get()] = {Wide(trial.tensors[i].shape[d]), 0};
    }
  }
  void run_block(const std::map<const ExprNode*, Value>& vars) {
    threads.assign(size_t(count), Evaluator{.vars = vars, .strict = !wraps});
    for (int64_t t = 0; t < count; t++) {
      threads[size_t(t)].loads = [this, t](const Load& n) {
        if (n.mask && !value(t, n.mask).i) return Value{};
        return get(t, n.buffer, place(t, n.buffer, n.index));
      };
      threads[size_t(t)].calls = [this, t](const Call& c) { return call(t, c); };
    }
    here.assign(size_t(count), 1);
    returned.assign(size_t(count), 0);
    run(kernel->body);
  }
  void run() {
    bind_call();
    for (auto& k : f.kernels) {
      kernel = &k;
      count = thread_count(k);
      int64_t extents[3] = {1, 1, 1};
      for (size_t d = 0; d < k.grid.size(); d++)
        extents[d] = int64_t(Evaluator{.vars = of_call}(k.grid[d]).i);
      for (int64_t z = 0; z < extents[2]; z++)
        for (int64_t y = 0; y < extents[1]; y++)
          for (int64_t x = 0; x < extents[0]; x++) {
            auto vars = of_call;
            for (size_t d = 0; d < k.grid_vars.size(); d++)
              vars[k.grid_vars[d].get()] = {Wide(d == 0 ? x : d == 1 ? y : z), 0};
            run_block(vars);
          }
    }
  }
};

}  // namespace

bool is_thread_level(const Function& f) {
  bool found = false;
  for (auto& k : f.kernels) visit(k.body, [&](const Call& c) { found |= tl::is_thread_level(*c.callee); });
  return found;
}

void run_lockstep(const Function& f, Trial& trial, bool wraps) { Machine{f, trial, wraps}.run(); }

}  // namespace tl::test
