// CUDA text to a cubin, by NVRTC, which is opened from the toolkit or from the pip package nvidia-cuda-nvrtc.
// Our own text includes nothing, so no CUDA header is needed; registers and spills are read from ptxas's own
// words.
#include <algorithm>
#include <filesystem>
#include <mutex>

#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "runtime/driver.h"
#include "runtime/find.h"
#include "runtime/flags.h"
#include "runtime/ptxas_words.h"

namespace tl {
namespace {

struct Nvrtc {
  using Handle = struct NvrtcProgram*;
  Library library;
  int major = 0, minor = 0;
  const char* (*error_string)(int);
  int (*version)(int*, int*);
  int (*create)(Handle*, const char* text, const char* name, int, const char* const*, const char* const*);
  int (*compile)(Handle, int count, const char* const* options);
  int (*log_size)(Handle, size_t*);
  int (*log)(Handle, char*);
  int (*ptx_size)(Handle, size_t*);
  int (*ptx)(Handle, char*);
  int (*cubin_size)(Handle, size_t*);
  int (*cubin)(Handle, char*);
  int (*destroy)(Handle*);
  int (*arch_count)(int*);
  int (*archs)(int*);
};

constexpr const char* install_hint =
    "install NVRTC by `pip install nvidia-cuda-nvrtc` (or the CUDA toolkit, and set CUDA_HOME)";

bool bind_all(Nvrtc& n) {
  const Library& lib = n.library;
  return lib.bind(n.error_string, "nvrtcGetErrorString") && lib.bind(n.version, "nvrtcVersion") &&
         lib.bind(n.create, "nvrtcCreateProgram") && lib.bind(n.compile, "nvrtcCompileProgram") &&
         lib.bind(n.log_size, "nvrtcGetProgramLogSize") && lib.bind(n.log, "nvrtcGetProgramLog") &&
         lib.bind(n.cubin_size, "nvrtcGetCUBINSize") && lib.bind(n.cubin, "nvrtcGetCUBIN") &&
         lib.bind(n.ptx_size, "nvrtcGetPTXSize") && lib.bind(n.ptx, "nvrtcGetPTX") &&
         lib.bind(n.destroy, "nvrtcDestroyProgram") && lib.bind(n.arch_count, "nvrtcGetNumSupportedArchs") &&
         lib.bind(n.archs, "nvrtcGetSupportedArchs");
}

Nvrtc load_nvrtc() {
  std::optional<std::string> path = find_nvrtc();
  std::string error;
  Nvrtc n;
  n.library = open_library(path.value_or("libnvrtc.so.13"), &error);
  if (!n.library && !path) n.library = open_library("libnvrtc.so.12", &error);
  if (!n.library)
    throw RuntimeError(fmt::format("libnvrtc.so.13 or .12 was not found ({}): {}", error, install_hint));
  if (!bind_all(n) || n.version(&n.major, &n.minor) != 0)
    throw RuntimeError(fmt::format("{} is not a usable NVRTC: {}", n.library.path, install_hint));
  // It looks for its builtins by name alone, and some wheels do not say that they lie beside it: what is open
  // is found.
  if (size_t folder = n.library.path.rfind('/'); folder != std::string::npos)
    open_library(
        fmt::format("{}/libnvrtc-builtins.so.{}.{}", n.library.path.substr(0, folder), n.major, n.minor));
  return n;
}

const Nvrtc& nvrtc() {  // a failure is tried again: a folder may have been added since
  static std::mutex lock;
  static Nvrtc* opened = nullptr;
  std::lock_guard guard(lock);
  if (!opened) opened = new Nvrtc(load_nvrtc());
  return *opened;
}

// Empty where it does not say.
std::vector<int> known_numbers(const Nvrtc& n) {
  int count = 0;
  if (n.arch_count(&count) != 0 || count <= 0) return {};
  std::vector<int> known(static_cast<size_t>(count));
  return n.archs(known.data()) == 0 ? known : std::vector<int>{};
}

bool knows(const Nvrtc& n, const Program& program, const std::string& chip) {
  int wanted = parse_chip(chip).number;
  if (wanted < 0) internal_error(fmt::format("{}: '{}' is not a CUDA chip", program.name, chip));
  std::vector<int> known = known_numbers(n);
  return known.empty() || std::ranges::find(known, wanted) != known.end();
}

// The chip to compile for: the program's own, or, where this NVRTC does not know it, the earlier one for
// which its text is written.  Of that the result is PTX, which the driver of the later chip compiles.
const std::string& known_chip(const Nvrtc& n, const Program& program) {
  if (knows(n, program, program.chip)) return program.chip;
  if (!program.described.empty() && knows(n, program, program.described)) return program.described;
  throw RuntimeError(fmt::format("{}: NVRTC {}.{} ({}) does not know {}; {}", program.name, n.major, n.minor,
                                 n.library.path, program.chip, install_hint));
}

std::string virtual_arch(const std::string& chip) {
  return "-arch=compute" + chip.substr(std::min(chip.find('_'), chip.size()));
}

struct Compilation {  // one NVRTC program, destroyed at the end
  const Nvrtc& n;
  Nvrtc::Handle handle = nullptr;
  int status = 0;

