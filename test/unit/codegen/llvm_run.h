// Functions at level machine, printed as LLVM text, compiled and run here on plain memory.
#pragma once
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "unit/codegen/machine.h"

namespace tl {

// The CPU levels that this machine runs; empty, and said, where there is no libLLVM.
inline std::vector<const Target*> cpu_targets() {
  std::vector<const Target*> out;
  if (!find_llvm()) {
    MESSAGE("libLLVM is not installed: no CPU code was compiled");
    return out;
  }
  for (auto* t : all_targets())
    if (!t->has_threads() && cpu_runs(std::string(t->name))) out.push_back(t);
  return out;
}

// One of them, in turn; all with TL_FULL.
inline std::vector<const Target*> cpu_targets_in_turn(int64_t turn) {
  std::vector<const Target*> all = cpu_targets();
  if (std::getenv("TL_FULL") || all.empty()) return all;
  return {all[size_t(turn) % all.size()]};
}

// What an entry takes of these slots, which are in order: parameters, workspaces, integers of no parameter of
// their own.
inline std::vector<uint64_t> slots_of(const Program& p, size_t entry, const std::vector<uint64_t>& slots) {
  using From = EntrySpec::Arg::From;
  std::vector<uint64_t> taken;
  for (auto& arg : p.entries[entry].args) {
    size_t at = size_t(arg.index);
    if (arg.from != From::param) at += p.params.size();
    if (arg.from == From::integer) {
      at = p.params.size() + p.workspaces.size();
      for (int i = 0; i < arg.index; i++) at += p.integers[size_t(i)].from != IntegerSource::From::value;
    }
    taken.push_back(slots.at(at));
  }
  return taken;
}

// One launch of every kernel with these slots; grid as given.
inline void run_slots(const Function& f, const Target& target, const std::vector<uint64_t>& slots,
                      std::array<int64_t, 3> grid = {1, 1, 1}) {
  Program p = print_llvm(f, target);
  CAPTURE(p.text);
  Module module = cpu_device().load(p, build(p));
  for (size_t i = 0; i < p.entries.size(); i++)
    cpu_device().launch(module, i, slots_of(p, i, slots), grid, 0);
}
template <class... T>
void run_on(const Function& f, const Target& target, std::vector<T>&... data) {
  run_slots(f, target, {uint64_t(data.data())...});
}

// Memory that ends where no one may read: what an access beyond the end does is not left to chance.
template <class T>
struct Guarded {
  static constexpr size_t page = 4096;
  char* memory;
  size_t pages, count;
  explicit Guarded(size_t count) : pages((count * sizeof(T) + page - 1) / page + 1), count(count) {
    void* at = mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(at != MAP_FAILED);
    memory = static_cast<char*>(at);
    REQUIRE(mprotect(memory + (pages - 1) * page, page, PROT_NONE) == 0);
  }
  ~Guarded() { munmap(memory, pages * page); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  T* data() { return reinterpret_cast<T*>(memory + (pages - 1) * page) - count; }
  T& operator[](size_t i) { return data()[i]; }
};

// Numbers that a formula can tell apart, the same on every machine.
struct Numbers {
  uint64_t state = 0x9E3779B97F4A7C15;
  uint64_t next() {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
  }
  double between(double low, double high) { return low + (high - low) * double(next() >> 11) * 0x1p-53; }
};

// Element i of an array of some type, as a number; integers keep all their bits in `whole`.
inline void put_number(DType t, void* at, size_t i, double x, int64_t whole) {
  char* p = static_cast<char*>(at) + i * size_t(t.bytes());
  uint64_t bits = uint64_t(whole);
  if (t == f64) std::memcpy(&bits, &x, 8);
  if (t == f32) {
    float y = float(x);
    bits = 0;
    std::memcpy(&bits, &y, 4);
  }
  if (t == f16) bits = f16_bits(x);
  if (t == bf16) bits = bf16_bits(x);
  std::memcpy(p, &bits, size_t(t.bytes()));
}
inline int64_t get_whole(DType t, const void* at, size_t i) {
  int64_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(at) + i * size_t(t.bytes()), size_t(t.bytes()));
  return t.is_int() ? wrap_int(bits, t) : bits;
}
inline double get_number(DType t, const void* at, size_t i) {
  int64_t bits = get_whole(t, at, i);
  if (t == f16) return f16_value(uint16_t(bits));
  if (t == bf16) return bf16_value(uint16_t(bits));
  double d = 0;
  float s = 0;
  std::memcpy(&d, &bits, 8);
  std::memcpy(&s, &bits, 4);
  if (t.is_float()) return t.bits == 64 ? d : double(s);
  return t == u64 ? double(uint64_t(bits)) : double(bits);
}

}  // namespace tl
