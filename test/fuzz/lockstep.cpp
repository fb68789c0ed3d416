// One evaluator per thread; statements walk down with the set of threads that execute them.  Where waits for
// barriers in memory stand on both sides of a condition, the two sides take turns.
#include "fuzz/lockstep.h"

#include <functional>
#include <set>
#include <span>
#include <tuple>

#include "fuzz/lockstep_block.h"

namespace tl::test {
namespace {

struct Jumps {  // of the loop around
  Threads broken, continued;
};

bool any(const Threads& t) { return std::find(t.begin(), t.end(), 1) != t.end(); }

template <class R>
bool waits_in(const R& r) {
  return r && contains(r, [](const Call& c) { return waits(c.intrinsic->name); });
}

struct Machine {
  const Function& f;
  LockstepBlock block;
  bool wraps = false;                             // 64-bit integers
  std::map<const ExprNode*, Value> of_call = {};  // extents and scalars that the call brings
  Threads returned = {};                          // who has left
  Jumps* jumps = nullptr;
  bool as_one = false;  // a tile operator: the first thread that is here does it for all
  int64_t lead = 0;     // … which is this one
  Strands strands = {};

  // ── statements ──────────────────────────────────────────────────────────────────────────────────────
  void run(const Stmt& s) {
    if (!s || !any(block.here)) return;
    dispatch(s, overloads{
                    [&](const Block& n) {
                      for (size_t i = 0, many; i < n.stmts.size(); i += many) {
                        many = std::max<size_t>(1, beside(n.stmts, i));
                        n.stmts[i].as<Group>() ? section(std::span(n.stmts).subspan(i, many))
                                               : run(n.stmts[i]);
                      }
                    },
                    [&](const Let& n) { define(n.var, n.value); },
                    [&](const Store& n) { store(n); },
                    [&](const Alloc& n) {
                      std::erase_if(block.barriers, [&](auto& b) { return b.first.first == n.buffer; });
                      block.memory.begin(n.buffer, size_t(block.count));
                    },
                    [&](const For& n) { loop(n); },
                    [&](const While& n) { loop(n); },
                    [&](const If& n) { branch(n); },
                    [&](const Eval& n) { effect(n); },
                    [&](const Tile& n) { tile(n); },
                    [&](const Group&) { section({&s, 1}); },
                });
  }
  void define(const Expr& var, const Expr& e) {
    std::vector<Value> values(size_t(block.count), Value{});
    block.each([&](int64_t t) { values[size_t(t)] = block.value(t, e); });
    block.each([&](int64_t t) { block.threads[size_t(t)].vars[var.get()] = values[size_t(t)]; });
  }
  void store(const Store& n) {
    std::vector<std::pair<int64_t, Value>> what(size_t(block.count), {-1, {}});
    block.each([&](int64_t t) {
      int64_t at = block.place(t, n.buffer, n.index);  // what is stored nowhere is not computed
      if (at >= 0) what[size_t(t)] = {at, block.value(t, n.value)};
    });
    block.each(
        [&](int64_t t) { block.memory.put(t, n.buffer, what[size_t(t)].first, what[size_t(t)].second); });
  }
  // The body for the threads in `now`, as an iteration of a loop; those that break are not in `left` any
  // more.
  void iterate(const Stmt& body, Threads now, Threads& left) {
    Jumps mine{Threads(size_t(block.count)), Threads(size_t(block.count))};
    Jumps* outer = std::exchange(jumps, &mine);
    std::swap(block.here, now);
    run(body);
    std::swap(block.here, now);
    jumps = outer;
    for (size_t t = 0; t < size_t(block.count); t++) left[t] = left[t] && !mine.broken[t] && !returned[t];
  }
  void after(const Threads& before) {  // a loop or condition: all go on that have not jumped
    for (size_t t = 0; t < size_t(block.count); t++)
      block.here[t] = before[t] && !returned[t] && !(jumps && (jumps->broken[t] || jumps->continued[t]));
  }
  void loop(const For& n) {
    if (n.loop == Loop::parallel) return in_common([&] { serial(n); });
    serial(n);
  }
  void serial(const For& n) {
    Threads before = block.here, left = block.here;
    std::vector<std::pair<int64_t, int64_t>> ranges(size_t(block.count), {0, 0});
    int64_t most = 0;
    block.each([&](int64_t t) {
      ranges[size_t(t)] = {block.integer(t, n.min), block.integer(t, n.extent)};
      most = std::max(most, ranges[size_t(t)].second);
    });
    for (int64_t i = 0; i < most; i++) {
      Threads now = left;
      for (size_t t = 0; t < size_t(block.count); t++) {
        now[t] = left[t] && i < ranges[t].second;
        block.threads[t].vars[n.var.get()] = {Wide(ranges[t].first + i), 0};
      }
      if (any(now)) iterate(n.body, now, left);
    }
    after(before);
  }
  void loop(const While& n) {
    Threads before = block.here, left = block.here;
    for (int64_t trips = 0;; trips++) {
      if (trips > 10000) no_meaning("a loop without an end");
      block.here = left;
      block.each([&](int64_t t) { left[size_t(t)] = block.value(t, n.cond).i != 0; });
      if (!any(left)) break;
      if (waits_in(n.cond)) pass_on();
      iterate(n.body, left, left);
    }
    after(before);
  }
  void branch(const If& n) {
    Threads before = block.here, yes = block.here, no = block.here;
    Jumps* outer = jumps;
    block.each([&](int64_t t) { no[size_t(t)] = !(yes[size_t(t)] = block.value(t, n.cond).i != 0); });
    auto side = [&](const Threads& who, const Stmt& body) {
      block.here = who;
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
    auto mine = std::tuple(block.here, block.team, jumps);
    strands.pass_on();
    std::tie(block.here, block.team, jumps) = mine;
  }

  // ── groups ──────────────────────────────────────────────────────────────────────────────────────────
  // Of how many groups from `begin` on is no thread in two.
  static size_t beside(const std::vector<Stmt>& stmts, size_t begin) {
    std::set<int64_t> taken;
    for (size_t i = begin;; i++) {
      auto* n = i < stmts.size() ? stmts[i].as<Group>() : nullptr;
      for (int64_t t = 0; n && t < n->count; t++)
        if (!taken.insert(n->first + t).second) return i - begin;
      if (!n) return i - begin;
    }
  }
  // In turns, from one wait to the next.
  void section(std::span<const Stmt> groups) {
    auto outer = std::tuple(block.here, block.team, jumps);
    Threads before = block.here;
    auto one = [&](const Group& n) {
      std::tie(block.here, block.team, jumps) = outer;
      for (int64_t t = 0; t < block.count; t++)
        if (t < n.first || t >= n.first + n.count) block.here[size_t(t)] = 0;
      block.team = n.count;
      run(n.body);
    };
    std::function<void(size_t)> from = [&](size_t i) {
      const Group& n = *groups[i].as<Group>();
      if (i + 1 == groups.size()) return one(n);
      strands.run([&] { one(n); }, [&] { from(i + 1); });
    };
    from(0);
    std::tie(block.here, block.team, jumps) = outer;
    after(before);
  }
  void meet(int64_t name, int64_t threads, bool waits) {
    auto& barrier = block.named[name];
    barrier.arrived += block.how_many();
    if (barrier.arrived > threads) no_meaning("more threads at a barrier than it counts");
    if (barrier.arrived == threads) barrier = {0, barrier.phase + 1};
    int64_t phase = barrier.phase;
    for (int64_t trips = 0; waits && barrier.arrived && barrier.phase == phase; trips++) {
      if (trips > 10000) no_meaning("a barrier that not all threads reach");
      pass_on();
    }
  }
  void effect(const Eval& n) {
    auto& c = *n.value.as<Call>();
    std::string_view name = c.intrinsic->name;
    auto argument = [&](size_t i) {
      size_t some = size_t(std::find(block.here.begin(), block.here.end(), 1) - block.here.begin());
      return block.integer(int64_t(some), c.args[i]);
    };
    if (name == "sync_threads")
      meet(0, block.count, true);
    else if (name == "bar_sync" || name == "bar_arrive")
      meet(argument(0), argument(1), name == "bar_sync");
    else if (name == "break" || name == "continue" || name == "thread_return") {
      Threads& to = name == "break" ? jumps->broken : name == "continue" ? jumps->continued : returned;
      block.each([&](int64_t t) { to[size_t(t)] = 1; });
      std::fill(block.here.begin(), block.here.end(), 0);
    } else if (c.intrinsic->atomic != Intrinsic::Atomic::none) {
      block.each([&](int64_t t) { block.atomic(t, c); });
    } else if (c.intrinsic->result != Intrinsic::Result::none) {
      block.each([&](int64_t t) { block.call(t, c); });
    } else {
      block.each([&](int64_t t) { block.beside(t, c); });
    }  // barriers of warps: nothing to wait for
  }

  // ── what the block does as one: by the row's own meaning ─────────────────────────────────────────────
  template <class F>
  void in_common(F work) {
    if (as_one) return work();
    if (!block.all_here()) no_meaning("a tile operator for some of the threads");
    Threads all = std::exchange(block.here, Threads(size_t(block.count)));
    lead = std::find(all.begin(), all.end(), 1) - all.begin();
    block.here[size_t(lead)] = as_one = true;
    work();
    block.here = all;
    as_one = false;
  }
  template <class F>
  void each_element(const Region& r, F work) {
    std::vector<int64_t> min, extent;
    int64_t size = 1;
    for (auto& range : r.ranges) {
      min.push_back(block.integer(lead, range.min));
      extent.push_back(block.integer(lead, range.extent));
      size *= extent.back();
    }
    for (int64_t n = 0; n < size; n++) {
      std::vector<int64_t> at = min;
      for (int64_t d = int64_t(at.size()) - 1, left = n; d >= 0; left /= extent[size_t(d)], d--)
        at[size_t(d)] += left % extent[size_t(d)];
      work(n, block.memory.place(r.buffer, at));
    }
  }
  void tile(const Tile& n) {
    in_common([&] {
      row_of(n).eval(
          n, f,
          {.read =
               [&](const Region& r) {
                 DType t = f[r.buffer].dtype;
                 Array a = make_array(t, region_shape(r));
                 each_element(r, [&](int64_t i, int64_t at) {
                   Value v = block.memory.get(lead, r.buffer, at);
                   t.is_float() ? void(a.floats[size_t(i)] = v.f)
                                : void(a.ints[size_t(i)] = int64_t(uint64_t(v.i)));
                 });
                 return a;
               },
           .write =
               [&](const Region& r, const Array& given) {
                 DType t = f[r.buffer].dtype;
                 const Array a = given.dtype == t ? given : as_type(given, t);
                 each_element(r, [&](int64_t i, int64_t at) {
                   block.memory.put(lead, r.buffer, at,
                                    t.is_float() ? Value{0, Evaluator::rounded(a.floats[size_t(i)], t)}
                                                 : block.memory.whole(wrap_int(a.ints[size_t(i)], t), t));
                 });
               },
           .value =
               [&](const Expr& e) {
                 Array a = make_array(e->dtype, {});
                 Value v = block.value(lead, e);
                 e->dtype.is_float() ? void(a.floats[0] = v.f) : void(a.ints[0] = int64_t(uint64_t(v.i)));
                 return a;
               },
           .apply = {}});
    });
  }

  // ── blocks ──────────────────────────────────────────────────────────────────────────────────────────
  void bind_call() {
    Trial& trial = block.memory.trial;
    for (size_t i = 0; i < f.params.size(); i++) {
      auto& p = f.params[i];
      if (p.var) of_call[p.var.get()] = {Wide(trial.scalars[i]), trial.scalars[i]};
      for (size_t d = 0; p.buffer && d < f[p.buffer].shape.size(); d++)
        if (f[p.buffer].shape[d].as<Var>())
          of_call[f[p.buffer].shape[d].get()] = {Wide(trial.tensors[i].shape[d]), 0};
    }
  }
  void run_block(const std::map<const ExprNode*, Value>& vars) {
    block.threads.assign(size_t(block.count), Evaluator{.vars = vars, .strict = !wraps});
    for (int64_t t = 0; t < block.count; t++) {
      block.threads[size_t(t)].loads = [this, t](const Load& n) {
        if (n.mask && !block.value(t, n.mask).i) return Value{};
        return block.memory.get(t, n.buffer, block.place(t, n.buffer, n.index));
      };
      block.threads[size_t(t)].calls = [this, t](const Call& c) { return block.call(t, c); };
    }
    block.here.assign(size_t(block.count), 1);
    block.team = block.count;
    block.named.clear();
    returned.assign(size_t(block.count), 0);
    run(block.kernel->body);
  }
  void run() {
    bind_call();
    for (auto& k : f.kernels) {
      block.kernel = &k;
      block.count = thread_count(k);
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
  auto asks = [](const Call& c) { return tl::is_thread_level(*c.intrinsic); };
  return std::ranges::any_of(f.kernels, [&](auto& k) { return contains(k.body, asks); });
}

void run_lockstep(const Function& f, Trial& trial, bool wraps) { Machine{f, {f, {f, trial}}, wraps}.run(); }

}  // namespace tl::test
