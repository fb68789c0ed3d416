// Small functions at level machine, built by hand, and what is asked of their text.
#pragma once
#include <doctest/doctest.h>

#include "base/error.h"
#include "codegen/codegen.h"
#include "ir/build.h"
#include "runtime/device.h"
#include "runtime/find.h"

#include <functional>

namespace tl {

struct Machine {
  Function f;
  Kernel k;

  explicit Machine(std::string name, std::vector<int64_t> threads = {128}) {
    f.name = std::move(name);
    k.threads = std::move(threads);
    k.thread = var("tx");
  }
  BufferId tensor(std::string name, DType type, std::vector<Expr> shape, std::vector<Expr> strides = {}) {
    BufferId id = f.add({.name = name,
                         .dtype = type,
                         .shape = std::move(shape),
                         .strides = std::move(strides),
                         .scope = Scope::global,
                         .span = {},
                         .layout = {}});
    f.params.push_back({.name = std::move(name), .buffer = id, .var = {}});
    return id;
  }
  Expr scalar(std::string name, DType type) {
    Expr v = var(name, type);
    f.params.push_back({.name = std::move(name), .buffer = {}, .var = v});
    return v;
  }
  BufferId on_chip(std::string name, Scope scope, DType type, int64_t elements, int64_t address = -1) {
    return f.add({.name = std::move(name),
                  .dtype = type,
                  .shape = {imm(elements)},
                  .strides = {},
                  .scope = scope,
                  .span = {},
                  .layout = {},
                  .address = address,
                  .elements = elements});
  }
  BufferId local_scalar(std::string name, DType type) {
    return f.add({.name = std::move(name),
                  .dtype = type,
                  .shape = {},
                  .strides = {},
                  .scope = Scope::local,
                  .span = {},
                  .layout = {},
                  .elements = 1});
  }
  Expr block(std::string hint, Expr count) {
    k.grid_vars.push_back(var(std::move(hint)));
    k.grid.push_back(std::move(count));
    return k.grid_vars.back();
  }
  Expr at(BufferId b, Expr index, Expr mask = {}) const {
    return load(f, b, {std::move(index)}, {}, std::move(mask));
  }
  Expr address(BufferId b, Expr index) const { return call(address_of, {at(b, std::move(index))}); }
  // Ends the kernel that was being built.
  Machine& body(std::vector<Stmt> stmts) {
    k.body = tl::block(std::move(stmts));
    f.kernels.push_back(k);
    return *this;
  }
};

inline Stmt put(BufferId b, Expr index, Expr value, Expr mask = {}) {
  return store(b, {std::move(index)}, std::move(value), {}, std::move(mask));
}
inline Expr range_from(Expr base, int lanes) { return ramp(base, imm(1, base->dtype), lanes); }
inline Expr i32_of(const Expr& e) { return cast(i32, e); }

// The kernels of a CUDA text, without the helpers before them.
inline std::string kernels_of(const Program& p) {
  size_t at = p.text.find("extern \"C\"");
  return at == std::string::npos ? p.text : p.text.substr(at);
}

inline bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// NVRTC takes the text for each chip.
using Chips = std::vector<const char*>;
inline const Chips every_chip = {"sm_80", "sm_86",  "sm_89",
                                 "sm_90", "sm_100", "sm_120"};  // with mma.m16n8k16
inline const Chips oldest_and_newest = {"sm_75", "sm_121"};
inline std::vector<Resources> compiles(const Function& f, const Chips& chips = every_chip) {
  std::vector<Resources> all;
  if (!find_nvrtc()) MESSAGE("NVRTC is not installed: ", f.name, " was not compiled");
  for (const char* chip : chips) {
    if (!find_nvrtc()) break;
    Program p = print_cuda(f, *find_target(chip));
    CAPTURE(p.text);
    auto binary = build(p);
    CHECK_EQ(binary.resources.size(), f.kernels.size());
    all.insert(all.end(), binary.resources.begin(), binary.resources.end());
  }
  return all;
}

// …, no entry spills, and no array is in memory.
inline void compiles_cleanly(const Function& f, const Chips& chips = every_chip) {
  for (auto& r : compiles(f, chips)) {
    CAPTURE(r.entry);
    CHECK_EQ(r.stack_bytes, 0);
    CHECK_EQ(r.spill_stores, 0);
    CHECK_EQ(r.spill_loads, 0);
    CHECK_GT(r.registers, 0);
  }
}

}  // namespace tl
