// CUDA text is run without a GPU: where a block has one thread and its kernel no instruction of the chip, the
// text is ordinary C++, of which the host's compiler makes code.  Signed overflow, which C++ leaves
// undefined, ends the test.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "base/error.h"
#include "fuzz/integer_text.h"
#include "fuzz/seeds.h"
#include "fuzz/tile_program.h"
#include "trial.h"

using namespace tl;

namespace {

constexpr std::string_view prelude = R"(
#include <cmath>
#include <cstdint>
#include <cstring>
#define __device__
#define __global__
#define __shared__
#define __forceinline__ inline
#define __launch_bounds__(n)
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_assume(fact) ((fact) ? void() : __builtin_trap())
using std::isnan;
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
struct index3 { unsigned x, y, z; };
static index3 blockIdx, threadIdx;
static inline void __syncthreads() {}
static inline void __syncwarp() {}
template <class To, class From> static To same_bits(From from) { To to; std::memcpy(&to, &from, sizeof to); return to; }
static inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
static inline float __int_as_float(int bits) { return same_bits<float>(bits); }
static inline int __float_as_int(float x) { return same_bits<int>(x); }
static inline double __longlong_as_double(long long bits) { return same_bits<double>(bits); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
)";

struct Printed {
  fuzz::Program source;
  Function function;
  tl::Program program;
  std::string space;  // its namespace
  Inputs inputs;
};

// Nothing where one thread cannot run it, or where the text asks for instructions of the chip.
std::optional<Printed> printed(uint64_t seed) {
  static const std::regex threads("threads\\(\\d+\\)"), of_chip("\\basm\\b|__shfl|atomic|tl_exch|cuda_");
  bool integers = seed % 3 == 0;
  Printed p{.source = integers ? fuzz::random_integers(seed)
                               : fuzz::random_program(seed, find_target("sm_80")->shared_bytes, 200),
            .function = {},
            .program = {},
            .space = fmt::format("p{}", seed),
            .inputs = integers ? Inputs::extreme : Inputs::whole};
  p.source.text = std::regex_replace(p.source.text, threads, "threads(1)");
  try {
    p.function = parse_text(p.source.text, "fuzz.ir");
    p.program = compile(p.function, *find_target("sm_80")).program;
  } catch (const CompileError&) {
    return {};
  }
  static const std::regex inverted(R"(asm\("not\.b32[^;]*;" : "=r"\(inverse\) : "r"\(a\)\);)");
  static const std::regex cut(R"(asm\("bfe\.[su]32[^;]*;" : "=r"\(low\)[^;]*;)");
  static const std::regex logic(R"(asm\("lop3\.b32[^;]*;" : "=r"\(d\)[^;]*;)");
  p.program.text = std::regex_replace(p.program.text, inverted, "inverse = ~a;");
  p.program.text = std::regex_replace(
      p.program.text, logic,
      "d = 0;\n  for (int i = 0; i < 32; i++)\n"
      "    d |= u32(table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i;");
  p.program.text = std::regex_replace(p.program.text, cut, "low = T(a);");
  if (std::regex_search(p.program.text, of_chip) || !p.program.maps.empty()) return {};
  return p;
}

// Calls a kernel of `p` once per block, with its arguments out of 8-byte slots.
std::string caller_of(const Printed& p, const EntrySpec& entry) {
  size_t begin = p.program.text.find(entry.name + "(") + entry.name.size() + 1;
  std::string list = p.program.text.substr(begin, p.program.text.find(')', begin) - begin), values;
  list = std::regex_replace(list, std::regex("\\s+"), " ");
  for (int i = 0; !list.empty(); i++) {
    size_t comma = list.find(", ");
    std::string param = list.substr(0, comma);
    list = comma == list.npos ? "" : list.substr(comma + 2);
    size_t star = param.rfind('*');
    bool is_pointer = star != param.npos;
    std::string type = param.substr(0, is_pointer ? star + 1 : param.rfind(' '));
    values += fmt::format(fmt::runtime(is_pointer ? "{}({})slots[{}]" : "{}same_bits_of<{}>(slots[{}])"),
                          i ? ", " : "", type, i);
  }
  return fmt::format(R"(
extern "C" void {0}_{1}(const uint64_t* slots, unsigned x, unsigned y, unsigned z) {{
  using namespace {0};
  for (blockIdx.z = 0; blockIdx.z < z; blockIdx.z++)
    for (blockIdx.y = 0; blockIdx.y < y; blockIdx.y++)
      for (blockIdx.x = 0; blockIdx.x < x; blockIdx.x++) {0}_{1}_of_block({2});
}}
)",
                     p.space, entry.name, values);
}

std::string text_of(const std::vector<Printed>& programs) {
  std::string all(prelude);
  all +=
      "template <class To> static To same_bits_of(uint64_t slot) { To to; std::memcpy(&to, &slot, sizeof "
      "to); return to; }\n";
  for (auto& p : programs) {
    std::string text = p.program.text;
    for (auto& entry : p.program.entries)  // of extern "C", hence one name in all namespaces
      text = std::regex_replace(text, std::regex("\\b" + entry.name + "\\("),
                                fmt::format("{}_{}_of_block(", p.space, entry.name));
    all += fmt::format("namespace {} {{\nalignas(1024) unsigned char tl_shared[262144];\n{}\n}}\n", p.space,
                       text);
    for (auto& entry : p.program.entries) all += caller_of(p, entry);
  }
  return all;
}

