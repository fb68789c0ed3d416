// From a function to a callable kernel: the cache, the compilation, the two variants.
#include "api/kernel.h"

#include <algorithm>
#include <chrono>

#include "api/loops_of_operators.h"
#include "api/refused.h"
#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/large_stack.h"
#include "ir/depth.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "ops/own_copies.h"
#include "ops/user_op.h"
#include "pass/check_convergence.h"
#include "pass/check_order.h"
#include "pass/check_schedules.h"
#include "pass/check_sizes.h"
#include "pass/role_stamps.h"
#include "pass/warp_schedule.h"
#include "runtime/flags.h"
#include "sim/reference.h"
#include "sim/reference_barriers.h"
#include "target/effects.h"
#include "target/foreign.h"
#include "target/user_rows.h"

namespace tl {
namespace {

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// What the checks of a call need of a machine that has no chip.
const Language no_language{.name = "reference"};
const Target reference_machine{
    .name = "reference", .language = &no_language, .warp = 1, .default_threads = 1, .vector_bytes = 1};

DeviceBinary built(const Compiled& compiled, bool edited) {
  try {
    return build(compiled.program);
  } catch (const BuildError& refusal) {
    blame_refusal(refusal, compiled.function, edited);
  }
}

// Better now than at the first call.
void refuse_thread_code(const Function& f) {
  for (auto& k : f.kernels) {
    check_repeated_updates(f, k, "the reference");
    visit(as_evaluated(with_copies_in_order(f, k.body)), [&](const Call& n) {
      if (is_foreign(*n.intrinsic)) return require_foreign_eval(n, "the reference", n.span);
      if (n.intrinsic == &sync_threads || is_for_reference(*n.intrinsic)) return;
      if (n.intrinsic == &load_wide || n.intrinsic == &store_wide || is_thread_level(*n.intrinsic) ||
          find_instr(n.intrinsic->name))
        fail(n.span,
             "{} is thread-level code, which the reference does not run: compile it for a GPU target or the "
             "simulator of one (target='sim:…')",
             n.intrinsic == &thread_number || n.intrinsic == &thread_index ? "the number of a thread"
                                                                           : n.intrinsic->name);
    });
  }
}

std::vector<Phase> phases_of(const Compiled& compiled) {
  std::vector<Phase> phases;
  for (auto& p : compiled.phases) phases.push_back({p.name, p.ms});
  return phases;
}

std::string folder_name(const std::string& name) {
  std::string out;
  for (char c : name) out += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' ? c : '_';
  return out.empty() ? "kernel" : out;
}

void dump_text(const std::string& folder, const std::string& name, const std::string& text) {
  std::string path = folder + "/" + name;
  if (!make_folders(folder) || !write_file_atomic(path, text)) throw RuntimeError("cannot write " + path);
}

}  // namespace

Function parse_text(std::string_view text, std::string_view file) {
  Function f = complete_tiles(order_loops_of_operators(parse(text, file, text_vocabulary())));
  check_warp_schedules(f);
  return f;
}

namespace {

void require_role_pass(const Function& f, const ResolvedTarget& target, const Options& options) {
  std::string_view why;
  if (!target.chip)
    why = "the reference runs whole tiles, one after the other";
  else if (std::ranges::count(options.skip, "assign_roles"))
    why = "the pass configs leave out the pass that divides loops among roles";
  if (!why.empty()) fail(f.span, "{} has no timeline of roles to measure: {}", f.name, why);
}

std::shared_ptr<CompiledKernel> check_and_compile(const Function& f, std::string_view target,
                                                  Settings settings) {
  if (auto finding = check(f, settings.at_machine ? Level::machine : Level::tile))
    throw CompileError(finding->span, finding->text);
  if (!settings.at_machine) check_given_schedules(f);
  if (settings.options.deterministic) check_order(f);
  ResolvedTarget resolved = resolve_target(target);
  if (settings.at_machine && resolved.kind != "sim")
    fail({}, "a function at level machine runs in the simulator alone (sim:CHIP), not on {}",
         resolved.text());
  bool timeline = settings.options.timeline;
  if (timeline) require_role_pass(f, resolved, settings.options);
  return std::make_shared<CompiledKernel>(timeline ? with_timeline(f) : f, resolved, std::move(settings));
}

}  // namespace

std::shared_ptr<CompiledKernel> compile_kernel(const Function& f, std::string_view target,
                                               Settings settings) {
  check_written(f);
  auto made = std::make_shared<std::shared_ptr<CompiledKernel>>();
  if (!attention.task)
    on_stack_for(f, [&] { *made = check_and_compile(f, target, std::move(settings)); });
  else
    on_thread_of_its_own([made, f, chip = std::string(target), settings = std::move(settings)]() mutable {
      *made = check_and_compile(f, chip, std::move(settings));
    });
  return std::move(*made);
}

CompiledKernel::CompiledKernel(Function f, ResolvedTarget t, Settings s)
    : function(std::move(f)),
      target(t),
      settings(std::move(s)) {
  report.function = function.name;
  report.target = target.text();
  if (settings.options.deterministic)
    report.notes.push_back({.subject = "deterministic",
                            .text = "no result depends on the order of atomic accesses",
                            .pass = ""});
  note_flags();
  note_chip();
  if (!target.chip) {
    refuse_thread_code(function);
    check_sizes_on_host(function);
    program = signature_of(function, reference_machine);
    source = print(function);
    report.notes.push_back({.subject = "reference",
                            .text = "the tile-level program, executed as it is written, without layouts",
                            .pass = ""});
    explained = true;
    return;
  }
  report.shared_limit = target.chip->shared_bytes;
  if (!settings.at_machine) specialization = find_specialization();
  Made made = make(true);
  program = made.variant.program;
  source = program.text;
  report.kernels = std::move(made.kernels);
  note_refusals();
  report.toolchain = std::move(made.toolchain);
  report.phases = std::move(made.phases);
  report.from_cache = made.from_cache;
  first = std::move(made.variant);
}

int CompiledKernel::device_type() const {
  const Language* language = target.built_from();
  return language ? platform_of(language->name).device_type : int(device_cpu);
}

// Which of the user's flags change nothing, and why.
void CompiledKernel::note_flags() {
  const Language* language = target.built_from();
  bool nvcc = language && language->takes_nvcc_flags;
  for (auto& flag : read_flags(settings.options.flags, nvcc ? target.chip_name() : "")) {
    bool idle = nvcc ? !flag.idle.empty() && flag.refusal.empty() : flag.of_nvcc;
    if (!idle) continue;
    std::string text = fmt::format("{} changes nothing: {}", flag.said, nvcc ? flag.idle : "it is for nvcc");
    report.notes.push_back({.subject = std::string(flags_subject), .text = std::move(text), .pass = ""});
  }
}

// What ptxas did not do as the program asks.
void CompiledKernel::note_refusals() {
  for (auto& k : report.kernels)
    for (auto& refusal : k.refusals)
      report.notes.push_back({.subject = k.name,
                              .text = refusal,
                              .pass = "ptxas",
                              .refusal = true,
                              .attached = true,
                              .place = function.span});
}

// Which described chip stands for one that is not described.
void CompiledKernel::note_chip() {
  if (target.later.empty()) return;
  std::string_view chip = target.chip->name, lacks = why_no_chip(target.later);
  std::string text = fmt::format(
      "this version has no description of {}; the program is that of {}, the newest described chip whose "
      "programs {} "
      "runs, with its limits{}{}",
      target.later, chip, target.later, lacks.empty() ? "" : ": ", lacks);
  report.notes.push_back({.subject = "target", .text = std::move(text), .pass = ""});
}

// ── variants ──────────────────────────────────────────────────────────────────────────────────────────
std::optional<CompiledKernel::Made> CompiledKernel::from_cache(const Cache& cache,
                                                               const std::string& key) const {
  auto start = std::chrono::steady_clock::now();
  auto entry = key.empty() || !settings.dump_dir.empty() ? std::nullopt : cache.load(key);
  if (!entry) return {};
  Made made{.kernels = kernel_rows(entry->program, entry->binary),
            .toolchain = entry->binary.toolchain,
            .from_cache = true};
  made.variant.program = entry->program;
  made.variant.executable = std::make_shared<Executable>(std::move(entry->program), std::move(entry->binary));
  made.phases.push_back({"read from the cache", ms_since(start)});
  return made;
}

// Through all passes, and the user's edit of the text; dumps of all of it.
Compiled CompiledKernel::lower(const Function& f, const Target& chip) const {
  std::string folder = settings.dump_dir.empty() ? "" : settings.dump_dir + "/" + folder_name(f.name);
  Dump dump;
  if (!folder.empty()) {
    dump_text(folder, "00.tile.ir", print(f));
    dump = [&](int number, std::string_view pass, const Function& g) {
      dump_text(folder, fmt::format("{:02}.{}.ir", number, pass), print(g));
    };
  }
  Compiled compiled = settings.at_machine ? Compiled{.function = f, .program = signature_of(f, chip)}
                                          : compile(f, chip, settings.options, dump);
  Program& out = compiled.program;
  if (!target.later.empty()) {
    out.described = out.chip;
    out.chip = target.later;
  }
  if (!settings.options.stop_after.empty() && out.text.empty())
    fail(f.span, "the compilation stops after {}: there is nothing to run", settings.options.stop_after);
  if (edits_text()) out.text = settings.edit_text(out.language, std::move(out.text));
  if (!folder.empty()) dump_text(folder, fmt::format("kernel{}", chip.language->suffix), out.text);
  return compiled;
}

// Nothing is built, nor cached: that is quicker than to read a file.
CompiledKernel::Made CompiledKernel::make_simulation(const Function& f, Target chip) const {
  chip.keeps_indices = true;
  Compiled compiled = lower(f, chip);
  Made made{.phases = phases_of(compiled)};
  auto translation = std::chrono::steady_clock::now();
  made.variant.simulation = prepare_simulation(compiled.function, chip);
  made.phases.push_back({"translate", ms_since(translation)});
  made.kernels = kernel_rows(compiled.program, {});
  made.variant.program = std::move(compiled.program);
  if (settings.at_machine) made.variant.program.text = print(f);
  return made;
}

CompiledKernel::Made CompiledKernel::make(bool specialized) const {
  Function f = function_for(specialized);
  Target chip = with_user_rows(*target.chip);
  if (target.kind == "sim") return make_simulation(f, std::move(chip));
  Cache cache = settings.cache ? *settings.cache : disk_cache();
  std::string key = cache.folder.empty() || edits_text() ? "" : key_of(f, chip);
  if (auto made = from_cache(cache, key)) return std::move(*made);
  std::future<void> opening;  // waited for on every way out
  if (settings.options.stop_after.empty()) opening = warm_up(std::string(chip.language->name));
  Compiled compiled = lower(f, chip);
  if (!cache.folder.empty() && edits_text()) {  // what the edit makes of the text, only it itself can tell
    key = key_of(f, chip, compiled.program.text);
    if (auto made = from_cache(cache, key)) return std::move(*made);
  }
  DeviceBinary binary = built(compiled, edits_text());
  Made made{.kernels = kernel_rows(compiled.program, binary),
            .toolchain = binary.toolchain,
            .phases = phases_of(compiled)};
  made.phases.insert(made.phases.end(), binary.phases.begin(), binary.phases.end());
  if (!key.empty()) cache.store(key, {.program = compiled.program, .binary = binary});
  made.variant.program = compiled.program;
  made.variant.executable = std::make_shared<Executable>(std::move(compiled.program), std::move(binary));
  return made;
}

const CompiledKernel::Variant& CompiledKernel::variant_for(std::span<const Argument> arguments) {
  if (is_specialized(arguments)) {
    if (!specialized_ran.load(std::memory_order_relaxed))
      specialized_ran.store(true, std::memory_order_relaxed);
    return first;
  }
  if (!generic_made.load(std::memory_order_acquire)) {
    std::optional<std::vector<Report::KernelRow>> made_now;
    std::unique_lock guard(lock);
    if (!generic) {
      Program lenient = program;  // a call that is wrong in other ways is not worth a compilation
      lenient.alignment = 0;
      Packed unused;
      check_and_pack(lenient, arguments, device_type(), unused);
      auto made = std::make_shared<Made>();
      on_thread_of_its_own([made, self = shared_from_this()] { *made = self->make(false); });
      generic = std::make_unique<const Variant>(std::move(made->variant));
      made_now = std::move(made->kernels);
      generic_reason = why_generic(arguments);
      generic_made.store(generic.get(), std::memory_order_release);
    }
    guard.unlock();
    if (made_now && settings.hear_generic) settings.hear_generic(report.target, *made_now);
  }
  if (!generic_ran.load(std::memory_order_relaxed)) generic_ran.store(true, std::memory_order_relaxed);
  return *generic;
}

// ── calls ─────────────────────────────────────────────────────────────────────────────────────────────
namespace {

// A tensor's memory: its first byte, and the one past its last.
std::pair<std::byte*, std::byte*> bytes_of(const TensorView& t) {
  auto* low = static_cast<std::byte*>(t.data);
  auto* high = low + t.bits / 8;
  int64_t stride = t.bits / 8;
  for (int d = t.ndim; d-- > 0;) {
    if (t.shape[d] == 0) return {low, low};
    int64_t reach = (t.shape[d] - 1) * (t.strides ? t.strides[d] * (t.bits / 8) : stride);
    (reach < 0 ? low : high) += reach;
    stride *= t.shape[d];
  }
  return {low, high};
}

// The arguments as the executors take them, checked; `packed` holds the scalars.
std::vector<HostArg> host_arguments(const Program& program, std::span<const Argument> arguments,
                                    Packed& packed) {
  check_and_pack(program, arguments, device_cpu, packed);
  std::vector<HostArg> args;
  for (size_t i = 0; i < arguments.size(); i++) {
    auto* t = std::get_if<TensorView>(&arguments[i]);
    if (!t && program.params[i].is_tensor) {  // None, for a tensor that nothing names
      args.push_back({});
      continue;
    }
    if (!program.params[i].is_tensor) {
      args.push_back({.data = &packed.slots[i]});
      if (t) args.back().memory = bytes_of(*t);
      continue;
    }
    HostArg arg{
        .data = t->data, .shape = {t->shape, t->shape + t->ndim}, .memory = bytes_of(*t), .fresh = t->fresh};
    arg.strides.assign(size_t(t->ndim), 1);  // a stride may be a variable of the function
    for (int d = t->ndim - 1; d-- > 0;) arg.strides[size_t(d)] = arg.strides[size_t(d) + 1] * t->shape[d + 1];
    if (t->strides) arg.strides.assign(t->strides, t->strides + t->ndim);
    args.push_back(std::move(arg));
  }
  return args;
}

}  // namespace

void CompiledKernel::launch(std::span<const Argument> arguments, Stream stream) {
  const Variant* variant = target.chip ? &variant_for(arguments) : nullptr;
  if (variant && variant->executable) return variant->executable->call(arguments, stream);
  Packed packed;
  if (!variant)
    return on_stack_for(function,
                        [&] { run_reference(function, host_arguments(program, arguments, packed)); });
  run_simulation(*variant->simulation, host_arguments(variant->program, arguments, packed));
}

SimulationReport CompiledKernel::simulate(std::span<const Argument> arguments,
                                          const SimulationOptions& options) {
  internal_check(target.kind == "sim", "a kernel for the simulator");
  const Variant& variant = variant_for(arguments);
  Packed packed;
  return tl::simulate(*variant.simulation, host_arguments(variant.program, arguments, packed), options);
}

std::vector<int64_t> CompiledKernel::shape_of(std::span<const Argument> arguments, size_t param) const {
  return infer_shape(program, arguments, param);
}

void CompiledKernel::explain_passes() {
  constexpr std::string_view mapped = "infer_layouts", last = "insert_sync";  // before loops are expanded
  Options options = settings.options;
  options.stop_after = last;
  Target chip = with_user_rows(*target.chip);
  Function laid_out, divided, planned, pipelined;
  Compiled compiled =
      compile(function_for(true), chip, options, [&](int, std::string_view pass, const Function& f) {
        if (pass == mapped) laid_out = f;
        if (pass == "assign_roles") divided = f;
        if (pass == "plan_schedule") planned = f;
        if (pass == "pipeline_loops") pipelined = f;
      });
  explain(report, function, laid_out, compiled.function, chip);
  explain_pipelines(report, function, divided, planned, pipelined, compiled.function.notes);
  explained = true;
}

std::string CompiledKernel::machine_text() const {
  if (!target.chip) fail({}, "{} was compiled for the reference, which has no level machine", function.name);
  std::string text;
  on_stack_for(function, [&] {
    Target chip = with_user_rows(*target.chip);
    text =
        print(settings.at_machine ? function : compile(function_for(true), chip, settings.options).function);
  });
  return text;
}

Report CompiledKernel::current_report() {
  std::lock_guard guard(lock);
  if (!explained) on_stack_for(function, [&] { explain_passes(); });
  Report now = report;
  auto note = [&](std::string subject, std::string text, bool ran) {
    now.notes.push_back({.subject = std::move(subject),
                         .text = fmt::format("{}; {}", text, ran ? "has run" : "has not run yet"),
                         .pass = ""});
  };
  if (target.chip && (generic || !specialization.dimensions.empty())) {
    note("specialized variant", "for calls where " + describe_specialization(), specialized_ran);
    if (generic)
      note("generic variant", "for all other calls; made for one where " + generic_reason, generic_ran);
  }
  return now;
}

std::vector<bool> used_params(const Function& f) {
  std::set<BufferId> used;
  for (auto& k : f.kernels)
    visit_effects(k.body, [&](const Stmt&, const Effect& e) { used.insert(f.storage(e.buffer)); });
  std::vector<bool> found;
  for (auto& p : f.params) found.push_back(!p.buffer || used.contains(p.buffer));
  return found;
}

std::vector<bool> written_params(const Function& f) {
  std::set<BufferId> stored;
  for (auto& k : f.kernels)
    for (BufferId b : written_buffers(k.body)) stored.insert(f.storage(b));
  std::vector<bool> written;
  for (auto& p : f.params) written.push_back(p.buffer && stored.contains(p.buffer));
  return written;
}

}  // namespace tl
