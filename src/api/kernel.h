// A function compiled and ready to be called: target resolved, disk cache asked.  There are two variants at
// most: the specialized one assumes what holds for nearly every call, whatever its sizes; the generic one
// assumes nothing, and is made when the first call needs it.
#pragma once
#include <atomic>
#include <functional>
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
  // Edits the generated text, of that language (its name), before a device compiler sees it; empty:
  // nobody does.
  std::function<std::string(std::string_view language, std::string text)> edit_text = {};
  // Told what the generic variant is, when a call has made it; empty: nobody is.
  std::function<void(const std::string& target, const std::vector<Report::KernelRow>& kernels)> hear_generic =
      {};
  bool at_machine = false;  // for the simulator: the function is at level machine already
};

// What a target string means on this machine: one kind, one chip.
struct ResolvedTarget {
  std::string kind;              // of the chip's language, or "sim", "reference"
  const Target* chip = nullptr;  // null for the reference
  std::string later = "";    // a chip without a description, which runs the programs of `chip`; else empty
  std::string text() const;  // "cuda -arch=…", "sim:…", "cpu -mcpu=…", "reference"
  std::string chip_name() const { return !later.empty() ? later : chip ? std::string(chip->name) : ""; }
  // What a device compiler makes the kernel from; null for the executors, which need none.
  const Language* built_from() const;
};
// CompileError (no position) for an unknown one, and for a bare "cuda" where no device answers.
ResolvedTarget resolve_target(std::string_view text);

constexpr std::string_view flags_subject = "compile_flags";  // of notes on the user's flags

class CompiledKernel : public std::enable_shared_from_this<CompiledKernel> {
 public:
  const Function function;  // at level tile
  const ResolvedTarget target;
  Program program;  // its signature; of the first variant
  std::string source;
  Report report;  // as far as it is known without being asked for

  CompiledKernel(Function f, ResolvedTarget target, Settings settings);

  int device_type() const;  // of the tensors that a call takes
  // ArgumentError if the arguments do not fit; RuntimeError if the machine lacks something.  Thread-safe.
  void launch(std::span<const Argument> arguments, Stream stream = 0);
  // Of a kernel for the simulator: the same with options, and what was found.
  SimulationReport simulate(std::span<const Argument> arguments, const SimulationOptions& options);
  // The shape of a tensor parameter, from the arguments that are given (the others are nothing).
  std::vector<int64_t> shape_of(std::span<const Argument> arguments, size_t param) const;
  // The cubin or the ELF object; null for the executors, which have none.
  const DeviceBinary* device_binary() const { return first.executable ? &first.executable->binary : nullptr; }
  // What a GPU's kernel, or its simulation, is at level machine, as text IR.
  std::string machine_text() const;
  // Everything, with the variants made so far.  The first time, what the passes decided is found out by
  // running them once more: nothing of it is kept in advance.
  Report current_report();

 private:
  // An extent or stride that a call brings.  Usually it is divisible by 16 bytes of elements, where that
  // decides whether rows of a tensor are aligned; and it fits 32 bits.
  struct Dimension {
    Expr var;
    IntegerSource source;
    int64_t divisor = 1;
  };
  // What the specialized variant assumes of its arguments; nothing on targets that gain nothing by it.
  struct Specialization {
    int alignment = 1;  // of every tensor's address, in bytes
    std::vector<Dimension> dimensions = {};
    std::vector<size_t> sized = {};  // parameters: tensors that span fewer than 2^31 elements
  };
  // What runs: a binary on a device, or the simulator.
  struct Variant {
    std::shared_ptr<Executable> executable;
    std::shared_ptr<const Simulation> simulation;
    Program program;
  };
  struct Made {
    Variant variant = {};
    std::vector<Report::KernelRow> kernels = {};
    std::string toolchain = {};
    std::vector<Phase> phases = {};
    bool from_cache = false;
  };
  Specialization find_specialization() const;
  void note_flags();
  void note_chip();
  void note_refusals();
  bool is_specialized(std::span<const Argument> arguments) const;
  std::string describe_specialization() const;
  // What keeps a call from the specialized variant.
  std::string why_generic(std::span<const Argument> arguments) const;
  std::string key_of(const Function& f, const Target& chip, std::string_view edited = {}) const;
  // Asks the cache; nothing for a key that is empty or unknown, nor where levels are to be dumped.
  std::optional<Made> from_cache(const Cache& cache, const std::string& key) const;
  Function function_for(bool specialized) const;
  bool edits_text() const { return settings.edit_text && target.kind != "sim"; }
  Compiled lower(const Function& f, const Target& chip) const;
  Made make_simulation(const Function& f, Target chip) const;
  Made make(bool specialized) const;
  void explain_passes();
  const Variant& variant_for(std::span<const Argument> arguments);

  Settings settings;
  Specialization specialization;
  bool explained = false;
  Variant first;    // the specialized one
  std::mutex lock;  // of the generic one while it is made, and of the report
  std::unique_ptr<const Variant> generic;
  std::atomic<const Variant*> generic_made = nullptr;
  std::atomic<bool> specialized_ran = false, generic_ran = false;
  std::string generic_reason;  // of the call that it was made for
};

// Text IR with the operators and instructions of this build.
Function parse_text(std::string_view text, std::string_view file);

// Checks f at level tile, then compiles.
std::shared_ptr<CompiledKernel> compile_kernel(const Function& f, std::string_view target,
                                               Settings settings = {});

// Of every parameter whether the text of some kernel writes to it, be it never reached.
std::vector<bool> written_params(const Function& f);
// … whether some statement reads or writes it, or takes its address; true of numbers.
std::vector<bool> used_params(const Function& f);

}  // namespace tl
