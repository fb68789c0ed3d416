// What calls give and do among threads in step.  What is copied beside the threads is copied where it is
// begun, so that of all waits only those for barriers in memory can fail.
#include "fuzz/lockstep_block.h"

namespace tl::test {

// PTX's shfl: the lane that is read, the own one where that lies outside of its run of `width`.
int64_t LockstepBlock::source(std::string_view name, int64_t thread, int64_t number, int64_t width) {
  int64_t lane = thread % 32, first = lane & ~(width - 1), last = first | (width - 1);
  int64_t other = name == "shfl_sync"       ? first | (number & (width - 1))
                  : name == "shfl_xor_sync" ? lane ^ number
                  : name == "shfl_up_sync"  ? lane - number
                                            : lane + number;
  bool inside = name == "shfl_up_sync" ? other >= first : other <= last;
  return thread - lane + (inside ? other : lane);
}

Value LockstepBlock::shuffle(int64_t thread, const Call& c) {
  int64_t from = source(c.intrinsic->name, thread, integer(thread, c.args[1]), integer(thread, c.args[2]));
  if (from >= count || !here[size_t(from)]) no_meaning("a shuffle from a thread that is not there");
  return value(from, c.args[0]);
}

Value LockstepBlock::vote(int64_t thread, const Call& c) {
  uint32_t mask = uint32_t(integer(thread, c.args[1])), yes = 0, equal = 0, among = 0;
  Wide mine = value(thread, c.args[0]).i;
  for (int64_t lane = 0, first = thread - thread % 32; lane < 32; lane++) {
    if (!(mask >> lane & 1)) continue;
    if (first + lane >= count || !here[size_t(first + lane)]) no_meaning("a vote without one of its threads");
    Wide v = value(first + lane, c.args[0]).i;
    among |= 1u << lane;
    yes |= uint32_t(v != 0) << lane;
    equal |= uint32_t(v == mine) << lane;
  }
  std::string_view name = c.intrinsic->name;
  if (name == "any_sync") return {yes != 0, 0};
  if (name == "all_sync") return {yes == among, 0};
  if (name == "ballot_sync") return {Wide(yes), 0};
  return {Wide(name == "match_any_sync" ? equal : equal == among ? among : 0), 0};
}

Value LockstepBlock::barrier_vote(const Call& c) {
  int64_t yes = 0;
  if (!all_here()) no_meaning("a barrier that not all threads reach");
  each([&](int64_t t) { yes += value(t, c.args[0]).i != 0; });
  std::string_view name = c.intrinsic->name;
  return {name == "sync_threads_count" ? Wide(yes) : name == "sync_threads_and" ? yes == count : yes > 0, 0};
}

// The old value; the updates of one statement happen thread by thread.
Value LockstepBlock::atomic(int64_t thread, const Call& c) {
  const Load& where = *place_of(c.args[0]);
  int64_t at = place(thread, where.buffer, where.index);
  Value old = memory.get(thread, where.buffer, at), v = value(thread, c.args[1]);
  using Atomic = Intrinsic::Atomic;
  Atomic kind = c.intrinsic->atomic;
  if (kind == Atomic::load) return old;
  BinaryOp op = kind == Atomic::add   ? BinaryOp::add
                : kind == Atomic::max ? BinaryOp::max
                : kind == Atomic::min ? BinaryOp::min
                                      : BinaryOp::bit_or;
  DType t = f[where.buffer].dtype;
  Value now = kind == Atomic::store ? v
              : t.is_float()        ? Evaluator::number(op, old.f, v.f, t)
                                    : Value{Evaluator{}.integer(op, old.i, v.i, t), 0};
  memory.put(thread, where.buffer, at, now);
  return old;
}

std::pair<BufferId, int64_t> LockstepBlock::key(int64_t thread, const Expr& address) {
  return {place_of(address)->buffer, place(thread, place_of(address)->buffer, place_of(address)->index)};
}

MemoryBarrier& LockstepBlock::barrier(int64_t thread, const Expr& address) {
  auto it = barriers.find(key(thread, address));
  if (it == barriers.end()) no_meaning("a barrier in memory that nobody has made");
  return it->second;
}

void LockstepBlock::change(int64_t thread, const Expr& address, int64_t arrivals, int64_t bytes) {
  if (!barrier(thread, address).change(arrivals, bytes))
    no_meaning("more arrivals at a barrier in memory than it counts");
}

// (to, from): what is not given is 0.
void LockstepBlock::copy(int64_t thread, const Call& c, int64_t bytes, int64_t given) {
  auto [to, at] = key(thread, c.args[0]);
  auto [from, source] = key(thread, c.args[1]);
  int64_t size = f[to].dtype.bytes();
  if (f[from].dtype != f[to].dtype || bytes % size || given % size || given < 0 || given > bytes || at < 0)
    no_meaning("a copy of parts of elements");
  for (int64_t i = 0; i < bytes / size; i++) {
    bool has = i < given / size;
    if (has && (source < 0 || (memory.tensor(from) && source + i >= memory.tensor(from)->size())))
      no_meaning("a copy from outside of a tensor");
    memory.put(thread, to, at + i, has ? memory.get(thread, from, source + i) : Value{});
  }
}

// Groups, their waits and fences have nothing to do.
void LockstepBlock::beside(int64_t thread, const Call& c) {
  std::string_view name = c.intrinsic->name;
  auto argument = [&](size_t i) { return integer(thread, c.args[i]); };
  if (name == "mbarrier_init") {
    barriers.insert_or_assign(key(thread, c.args[0]), MemoryBarrier{argument(1), argument(1)});
  } else if (name == "mbarrier_inval") {
    barriers.erase(key(thread, c.args[0]));
  } else if (name == "mbarrier_arrive" || name == "cp_async_mbarrier_arrive_noinc") {
    change(thread, c.args[0], 1, 0);
  } else if (name == "mbarrier_expect_tx" || name == "mbarrier_arrive_expect_tx") {
    change(thread, c.args[0], name == "mbarrier_arrive_expect_tx", argument(1));
  } else if (name.starts_with("mbarrier_arrive_remote")) {  // the block is its cluster
    change(thread, c.args[0], 1, 0);
  } else if (name.starts_with("cluster_store_")) {
    copy(thread, c, std::stoll(std::string(name.substr(14))), std::stoll(std::string(name.substr(14))));
  } else if (name == "cp_async_bulk_cluster") {
    copy(thread, c, argument(2), argument(2));
    change(thread, c.args[4], 0, -argument(2));
  } else if (name == "cp_async_bulk_load" || name == "cp_async_bulk_store") {
    copy(thread, c, argument(2), argument(2));
    if (c.args.size() > 3) change(thread, c.args[3], 0, -argument(2));
  } else if (size_t digit = name.find_first_of("0123456789");
             name.starts_with("cp_async_") && digit != name.npos) {
    int64_t bytes = std::stoll(std::string(name.substr(digit)));
    copy(thread, c, bytes, c.args.size() > 2 ? argument(2) : bytes);
  }
}

Value LockstepBlock::call(int64_t thread, const Call& c) {
  std::string_view name = c.intrinsic->name;
  if (name == "elect_sync") return {thread % 32 == 0, 0};
  if (name.starts_with("mbarrier_arrive_") && name.ends_with("_state")) {
    int64_t state = barrier(thread, c.args[0]).phase;
    change(thread, c.args[0], 1, c.args.size() > 1 ? integer(thread, c.args[1]) : 0);
    return {state, 0};
  }
  if (waits(name) && name.ends_with("_state"))
    return {barrier(thread, c.args[0]).phase > integer(thread, c.args[1]), 0};
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
  if (c.intrinsic->atomic != Intrinsic::Atomic::none) return atomic(thread, c);
  if (c.intrinsic->eval) return function(thread, c);
  throw std::logic_error(fmt::format("{} is not known here", name));
}

Value LockstepBlock::function(int64_t thread, const Call& c) {
  std::vector<double> args;
  for (auto& a : c.args) {
    Value v = value(thread, a);
    args.push_back(a->dtype.is_float() ? v.f : double(v.i));
  }
  double result = c.intrinsic->eval(args.data());
  return c.dtype.is_float() ? Value{0, Evaluator::rounded(result, c.dtype)} : Value{Wide(result), 0};
}

}  // namespace tl::test
