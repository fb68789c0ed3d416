// Functions at level machine, written as text, run in the simulator on vectors.
#pragma once
#include <doctest/doctest.h>

#include "base/error.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ops/op.h"
#include "sim/run.h"

namespace tl {

// Also of functions that a later version's programs call, and that the simulator knows already.
inline const Intrinsic* find_row(std::string_view name) {
  static const Intrinsic rows[] = {{.name = "shfl", .arity = 2, .effect = Intrinsic::Effect::thread},
                                   {.name = "shfl_xor", .arity = 2, .effect = Intrinsic::Effect::thread},
                                   {.name = "shfl_up", .arity = 2, .effect = Intrinsic::Effect::thread},
                                   {.name = "shfl_down", .arity = 2, .effect = Intrinsic::Effect::thread}};
  for (auto& row : rows)
    if (row.name == name) return &row;
  return find_instr(name);
}

inline Function machine_function(std::string_view text) {
  Function f = parse(text, "machine.ir", {find_op_info, find_row});
  auto finding = check(f, Level::machine);
  CHECK_EQ(finding ? finding->text : "", "");
  return f;
}

// One vector per parameter, in row-major order.
template <class... T>
void simulate(std::string_view text, std::vector<T>&... tensors) {
  auto simulation = prepare_simulation(machine_function(text), *find_target("sm_80"));
  std::vector<HostArg> args;
  (args.push_back({.data = tensors.data()}), ...);
  run_simulation(*simulation, args);
}

// The same of a program that is wrong: whatever comes of it.
template <class... T>
void simulate_unwatched(std::string_view text, std::vector<T>&... tensors) {
  auto simulation = prepare_simulation(machine_function(text), *find_target("sm_80"));
  std::vector<HostArg> args;
  (args.push_back({.data = tensors.data()}), ...);
  run_simulation(*simulation, args, {.watch = false});
}

// "line:column: text" of what the simulator finds; "" if nothing.
template <class... T>
std::string fault_of(std::string_view text, std::vector<T>&... tensors) {
  try {
    simulate(text, tensors...);
  } catch (const CompileError& e) {
    return fmt::format("{}:{}: {}", e.span.line, e.span.column, e.text);
  }
  return "";
}

inline bool contains(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

template <class T>
std::vector<T> counted(size_t n) {
  std::vector<T> v(n);
  for (size_t i = 0; i < n; i++) v[i] = T(i);
  return v;
}

}  // namespace tl
