// HIP text to a code object, by clang, a program of its own: it needs lld beside it, but neither ROCm's
// headers nor its device libraries.  Registers and spills are read from its remarks.  There is no driver for
// AMD's GPUs here: kernels are compiled for inspection, and run in the simulator.
#include <fcntl.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "runtime/find.h"
#include "runtime/flags.h"

extern char** environ;

namespace tl {
namespace {

// Newest first; each knows the chips that are described here.
constexpr std::string_view clangs[] = {"clang-22", "clang-21", "clang-20", "clang-19"};

struct Scratch {  // a folder for one compilation
  std::string path = (std::filesystem::temp_directory_path() / "tilelang_hip_XXXXXX").string();
  Scratch() {
    if (!mkdtemp(path.data())) throw RuntimeError("cannot make a folder for clang: " + path);
  }
  Scratch(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

// The exit status of a program whose output goes to a file; -1 if it did not run to its end.
int run_program(const std::vector<std::string>& words, const std::string& output) {
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  int failed = posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ), status = 0;
  posix_spawn_file_actions_destroy(&actions);
  if (failed || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

// The user's flags, but for those that nvcc alone has.
std::vector<std::string> flags_for_clang(const Program& program) {
  std::vector<std::string> words;
  for (const Flag& flag : read_flags(program.flags, program.chip)) {
    if (flag.said == "--use_fast_math")
      words.insert(words.end(), {"-fno-hip-fp32-correctly-rounded-divide-sqrt",
                                 "-fgpu-flush-denormals-to-zero", "-fapprox-func"});
    if (!flag.of_nvcc) words.insert(words.end(), flag.words.begin(), flag.words.end());
  }
  return words;
}

// The number behind "what: " in a remark; -1 if it says something else.
int64_t number_behind(std::string_view line, std::string_view what) {
  size_t at = line.find(what);
  if (at == line.npos) return -1;
  return std::strtoll(std::string(line.substr(at + what.size())).c_str(), nullptr, 10);
}

std::vector<Resources> resources_in(const std::string& log, const Program& program) {
  std::vector<Resources> all;
  for (auto& entry : program.entries) all.push_back({.entry = entry.name});
  Resources* now = nullptr;
  for (size_t at = 0; at < log.size();) {
    size_t eol = std::min(log.find('\n', at), log.size());
    std::string_view line = std::string_view(log).substr(at, eol - at);
    at = eol + 1;
    constexpr std::string_view head = "Function Name: ";
    if (size_t name = line.find(head); name != line.npos) {
      std::string_view rest = line.substr(name + head.size());
      rest = rest.substr(0, rest.find(' '));
      auto it = std::ranges::find_if(all, [&](auto& r) { return r.entry == rest; });
      now = it == all.end() ? nullptr : &*it;
    }
    if (!now) continue;
    if (int64_t n = number_behind(line, " VGPRs: "); n >= 0) now->registers = int(n);
    if (int64_t n = number_behind(line, "ScratchSize [bytes/lane]: "); n >= 0) now->stack_bytes = n;
    if (int64_t n = number_behind(line, "VGPRs Spill: "); n >= 0)
      now->spill_stores = now->spill_loads = 4 * n;
    if (int64_t n = number_behind(line, "LDS Size [bytes/block]: "); n >= 0) now->static_shared = n;
  }
  return all;
}

// The first in the folders of a path, which are parted by colons.
std::optional<std::string> find_program(std::string_view name, const std::string& path) {
  for (size_t at = 0; at < path.size();) {
    size_t colon = std::min(path.find(':', at), path.size());
    std::string file = fmt::format("{}/{}", path.substr(at, colon - at), name);
    if (access(file.c_str(), X_OK) == 0) return file;
    at = colon + 1;
  }
  return {};
}

// Where clang itself looks for lld: beside its own file, links followed, then on the path.
bool has_linker(const std::string& clang) {
  std::error_code ignored;
  std::string own = std::filesystem::canonical(clang, ignored).parent_path().string();
  return find_program("lld", own + ":" + environment("PATH")).has_value();
}

[[noreturn]] void refuse_text(const Program& program, const std::string& compiler,
                              const std::vector<std::string>& flags, const std::string& log) {
  for (auto& flag : flags)
    if (log.find(fmt::format("unknown argument: '{}'", flag)) != log.npos)
      throw BuildError(program, compiler, flag, log);
  if (log.find("__ockl_") != log.npos)
    throw RuntimeError(
        fmt::format("{}: text and failed checks (T.print, T.device_assert) are printed by ROCm's device "
                    "library, which this version does not link: run the kernel with target='sim:{}'",
                    program.name, program.chip));
  throw BuildError(program, compiler, "", log);
}

}  // namespace

// The newest that can link: a compiler alone, without its linker, is as good as none.
std::optional<std::string> find_clang() {
  std::string path = environment("PATH") + ":/opt/rocm/llvm/bin";
  for (std::string_view name : clangs)
    if (auto file = find_program(name, path); file && has_linker(*file)) return file;
  return {};
}

void open_clang() {}  // it is a program

DeviceBinary build_hip(const Program& program) {
  DeviceBinary binary;
  std::optional<std::string> clang = find_clang();
  if (!clang) {  // the text is there to be read, and nothing here would run its code
    binary.log = fmt::format("not compiled: there is no {} with lld of the same version beside it",
                             fmt::join(clangs, ", no "));
    return binary;
  }
  Stopwatch watch{binary.phases};
  Scratch scratch;
  std::string text = scratch.path + "/" + "kernel.hip", object = scratch.path + "/kernel.co",
              said = scratch.path + "/log";
  if (!write_file_atomic(text, program.text)) throw RuntimeError("cannot write " + text);
  std::vector<std::string> words = {*clang,
                                    "-xhip",
                                    "--cuda-device-only",
                                    "--offload-arch=" + program.chip,
                                    "-nogpuinc",
                                    "-nogpulib",
                                    "--no-gpu-bundle-output",
                                    "-O3",
                                    "-std=c++20",
                                    "-Rpass-analysis=kernel-resource-usage"};
  std::vector<std::string> flags = flags_for_clang(program);
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), {text, "-o", object});
  int status = run_program(words, said);
  binary.log = read_file(said).value_or("");
  std::string name = std::filesystem::path(*clang).filename().string();
  if (status != 0) refuse_text(program, name, flags, binary.log);
  binary.bytes = read_file(object).value_or("");
  watch.lap("clang");
  binary.toolchain = name;
  binary.resources = resources_in(binary.log, program);
  return binary;
}

Device* rocm_device(int, std::string* reason) {
  if (reason) *reason = "this version has no driver for AMD's GPUs";
  return nullptr;
}

}  // namespace tl
