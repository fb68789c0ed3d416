// A function compiled and ready to be called: target resolved, disk cache asked, variants made for calls
// that break an assumption of the first one.
#pragma once
#include <map>
#include <memory>
#include <mutex>

#include "api/report.h"
#include "compile/compile.h"
#include "ir/text.h"
#include "runtime/cache.h"
#include "runtime/executable.h"
#include "sim/run.h"

namespace tl {

struct Settings {
  Options options;
  std::optional<Cache> cache;  // none: that of the environment
  std::string dump_dir;        // a folder for the text of every level; empty: none
};

// What a target string means on this machine: one kind, one chip.
struct ResolvedTarget {
  std::string kind;              // "cuda", "sim", "cpu", "reference"
  const Target* chip = nullptr;  // null for the reference
  std::string text() const;      // "cuda -arch=…", "sim:…", "cpu -mcpu=…", "reference"
};
// CompileError (no place) for what is not known, and for a bare "cuda" where no device answers.
ResolvedTarget resolve_target(std::string_view text);

class CompiledKernel {
 public:
  const Function function;  // at level tile
  const ResolvedTarget target;
  Program program;  // its signature; of the first variant
  std::string source;
  Report report;  // as far as it is known without being asked for

  CompiledKernel(Function f, ResolvedTarget target, Settings settings);

  int device_type() const { return target.kind == "cuda" ? device_cuda : device_cpu; }
  // ArgumentError if the arguments do not fit; RuntimeError if the machine lacks something.  Thread-safe.
  void launch(std::span<const Argument> arguments, Stream stream = 0);
  // The shape of a tensor parameter, from the arguments that are given (the others are nothing).
  std::vector<int64_t> shape_of(std::span<const Argument> arguments, size_t param) const;
  // Everything, with the variants made so far.  The first time, what the passes decided is found out by running
  // them once more: nothing of it is kept for kernels that nobody asks.
  Report current_report();

 private:
  // An extent or stride that a call brings, and what its usual value is divisible by: 16 bytes of elements.
  struct Dimension {
    Expr var;
    IntegerSource source;
    int64_t divisor = 1;
  };
  // What a variant takes for granted of its arguments; the key of the variants.
  struct Assumptions {
    int alignment = 1;            // of every tensor's address, in bytes
    std::vector<bool> divisible;  // per dimension
    auto operator<=>(const Assumptions&) const = default;
  };
  // What runs: a binary on a device, or the simulator.
  struct Variant {
    std::shared_ptr<Executable> executable;
    std::shared_ptr<const Simulation> simulation;
    Program program;
  };
  struct Made {
    Variant variant;
    std::vector<Report::KernelRow> kernels = {};
    std::string toolchain = {};
    std::vector<Phase> phases;
    bool from_cache = false;
  };
  Assumptions usual_assumptions();
  Assumptions assumptions_of(std::span<const Argument> arguments) const;
  std::string describe(const Assumptions& a) const;
  std::string key_of(const Function& f, const Target& chip, const Assumptions& a) const;
  Function function_for(const Assumptions& a) const;
  Target target_for(const Assumptions& a) const;
  Made make(const Assumptions& a) const;
  void explain_passes();
  const Variant& variant_for(std::span<const Argument> arguments);

  Settings settings;
  std::vector<Dimension> dimensions;
  Assumptions usual;
  bool explained = false;
  Variant first;    // assumes what is usual
  std::mutex lock;  // of the other variants, and of the report
  std::map<Assumptions, Variant> variants;
};

// Text IR with the operators and instructions of this build.
Function parse_text(std::string_view text, std::string_view file);

// Checks f at level tile, then compiles.
std::shared_ptr<CompiledKernel> compile_kernel(const Function& f, std::string_view target,
                                               Settings settings = {});

}  // namespace tl
