// From a function to something that can be called: the cache, the straight line, the two variants.
#include "api/kernel.h"

#include <algorithm>
#include <chrono>

#include "api/refused.h"
#include "arith/simplify.h"
#include "base/error.h"
#include "base/file.h"
#include "ir/depth.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "ops/user_op.h"
#include "pass/check_flow.h"
#include "pass/check_order.h"
#include "runtime/flags.h"
#include "sim/reference.h"
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
    visit(as_evaluated(k.body), [&](const Call& n) {
      if (is_foreign(*n.callee)) return require_foreign_eval(n, "the reference", n.span);
      if (n.callee == &sync_threads) return;
      if (n.callee == &load_wide || n.callee == &store_wide || is_thread_level(*n.callee) ||
          find_instr(n.callee->name))
        fail(n.span,
             "{} is thread-level code, which the reference does not run: compile it for a GPU target or the "
             "simulator of one (target='sim:…')",
             n.callee == &thread_number || n.callee == &thread_index ? "the number of a thread"
                                                                     : n.callee->name);
    });
  }
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

// The extents and strides of a call that no constant tells.
struct Found {
  int64_t value = 0;
  bool known = false;
};
Found dimension_of(const IntegerSource& source, std::span<const Argument> arguments) {
  if (size_t(source.param) >= arguments.size()) return {};
  if (auto* value = std::get_if<int64_t>(&arguments[size_t(source.param)])) return {*value, true};
  auto* t = std::get_if<TensorView>(&arguments[size_t(source.param)]);
  if (!t || source.dim >= t->ndim) return {};
  if (source.from == IntegerSource::From::extent) return {source.solve(t->shape[source.dim]), true};
  if (t->strides) return {t->strides[source.dim], true};
  int64_t stride = 1;
  for (int d = source.dim + 1; d < t->ndim; d++) stride *= t->shape[d];
  return {stride, true};
}

// How many elements make 16 bytes in every tensor whose rows are this variable apart; 1: none.  Row-major
// rows are as far apart as all extents but the first say.
int64_t elements_of_16_bytes(const Function& f, const Expr& v) {
  int64_t elements = 1;
  for (auto& p : f.params) {
    if (!p.buffer) continue;
    const BufferInfo& b = f[p.buffer];
    auto apart = b.strides.empty() && !b.shape.empty() ? std::span(b.shape).subspan(1) : std::span(b.strides);
    for (auto& e : apart)
      if (uses_var(e, v)) elements = std::max<int64_t>(elements, 16 / b.dtype.bytes());
  }
  return elements;
}

// The elements from the first to the last of a parameter, as narrow_index asks for them.
Expr span_of(const BufferInfo& b) {
  Expr span = imm(1);
  for (size_t d = 0; d < b.shape.size(); d++)
    span = b.strides.empty() ? span * b.shape[d] : span + (b.shape[d] - 1) * b.strides[d];
  return span;
}

// Do the indices of the tensor's elements fit 32 bits?
bool spans_32_bits(const TensorView& t) {
  __int128 last = 0, row_major = 1;
  for (int d = t.ndim; d-- > 0;) {
    if (t.shape[d] == 0) return true;
    __int128 stride = t.strides ? __int128(t.strides[d]) : row_major;
    if (stride < 0 || row_major > INT64_MAX) return false;
    last += (t.shape[d] - 1) * stride;
    row_major *= t.shape[d];
  }
  return last < INT32_MAX;
}

}  // namespace

Function parse_text(std::string_view text, std::string_view file) {
  return complete_tiles(parse(text, file, text_vocabulary()));
}

namespace {

std::shared_ptr<CompiledKernel> check_and_compile(const Function& f, std::string_view target,
                                                  Settings settings) {
  if (auto finding = check(f, settings.at_machine ? Level::machine : Level::tile))
    throw CompileError(finding->span, finding->text);
  if (settings.options.deterministic) check_order(f);
  ResolvedTarget resolved = resolve_target(target);
  if (settings.at_machine && resolved.kind != "sim")
    fail({}, "a function at level machine runs in the simulator alone (sim:CHIP), not on {}",
         resolved.text());
  return std::make_shared<CompiledKernel>(f, resolved, std::move(settings));
}

}  // namespace

std::shared_ptr<CompiledKernel> compile_kernel(const Function& f, std::string_view target,
                                               Settings settings) {
  check_written_depth(f);
  std::shared_ptr<CompiledKernel> made;
  on_stack_for(f, [&] { made = check_and_compile(f, target, std::move(settings)); });
  return made;
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
                            .pass = "",
                            .place = {}});
  note_flags();
  if (!target.chip) {
    refuse_thread_code(function);
    program = signature_of(function, reference_machine);
    source = print(function);
    report.notes.push_back(
        {.subject = "reference",
         .text = "the program at tile level, executed as it is written: nothing is laid out",
         .pass = "",
         .place = {}});
    explained = true;
    return;
  }
  if (!settings.at_machine) usual = find_usual();
  Made made = make(true);
  program = made.variant.program;
  source = program.text;
  report.kernels = std::move(made.kernels);
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
  for (auto& flag : read_flags(settings.options.flags, nvcc ? target.chip->name : "")) {
    bool idle = nvcc ? !flag.idle.empty() && flag.refusal.empty() : flag.of_nvcc;
    if (!idle) continue;
    std::string text = fmt::format("{} changes nothing: {}", flag.said, nvcc ? flag.idle : "it is for nvcc");
    report.notes.push_back(
        {.subject = std::string(flags_subject), .text = std::move(text), .pass = "", .place = {}});
  }
}

