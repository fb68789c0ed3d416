// Compilation: a Function at tile level through every pass to the text of a Program.
#pragma once
#include <functional>

#include "codegen/codegen.h"
#include "ir/verify.h"
#include "ops/op.h"

namespace tl {

// Everything a user may set that can change the result; hashed into the cache key by fingerprint().
struct Options {
  std::vector<std::string> skip;   // passes left out
  std::string stop_after;          // the last pass to run; empty: all
  std::vector<std::string> flags;  // for the device compiler
  bool fast_math = false;
  bool deterministic = false;    // refuse what depends on the order of atomic accesses
  bool strict = false;           // refuse what is asked for and would be done less well: see Note::asked
  bool own_barriers = false;     // those between accesses of its own buffers are left to the program
  bool line_directives = false;  // the text says which line of the user's each statement is from
  bool timeline = false;         // roles write down when they wait: pass/role_stamps.h
};
std::string fingerprint(const Options& options);

struct PhaseTime {
  std::string name;
  double ms = 0;
};

struct Compiled {
  Function function;     // after the last pass
  Program program = {};  // empty if stopped early
  std::vector<PhaseTime> phases = {};
};

// Called after each pass with its number, name and result.
using Dump = std::function<void(int number, std::string_view pass, const Function& f)>;

std::vector<std::string_view> pass_names();
Compiled compile(Function f, const Target& target, const Options& options = {}, const Dump& dump = {});

}  // namespace tl