// A library made by the host's compiler, in a folder of its own.
struct Library {
  std::filesystem::path folder;
  void* handle = nullptr;

  explicit Library(const std::string& text) {
    std::string name = (std::filesystem::temp_directory_path() / "tl_printed_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    folder = name;
    std::ofstream(folder / "text.cpp") << text;
    const char* given = std::getenv("CXX");
    std::string command = fmt::format(
        "cd {} && {} -std=c++17 -O1 -w -shared -fPIC -fsanitize=signed-integer-overflow "
        "-fsanitize-undefined-trap-on-error -o text.so text.cpp 2>errors",
        name, given ? given : "c++");
    if (std::system(command.c_str()) != 0) {
      std::ifstream errors(folder / "errors");
      FAIL_CHECK(std::string(std::istreambuf_iterator<char>(errors), {}).substr(0, 2000));
      return;
    }
    handle = dlopen((folder / "text.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    REQUIRE(handle != nullptr);
  }
  ~Library() {
    if (handle) dlclose(handle);
    std::filesystem::remove_all(folder);
  }
  Library(const Library&) = delete;
};

void call(const Printed& p, const Library& library, Trial& trial) {
  Packed packed;
  check_and_pack(p.program, arguments_of(p.program, trial, device_cuda), device_cuda, packed);
  std::vector<std::vector<std::byte>> workspaces;
  for (auto& w : p.program.workspaces)
    workspaces.emplace_back(size_t(evaluate(w.bytes, packed.integers)), std::byte(w.zeroed ? 0 : 0xa5));
  for (auto& entry : p.program.entries) {
    unsigned grid[3] = {1, 1, 1};
    for (size_t d = 0; d < entry.grid.size(); d++)
      grid[d] = unsigned(evaluate(entry.grid[d], packed.integers));
    std::vector<uint64_t> slots;
    for (auto& arg : entry.args) {
      auto index = size_t(arg.index);
      slots.push_back(arg.from == EntrySpec::Arg::From::param     ? packed.slots[index]
                      : arg.from == EntrySpec::Arg::From::integer ? uint64_t(packed.integers[index])
                                                                  : uint64_t(workspaces[index].data()));
    }
    auto* run = reinterpret_cast<void (*)(const uint64_t*, unsigned, unsigned, unsigned)>(
        dlsym(library.handle, fmt::format("{}_{}", p.space, entry.name).c_str()));
    internal_check(run != nullptr, entry.name);
    run(slots.data(), grid[0], grid[1], grid[2]);
  }
}

// What it computes, or how it ended, in a process of its own.
std::string verdict_of(const Printed& p, const Library& library, int64_t seed) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  pid_t child = fork();
  if (child == 0) {
    std::string said;
    try {
      Test test{
          .target = "cuda", .given = {p.source.given}, .inputs = p.inputs, .tolerance = p.source.tolerance};
      Trial got = random_trial(p.program, test.given, uint64_t(seed), test.inputs), wanted = got;
      launch(*compile_kernel(p.function, "reference"), wanted);
      call(p, library, got);
      said = to_string(compare(p.program, got, wanted, test));
    } catch (const std::exception& e) {
      said = e.what();
    }
    _exit(write(ends[1], said.data(), said.size()) == ssize_t(said.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string said(4096, 0);
  said.resize(size_t(std::max<ssize_t>(0, read(ends[0], said.data(), said.size()))));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? said : fmt::format("signal {}", WTERMSIG(status));
}

}  // namespace

TEST_CASE("CUDA text of one thread computes on the host what it means") {
  if (std::system("${CXX:-c++} --version >/dev/null 2>&1") != 0) {
    MESSAGE("no C++ compiler on this machine: CUDA text is not run on the host");
    return;
  }
  std::vector<Printed> programs;
  std::vector<int64_t> seeds;
  int64_t drawn = 0, ran = 0;
  auto run = [&] {
    Library library(text_of(programs));
    for (size_t i = 0; library.handle && i < programs.size(); i++) {
      CAPTURE(seeds[i]);
      CAPTURE(programs[i].source.text);
      CHECK_EQ(verdict_of(programs[i], library, seeds[i]), "right");
    }
    ran += int64_t(programs.size());
    programs.clear(), seeds.clear();
  };
  fuzz::each_seed({.fixed = 60, .fresh = 20, .share = 0.1}, [&](uint64_t seed) {
    drawn++;
    if (auto p = printed(seed)) programs.push_back(std::move(*p)), seeds.push_back(int64_t(seed));
    if (programs.size() == 50) run();
    return true;
  });
  if (!programs.empty()) run();
  MESSAGE(ran << " programs of one thread");
  if (!fuzz::is_replay()) CHECK(ran * 4 >= drawn);
}