// ── variants ──────────────────────────────────────────────────────────────────────────────────────────
CompiledKernel::Usual CompiledKernel::find_usual() const {
  Usual u;
  bool aligns = target.chip->vector_alignment != 1, narrows = target.chip->index_bits <= 32;
  if (aligns) u.alignment = target.chip->vector_bytes;
  if (!aligns && !narrows) return u;
  std::vector<Expr> vars = integer_vars(function);
  Program signature = signature_of(function, *target.chip);
  for (size_t i = 0; i < vars.size(); i++) {
    if (!signature.params[size_t(signature.integers[i].param)].is_used)
      continue;  // a tensor that may be None
    int64_t elements = aligns ? elements_of_16_bytes(function, vars[i]) : 1;
    if (signature.integers[i].from != IntegerSource::From::value || elements > 1)
      u.dimensions.push_back({vars[i], signature.integers[i], elements});
  }
  for (size_t i = 0; i < function.params.size() && narrows; i++)
    if (BufferId b = function.params[i].buffer; b && !as_int(simplify(span_of(function[b]))))
      u.sized.push_back(i);
  return u;
}

bool CompiledKernel::is_usual(std::span<const Argument> arguments) const {
  if (usual.alignment > 1 && common_alignment(arguments) < usual.alignment) return false;
  for (auto& d : usual.dimensions) {
    Found found = dimension_of(d.source, arguments);
    if (!found.known || found.value % d.divisor != 0 || found.value > INT32_MAX || found.value < 0)
      return false;
  }
  for (size_t i : usual.sized)
    if (auto* t = i < arguments.size() ? std::get_if<TensorView>(&arguments[i]) : nullptr)
      if (!spans_32_bits(*t)) return false;
  return true;
}

