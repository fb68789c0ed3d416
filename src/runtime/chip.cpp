// Which x86-64 levels this processor and its operating system run, by cpuid alone.  The names are LLVM's; a
// level is the set of features that LLVM may use when given the name.
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>

#include "runtime/device.h"

namespace tl {
namespace {

enum Feature : uint32_t {
  avx2 = 1,
  avx512 = 2,
  vnni = 4,
  bf16 = 8,
  icelake = 16,
  fp16 = 32,
  amx = 64,
  avx_vnni = 128
};

struct Level {
  const char* name;
  uint32_t needs;
  bool is_default;  // codegen tells these apart; the others may be asked for by name
};
constexpr uint32_t v4 = avx2 | avx512, spr = v4 | vnni | bf16 | icelake | fp16 | amx | avx_vnni;
constexpr Level levels[] = {
    {"sapphirerapids", spr, true},
    {"graniterapids", spr, false},
    {"cooperlake", v4 | vnni | bf16, true},
    {"znver5", v4 | vnni | bf16 | icelake | avx_vnni, false},
    {"znver4", v4 | vnni | bf16 | icelake, false},
    {"icelake-server", v4 | vnni | icelake, false},
    {"cascadelake", v4 | vnni, false},
    {"skylake-avx512", v4, true},
    {"x86-64-v4", v4, false},
    {"haswell", avx2, true},
    {"broadwell", avx2, false},
    {"skylake", avx2, false},
    {"znver1", avx2, false},
    {"znver2", avx2, false},
    {"znver3", avx2, false},
    {"x86-64-v3", avx2, false},
    {"x86-64", 0, true},
};

#if defined(__x86_64__)
struct Cpuid {
  unsigned a = 0, b = 0, c = 0, d = 0;
};
Cpuid cpuid(unsigned leaf, unsigned subleaf) {
  Cpuid r;
  __get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d);
  return r;
}

bool all(unsigned word, std::initializer_list<int> bits) {
  return std::ranges::all_of(bits, [&](int bit) { return word >> bit & 1; });
}

uint64_t saved_state() {  // which registers the operating system keeps for us
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t(high) << 32 | low;
}

uint32_t host_features() {
  Cpuid base = cpuid(1, 0), more = cpuid(7, 0), most = cpuid(7, 1), extended = cpuid(0x80000001, 0);
  if (!all(base.c, {27, 28})) return 0;  // OSXSAVE, AVX
  uint64_t saved = saved_state();
  uint32_t has = 0;
  bool ymm = (saved & 6) == 6, zmm = (saved & 0xe6) == 0xe6, tiles = (saved >> 17 & 3) == 3;
  // FMA, MOVBE, POPCNT, F16C · BMI1, AVX2, BMI2 · LZCNT
  if (ymm && all(base.c, {12, 22, 23, 29}) && all(more.b, {3, 5, 8}) && all(extended.c, {5})) has |= avx2;
  if (zmm && all(more.b, {16, 17, 28, 30, 31})) has |= avx512;  // F, DQ, CD, BW, VL
  if (zmm && all(more.c, {11})) has |= vnni;
  if (zmm && all(most.a, {5})) has |= bf16;
  // IFMA · VBMI, VBMI2, GFNI, VAES, VPCLMULQDQ, BITALG, VPOPCNTDQ
  if (zmm && all(more.b, {21}) && all(more.c, {1, 6, 8, 9, 10, 12, 14})) has |= icelake;
  if (zmm && all(more.d, {23})) has |= fp16;
  if (tiles && all(more.d, {22, 24, 25})) has |= amx;
  if (ymm && all(most.a, {4})) has |= avx_vnni;
  return has;
}
#else
uint32_t host_features() { return 0; }
#endif

}  // namespace

std::string host_cpu() {
  static const uint32_t has = host_features();
  for (const Level& level : levels)
    if (level.is_default && (has & level.needs) == level.needs) return level.name;
  return "x86-64";
}

bool cpu_runs(const std::string& chip) {
  static const uint32_t has = host_features();
  for (const Level& level : levels)
    if (level.name == chip) return (has & level.needs) == level.needs;
  return false;
}

std::vector<std::string> known_cpus() {
  std::vector<std::string> names;
  for (const Level& level : levels) names.push_back(level.name);
  return names;
}

}  // namespace tl
