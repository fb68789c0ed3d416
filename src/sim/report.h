// What the simulator found wrong with a program, and what the run cost: plain values, and their text.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "sim/counters.h"

namespace tl {

struct Finding {
  enum class Kind : uint8_t {
    race,        // two accesses, at least one a write, that nothing orders
    unwritten,   // a read of unwritten memory
    outside,     // an access outside of its buffer
    misaligned,  // an address that the access's width does not divide
    barrier,     // a barrier that not all of its threads reach, or with different counts
    divergence,  // an instruction of a whole warp under a partial mask
    overflow,    // an index that leaves its type
    fence,       // the asynchronous proxy reads what threads have written without a fence
    deadlock,    // no thread can go on
    livelock,    // a loop waits for memory that no thread will write, or goes round for ever
    timeout,     // the time of the call is over
    assertion,   // T.device_assert, T.assume
    fault,       // anything else that stops a thread: a division by zero, …
  } kind = Kind::fault;
  std::string text = {};       // one sentence: which thread, where, how to fix it
  Span span = {}, other = {};  // the user's lines: of this access, and of the one that it meets
  std::string statement = {}, other_statement = {};  // the same of level machine
  std::string block = {};                            // "block (1, 0) of main"
  int64_t thread = -1, other_thread = -1;
  std::string buffer = {};
  int64_t index = -1;    // of the element
  uint64_t address = 0;  // shared memory: within the block's; else of the host
  int64_t times = 1;     // found there so often
  bool between_blocks = false;

  bool operator==(const Finding&) const = default;
};
std::string_view name_of(Finding::Kind kind);

// Elements of a tensor allocated for the call that the run left unwritten, and that the caller gets.
struct UnwrittenOutput {
  std::string tensor;
  Span span;                        // where it is declared
  std::vector<int64_t> first = {};  // the first such element
  int64_t elements, of;             // how many, of how many
};

struct SimulationReport {
  std::vector<Finding> findings = {};
  std::vector<UnwrittenOutput> unwritten_outputs =
      {};                             // of a run of all blocks that found nothing: no fault, but rarely meant
  uint64_t seed = 0;                  // of the run that found them, to be replayed
  int64_t schedules = 1, blocks = 0;  // that were run
  Counters counters = {};

  std::string details() const;  // the text below the first finding: its statements, the other findings
};

// The program ran, and is wrong.
struct SimulationError : CompileError {
  SimulationReport report;
  explicit SimulationError(SimulationReport report);
};

// What stops a thread, and the run with it.
struct Fault : CompileError {
  Finding finding;
  explicit Fault(Finding f) : CompileError(f.span, f.text), finding(std::move(f)) {}
};
template <class... A>
[[noreturn]] void stop(Finding::Kind kind, Span span, fmt::format_string<A...> format, A&&... args) {
  throw Fault(Finding{.kind = kind, .text = fmt::format(format, std::forward<A>(args)...), .span = span});
}

}  // namespace tl