std::string CompiledKernel::describe_usual() const {
  std::vector<std::string> parts;
  if (usual.alignment > 1)
    parts.push_back(fmt::format("addresses are divisible by {} bytes", usual.alignment));
  for (auto& d : usual.dimensions)
    if (d.divisor > 1) parts.push_back(fmt::format("{} is divisible by {}", d.source.name, d.divisor));
  if (!usual.sized.empty()) parts.push_back("tensors span fewer than 2^31 elements");
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string CompiledKernel::why_unusual(std::span<const Argument> arguments) const {
  std::vector<std::string> broken;
  if (int a = common_alignment(arguments); a < usual.alignment)
    broken.push_back(fmt::format("an address is divisible by {} bytes only, not {}", a, usual.alignment));
  for (auto& d : usual.dimensions) {
    Found found = dimension_of(d.source, arguments);
    if (!found.known) continue;
    if (found.value % d.divisor)
      broken.push_back(fmt::format("{} = {} is not divisible by {}", d.source.name, found.value, d.divisor));
    if (found.value > INT32_MAX || found.value < 0)
      broken.push_back(fmt::format("{} = {} is not in [0, 2^31)", d.source.name, found.value));
  }
  for (size_t i : usual.sized)
    if (auto* t = std::get_if<TensorView>(&arguments[i]); t && !spans_32_bits(*t))
      broken.push_back(fmt::format("{} spans 2^31 elements or more", program.params[i].name));
  return fmt::format("{}", fmt::join(broken, ", "));
}

Function CompiledKernel::function_for(bool is_usual) const {
  Function f = function;
  if (!is_usual) {
    for (Kernel& k : f.kernels) k.attrs.entries["alignment"] = int64_t(0);
    return f;
  }
  for (auto& d : usual.dimensions) {
    DType type = d.var->dtype;
    if (d.divisor > 1)
      f.facts.push_back(eq(binary(BinaryOp::floormod, d.var, imm(d.divisor, type)), zero(type)));
    if (type != i64) continue;
    f.facts.push_back(le(imm(0), d.var));
    f.facts.push_back(le(d.var, imm(INT32_MAX)));
  }
  for (size_t i : usual.sized)
    f.facts.push_back(le(simplify(span_of(f[f.params[i].buffer])), imm(INT32_MAX)));
  return f;
}

std::optional<CompiledKernel::Made> CompiledKernel::from_cache(const Cache& cache,
                                                               const std::string& key) const {
  auto start = std::chrono::steady_clock::now();
  auto entry = key.empty() ? std::nullopt : cache.load(key);
  if (!entry) return {};
  Made made{.variant = {},
            .kernels = kernel_rows(entry->program, entry->binary),
            .toolchain = entry->binary.toolchain,
            .phases = {},
            .from_cache = true};
  made.variant.program = entry->program;
  made.variant.executable = std::make_shared<Executable>(std::move(entry->program), std::move(entry->binary));
  made.phases.push_back({"read from the cache", ms_since(start)});
  return made;
}

CompiledKernel::Made CompiledKernel::make(bool is_usual) const {
  Function f = function_for(is_usual);
  Target chip = with_user_rows(*target.chip);
  Cache cache = settings.cache ? *settings.cache : disk_cache();
  bool dumps = !settings.dump_dir.empty();
  bool simulated = target.kind == "sim";  // nothing is built: quicker than to read a file
  chip.keeps_indices = simulated;
  bool caches = !cache.folder.empty() && !simulated, edits = settings.edit_text && !simulated;
  std::string key = caches && !edits ? key_of(f, chip) : "";
  if (!dumps)
    if (auto made = from_cache(cache, key)) return std::move(*made);
  std::string folder = settings.dump_dir + "/" + folder_name(f.name);
  Dump dump;
  if (dumps) {
    dump_text(folder, "00.tile.ir", print(f));
    dump = [&](int number, std::string_view pass, const Function& g) {
      dump_text(folder, fmt::format("{:02}.{}.ir", number, pass), print(g));
    };
  }
  std::future<void> opening;  // waited for on every way out
  if (!simulated && settings.options.stop_after.empty()) opening = warm_up(std::string(chip.language->name));
  Compiled compiled = settings.at_machine
                          ? Compiled{.function = f, .program = signature_of(f, chip), .phases = {}}
                          : compile(f, chip, settings.options, dump);
  if (!settings.options.stop_after.empty() && compiled.program.text.empty())
    fail(f.span, "the compilation stops after {}: there is nothing to run", settings.options.stop_after);
  if (edits) {  // what the user's function makes of it, only it itself can tell
    compiled.program.text = settings.edit_text(compiled.program.language, std::move(compiled.program.text));
    if (caches) key = key_of(f, chip, compiled.program.text);
    if (!dumps)
      if (auto made = from_cache(cache, key)) return std::move(*made);
  }
  if (dumps) dump_text(folder, fmt::format("kernel{}", chip.language->suffix), compiled.program.text);
  Made made{.variant = {}, .phases = {}};
  for (auto& p : compiled.phases) made.phases.push_back({p.name, p.ms});
  made.variant.program = compiled.program;
  if (settings.at_machine) made.variant.program.text = print(f);
  if (simulated) {
    auto translation = std::chrono::steady_clock::now();
    made.variant.simulation = prepare_simulation(compiled.function, chip);
    made.phases.push_back({"translate", ms_since(translation)});
    made.kernels = kernel_rows(compiled.program, {});
    return made;
  }
  DeviceBinary binary = built(compiled, edits);
  made.kernels = kernel_rows(compiled.program, binary);
  made.toolchain = binary.toolchain;
  made.phases.insert(made.phases.end(), binary.phases.begin(), binary.phases.end());
  if (!key.empty()) cache.store(key, {.program = compiled.program, .binary = binary});
  made.variant.executable = std::make_shared<Executable>(std::move(compiled.program), std::move(binary));
  return made;
}

const CompiledKernel::Variant& CompiledKernel::variant_for(std::span<const Argument> arguments) {
  if (is_usual(arguments)) {
    if (!usual_ran.load(std::memory_order_relaxed)) usual_ran.store(true, std::memory_order_relaxed);
    return first;
  }
  if (!general_made.load(std::memory_order_acquire)) {
    std::lock_guard guard(lock);
    if (!general) {
      Program lenient = program;  // a call that is wrong in other ways is not worth a compilation
      lenient.alignment = 0;
      Packed unused;
      check_and_pack(lenient, arguments, device_type(), unused);
      on_stack_for(function, [&] { general = std::make_unique<const Variant>(make(false).variant); });
      general_reason = why_unusual(arguments);
      general_made.store(general.get(), std::memory_order_release);
    }
  }
  if (!general_ran.load(std::memory_order_relaxed)) general_ran.store(true, std::memory_order_relaxed);
  return *general;
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
    HostArg arg{.data = t->data,
                .shape = {t->shape, t->shape + t->ndim},
                .strides = {},
                .memory = bytes_of(*t),
                .fresh = t->fresh};
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
  Function laid_out;
  Compiled compiled =
      compile(function_for(true), chip, options, [&](int, std::string_view pass, const Function& f) {
        if (pass == mapped) laid_out = f;
      });
  explain(report, function, laid_out, compiled.function, chip);
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
                         .pass = "",
                         .place = {}});
  };
  if (target.chip && (general || !usual.dimensions.empty())) {
    note("usual variant", "for calls where " + describe_usual(), usual_ran);
    if (general)
      note("general variant", "for all other calls; made for one where " + general_reason, general_ran);
  }
  return now;
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