  // Options are flags of ours; those of the user's come after them.
  Compilation(const Nvrtc& nvrtc, const Program& program, const std::string& text,
              std::vector<std::string> options, std::span<const Flag> flags)
      : n(nvrtc) {
    for (const Flag& flag : flags) options.insert(options.end(), flag.words.begin(), flag.words.end());
    std::vector<const char*> words;
    for (const std::string& option : options) words.push_back(option.c_str());
    // NVRTC has no header of C; what these declare stands in front of the text that names it.
    const char *const names[] = {"stdint.h", "cstdint"}, *const texts[] = {"", ""};
    status = n.create(&handle, text.c_str(), (program.name + ".cu").c_str(), 2, texts, names);
    if (status == 0) status = n.compile(handle, int(words.size()), words.data());
  }
  Compilation(const Compilation&) = delete;
  ~Compilation() {
    if (handle) n.destroy(&handle);
  }
  std::string log() const {
    size_t size = 0;
    if (!handle || n.log_size(handle, &size) != 0 || size <= 1) return "";
    std::string text(size, '\0');
    n.log(handle, text.data());
    text.resize(text.find_last_not_of(std::string_view("\0\n ", 3)) + 1);
    return text;
  }
};

// Where CUDA's headers lie: beside the library. A wheel of NVRTC alone brings none.
void add_headers(std::vector<std::string>& options, const Nvrtc& n, const Program& program) {
  std::filesystem::path library = n.library.path;
  if (program.text.find("#include") == program.text.npos || !library.is_absolute()) return;
  std::filesystem::path folder = library.parent_path().parent_path() / "include";
  std::error_code none;
  for (auto& each : {folder, folder / "cccl"})
    if (std::filesystem::is_directory(each, none)) options.push_back("-I" + each.string());
}

std::string name_of(const Nvrtc& n) { return fmt::format("NVRTC {}.{}", n.major, n.minor); }

std::vector<Flag> flags_of(const Program& program, const Nvrtc& n) {
  std::vector<Flag> flags = read_flags(program.flags, program.chip);
  for (auto& flag : flags)
    if (!flag.refusal.empty()) throw BuildError(program, name_of(n), flag.said, flag.refusal);
  return flags;
}

// Why a compilation failed.  A flag is to blame where the text compiles without the user's flags, or nothing
// at all compiles with them: the one after the most flags that are taken together (one may be the value of
// the one before).
[[noreturn]] void refuse(const Compilation& failed, const Program& program,
                         const std::vector<std::string>& options, std::span<const Flag> flags) {
  const Nvrtc& n = failed.n;
  std::string compiler = name_of(n), log = failed.log();
  if (constexpr int no_builtins = 7; failed.status == no_builtins)
    throw RuntimeError(
        fmt::format("{}: {} is there, but not the library libnvrtc-builtins of the same version, which "
                    "belongs beside it; its installation is broken: {}\n{}",
                    program.name, n.library.path, install_hint, log));
  for (const std::string& text : {std::string(), program.text}) {
    size_t taken = flags.size();
    auto takes = [&] { return Compilation(n, program, text, options, flags.first(taken)).status == 0; };
    if (taken == 0 || takes()) continue;
    while (taken > 0 && (taken--, !takes())) {
    }
    if (taken == 0 && !takes()) break;
    Compilation first_refused(n, program, text, options, flags.first(taken + 1));
    throw BuildError(program, compiler, flags[taken].said, first_refused.log());
  }
  throw BuildError(program, compiler, "", fmt::format("{}\n{}", n.error_string(failed.status), log));
}

}  // namespace

std::optional<std::string> find_nvrtc() {
  std::vector<std::string> hints;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (std::string home = environment(variable); !home.empty()) {
      hints.push_back(home + "/lib64");
      hints.push_back(home + "/lib");
    }
  for (const char* dir :
       {"/usr/local/cuda/lib64", "/usr/local/cuda-*/lib64", "/usr/local/cuda*/targets/*/lib"})
    hints.push_back(dir);
  const char* const newer[] = {"libnvrtc.so.13"};
  const char* const older[] = {"libnvrtc.so.12"};
  std::optional<std::string> found = find_library(newer, hints), fallback = find_library(older, hints);
  if (!found || !fallback) return found ? found : fallback;
  int driver = cuda_driver_version();  // asked only where it decides: starting the driver takes long
  return driver && driver < 13000 ? fallback : found;  // a driver loads no cubin newer than itself
}

void open_nvrtc() { nvrtc(); }

bool nvrtc_knows(const std::string& chip) {
  try {
    return std::ranges::count(known_numbers(nvrtc()), parse_chip(chip).number) > 0;
  } catch (const RuntimeError&) {
    return false;
  }
}

DeviceBinary build_cuda(const Program& program) {
  DeviceBinary binary;
  Stopwatch watch{binary.phases};
  const Nvrtc& n = nvrtc();
  watch.lap("open NVRTC");
  now_at("NVRTC");
  const std::string& chip = known_chip(n, program);
  bool is_ptx = chip != program.chip;
  std::vector<std::string> options = {is_ptx ? virtual_arch(chip) : "-arch=" + chip, "-std=c++17",
                                      "-default-device", "-minimal", "--ptxas-options=-v"};
  if (n.major >= 13)
    options.push_back("-no-cache");  // the driver's cache returns cubins without ptxas's words
  add_headers(options, n, program);
  std::vector<Flag> flags = flags_of(program, n);
  Compilation session(n, program, program.text, options, flags);
  if (session.status != 0) refuse(session, program, options, flags);
  binary.log = session.log();
  size_t size = 0;
  int status = (is_ptx ? n.ptx_size : n.cubin_size)(session.handle, &size);
  binary.bytes.resize(size);
  if (status == 0) status = (is_ptx ? n.ptx : n.cubin)(session.handle, binary.bytes.data());
  if (status != 0)
    internal_error(fmt::format("{}: NVRTC {}.{} compiled the program, but returned no {} for {}: {}\n{}\n",
                               program.name, n.major, n.minor, is_ptx ? "PTX" : "cubin", chip,
                               n.error_string(status), binary.log));
  watch.lap("NVRTC");
  binary.toolchain = name_of(n);
  binary.resources = parse_resources(binary.log, program);
  return binary;
}

std::string ptx_of(const Program& program) {
  const Nvrtc& n = nvrtc();
  std::vector<std::string> options = {virtual_arch(known_chip(n, program)), "-std=c++17", "-default-device",
                                      "-minimal"};
  add_headers(options, n, program);
  Compilation session(n, program, program.text, options, flags_of(program, n));
  int status = session.status;
  size_t size = 0;
  if (status == 0) status = n.ptx_size(session.handle, &size);
  std::string text(size, '\0');
  if (status == 0) status = n.ptx(session.handle, text.data());
  if (status != 0)
    throw RuntimeError(fmt::format("{}: NVRTC {}.{} returned no PTX for {}: {}\n{}", program.name, n.major,
                                   n.minor, program.chip, n.error_string(status), session.log()));
  text.resize(text.find_last_not_of('\0') + 1);
  return text;
}

}  // namespace tl
