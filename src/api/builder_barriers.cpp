// Barriers in memory (mbarriers) that a program makes, signals and waits for itself.  Whoever makes one need
// not say who initialises it: all words of a kernel are initialised where it begins, by one thread, and no
// thread goes on before that.
#include "api/builder.h"
#include "base/error.h"
#include "ir/rewrite.h"
#include "pass/barrier_words.h"
#include "target/target.h"

namespace tl {
namespace {

constexpr int64_t most_arrivals = (1 << 20) - 1, most_bytes = (1 << 20) - 1;  // that a phase can count

const Intrinsic& instruction(std::string_view name) {
  const Intrinsic* row = find_instr(name);
  internal_check(row, "an instruction of barriers");
  return *row;
}

}  // namespace

Buffer Builder::barriers(const std::string& what, const std::string& name,
                         const std::vector<int64_t>& counts) {
  require_kernel(what);
  refuse_in_function();
  if (frames.size() > 1)
    fail(here(),
         "{}: the barriers of a kernel are made where it begins, once and for all of its threads: move this "
         "out of the loop, branch or team on line {}",
         what, frames.back().span.line);
  if (counts.empty()) fail(here(), "{}: a list of barriers has at least one", what);
  for (int64_t n : counts)
    if (n < 1 || n > most_arrivals)
      fail(here(), "{}: the arrivals of a phase are 1 to {}, not {}", what, most_arrivals, n);
  BufferId words = draft->function.add({.name = name,
                                        .dtype = u64,
                                        .shape = {imm(int64_t(counts.size()))},
                                        .scope = Scope::shared,
                                        .span = here()});
  Buffer buffer{draft, words};
  keep_rows(buffer, "the words of barriers");
  barrier_counts.emplace_back(words, counts);
  return buffer;
}

bool Builder::is_barrier(BufferId b) const {
  return std::ranges::any_of(barrier_counts, [&](auto& made) { return made.first == b; });
}

void Builder::refuse_barrier(const Buffer& buffer, std::string_view verb) const {
  if (is_barrier(buffer.id))
    fail(
        here(),
        "{} {}, which is a barrier: its words are no numbers; T.barrier_arrive, T.barrier_wait and the other "
        "functions of barriers take it",
        verb, buffer.info().name);
}

void Builder::count_arrivals(const std::string& what, const Buffer& words, int64_t number, int64_t count) {
  check_owner(words);
  if (frames.size() != 1)
    fail(here(), "{}: a barrier is initialised where the kernel begins, outside of loops and branches", what);
  if (count < 1 || count > most_arrivals)
    fail(here(), "{}: the arrivals of a phase are 1 to {}, not {}", what, most_arrivals, count);
  for (auto& [id, counts] : barrier_counts)
    if (id == words.id) counts.at(size_t(number)) = count;
}

Expr Builder::word_of(const std::string& what, const Buffer& words, const std::vector<Value>& index) const {
  require_kernel(what);
  check_owner(words);
  const BufferInfo& info = words.info();
  if (!is_barrier(words.id))
    fail(here(), "{}: {} is not a barrier: make one with T.alloc_barrier(arrivals)", what, describe(words));
  int64_t count = *as_int(info.shape[0]);
  if (index.empty() && count > 1)
    fail(here(), "{}: {} is {} barriers: say which, {}[i]", what, info.name, count, info.name);
  std::vector<Value> at = index.empty() ? std::vector<Value>{int64_t(0)} : index;
  return tl::address(tl::load(draft->function, words.id, index_of(words, at, what), here()), "", here());
}

// 32 bits, of an integer.
Expr Builder::word_value(const std::string& what, const Value& value, int64_t most) const {
  Expr e = strong(value, here());
  bool fits = (e->dtype.is_int() || e->dtype.is_bool()) && e->dtype.lanes == 1;
  if (!fits) fail(here(), "{} is an integer, not {}", what, to_string(e->dtype));
  if (auto n = as_int(e); n && (*n < 0 || *n > most))
    fail(here(), "{} is 0 {} {}, not {}", what, most == 1 ? "or" : "to", most, *n);
  return cast(i32, e, here());
}

std::vector<Expr> Builder::signal_operands(const std::string& what, const Buffer& words,
                                           const std::vector<Value>& index,
                                           const std::optional<Value>& bytes) const {
  std::vector<Expr> operands{word_of(what, words, index)};
  if (bytes) operands.push_back(word_value(what + ": the number of bytes", *bytes, most_bytes));
  return operands;
}

void Builder::signal_barrier(const std::string& what, std::string_view row, const Buffer& words,
                             const std::vector<Value>& index, const std::optional<Value>& bytes) {
  refuse_in_function();
  instruct(row, signal_operands(what, words, index, bytes));
}

Expr Builder::arrive_for_state(const std::string& what, std::string_view row, const Buffer& words,
                               const std::vector<Value>& index, const std::optional<Value>& bytes) {
  refuse_in_function();
  return let("state", tl::call(instruction(row), signal_operands(what, words, index, bytes), here()));
}

// Of the phase of that state.
Expr Builder::has_ended(const std::string& what, const Buffer& words, const std::vector<Value>& index,
                        const Value& state) const {
  Expr word = word_of(what, words, index), given = strong(state, here());
  if (given->dtype != u64 || is_const(given))
    fail(here(),
         "{}: the state of a phase is the uint64 that T.mbarrier_arrive_state gives, not {}; "
         "T.mbarrier_wait_parity waits for a phase by its parity",
         what, as_int(given) ? std::to_string(*as_int(given)) : to_string(given->dtype));
  return tl::call(instruction("mbarrier_try_wait_state"), {word, given}, here());
}

void Builder::wait_for_state(const std::string& what, const Buffer& words, const std::vector<Value>& index,
                             const Value& state) {
  refuse_in_function();
  Expr over = has_ended(what, words, index, state);
  emit(while_loop(unary(UnaryOp::logical_not, over), block({}, here()), here()));
}

Expr Builder::test_state(const std::string& what, const Buffer& words, const std::vector<Value>& index,
                         const Value& state) {
  refuse_in_function();
  return let("ended", has_ended(what, words, index, state));
}

void Builder::wait_barrier(const std::string& what, const Buffer& words, const std::vector<Value>& index,
                           const Value& parity) {
  refuse_in_function();
  Expr word = word_of(what, words, index), phase = word_value(what + ": the parity of a phase", parity, 1);
  Expr over = tl::call(instruction("mbarrier_try_wait"), {word, phase}, here());
  emit(while_loop(unary(UnaryOp::logical_not, over), block({}, here()), here()));
}

// What stands in front of the kernel's body: the words, and who initialises them.
std::vector<Stmt> Builder::begin_barriers(Span span) {
  if (barrier_counts.empty()) return {};
  std::vector<BarrierWords> all;
  for (auto& [words, counts] : barrier_counts) all.push_back({words, counts});
  barrier_counts.clear();
  return initialised(draft->function, all, span);
}

}  // namespace tl
