// tl_opt: text IR in; parsed, checked, taken through the passes, printed, executed.
//
//   tl_opt FILE                                            parse, check, print
//   tl_opt FILE --target "cuda -arch=sm_80" --stop-after infer_layouts
//   tl_opt FILE --target cpu --emit source                 the generated program
//   tl_opt run FILE --target cpu --check                   random inputs; compared with the reference
//
// Wrong input answers file:line:column: error: … and exit status 1; a fault of our own has status 2.
#include <CLI/CLI.hpp>
#include <cmath>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>

#include "api/kernel.h"
#include "base/error.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "sim/evaluate.h"

namespace tl {
namespace {

struct Arguments {
  std::string file = "-", target, stop_after, emit = "ir", level = "tile";
  std::vector<std::string> skip, set;
  bool print_after_all = false, list_passes = false, run = false, check = false;
  uint64_t seed = 1;
};

std::string read_text(const std::string& file) {
  if (file == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::ifstream in(file, std::ios::binary);
  if (!in) fail({}, "cannot read {}", file);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

Function read_function(const Arguments& a) {
  std::string name = a.file == "-" ? "<stdin>" : a.file;
  Function f = parse(read_text(a.file), name, text_vocabulary());
  Level level = a.level == "tile" ? Level::tile : a.level == "thread" ? Level::thread : Level::machine;
  if (level == Level::tile) f = complete_tiles(std::move(f));
  if (auto finding = check(f, level)) fail(finding->span, "{}", finding->text);
  return f;
}

// ── passes ────────────────────────────────────────────────────────────────────────────────────────────
void print_notes(const Function& f, const Target& target) {
  for (auto& n : f.notes) fmt::print("{} {}: {}\n", n.pass, n.subject, n.text);
  for (auto& access : measure_access(f, target)) {
    const BufferInfo& info = f[access.buffer];
    fmt::print("measure_access {}: {}\n", info.name, to_string(access, info.scope));
  }
}

void compile_and_print(const Arguments& a, Function f) {
  ResolvedTarget target = resolve_target(a.target.empty() ? "cuda -arch=sm_80" : a.target);
  if (!target.chip) fail({}, "the reference runs no passes: give another --target, or `tl_opt run`");
  Options options{.skip = a.skip, .stop_after = a.stop_after, .flags = {}};
  auto dump = [&](int number, std::string_view pass, const Function& g) {
    if (a.print_after_all) fmt::print("# {:02}.{}\n{}\n", number, pass, print(g));
  };
  Compiled c = compile(std::move(f), *target.chip, options, dump);
  if (a.emit == "source")
    fmt::print("{}", c.program.text);
  else if (a.emit == "notes")
    print_notes(c.function, *target.chip);
  else if (!a.print_after_all)
    fmt::print("{}", print(c.function));
}

// ── running ───────────────────────────────────────────────────────────────────────────────────────────
// Extents and scalars that the text leaves open, from --set NAME=VALUE.
struct Given {
  std::map<std::string, double> values;
  explicit Given(const std::vector<std::string>& settings) {
    for (auto& s : settings) {
      size_t equals = s.find('='), read = 0;
      if (equals != s.npos) try {
          values[s.substr(0, equals)] = std::stod(s.substr(equals + 1), &read);
        } catch (std::exception&) {
        }
      if (equals == s.npos || read != s.size() - equals - 1) fail({}, "--set {}: expected NAME=NUMBER", s);
    }
  }
  double of(const std::string& name) const {
    auto it = values.find(name);
    if (it == values.end()) fail({}, "the value of {} is open: give it with --set {}=NUMBER", name, name);
    return it->second;
  }
};

struct Tensor {
  DType type;
  std::vector<int64_t> shape, strides;
  std::vector<std::byte> bytes;

  int64_t size() const {
    int64_t n = 1;
    for (auto e : shape) n *= e;
    return n;
  }
  std::byte* at(int64_t i) {  // of the i-th element in row-major order
    int64_t offset = 0;
    for (size_t d = shape.size(); d-- > 0;) {
      offset += i % shape[d] * strides[d];
      i /= shape[d];
    }
    return bytes.data() + offset * type.bytes();
  }
  double number(int64_t i) {
    Scalar v = element_access(type).get(at(i));
    return type.is_float() ? v.d : double(v.i);
  }
};

struct Trial {
  std::vector<Tensor> tensors;  // by parameter; empty for a scalar
  std::vector<double> scalars;
};

Trial random_trial(const Program& program, const Given& given, uint64_t seed) {
  std::vector<int64_t> integers;
  for (auto& source : program.integers) integers.push_back(int64_t(given.of(source.name)));
  std::mt19937_64 random(seed);
  Trial trial;
  for (auto& p : program.params) {
    Tensor& t = trial.tensors.emplace_back();
    trial.scalars.push_back(p.is_tensor ? 0 : given.of(p.name));
    t.type = *parse_dtype(p.dtype);
    if (!p.is_tensor) continue;
    int64_t elements = 1;
    for (size_t d = 0; d < p.shape.size(); d++) {
      t.shape.push_back(evaluate(p.shape[d], integers));
      t.strides.push_back(evaluate(p.strides[d], integers));
      elements += (t.shape[d] - 1) * t.strides[d];
    }
    t.bytes.resize(size_t(std::max<int64_t>(elements, 1) * t.type.bytes()));
    for (int64_t i = 0; i < t.size(); i++) {
      int64_t n = int64_t(random() % 17) - 8;  // eighths: exact in every float type
      Scalar v = t.type.is_float() ? scalar(double(n) / 8) : scalar(wrap_int(n, t.type));
      element_access(t.type).put(t.at(i), v);
    }
  }
  return trial;
}

// Calls the kernel on the tensors of the trial; for a GPU through copies of them.
void launch(CompiledKernel& kernel, Trial& trial) {
  std::string reason;
  Device* gpu = kernel.device_type() == device_cuda ? cuda_device(cuda_current_ordinal(), &reason) : nullptr;
  if (kernel.device_type() == device_cuda && !gpu) fail({}, "no CUDA device answers ({})", reason);
  std::vector<Argument> arguments;
  for (size_t i = 0; i < trial.tensors.size(); i++) {
    Tensor& t = trial.tensors[i];
    auto& spec = kernel.program.params[i];
    if (!spec.is_tensor) {
      arguments.push_back(t.type.is_float() ? Argument(trial.scalars[i])
                                            : Argument(int64_t(trial.scalars[i])));
      continue;
    }
    DlType dl = dl_type(spec.dtype);
    TensorView view{.data = t.bytes.data(),
                    .code = dl.code,
                    .bits = dl.bits,
                    .ndim = int(t.shape.size()),
                    .shape = t.shape.data(),
                    .strides = t.strides.data(),
                    .device_type = kernel.device_type()};
    if (gpu) {
      view.device_id = gpu->ordinal;
      view.data = gpu->allocate(t.bytes.size(), 0);
      gpu->copy_in(view.data, t.bytes.data(), t.bytes.size(), 0);
    }
    arguments.push_back(view);
  }
  kernel.launch(arguments);
  for (size_t i = 0; gpu && i < arguments.size(); i++)
    if (auto* view = std::get_if<TensorView>(&arguments[i])) {
      gpu->copy_out(trial.tensors[i].bytes.data(), view->data, trial.tensors[i].bytes.size(), 0);
      gpu->release(view->data, 0);
    }
}

void print_results(const Program& program, Trial& trial) {
  for (size_t i = 0; i < program.params.size(); i++) {
    if (!program.params[i].is_written) continue;
    Tensor& t = trial.tensors[i];
    double sum = 0;
    std::string first;
    for (int64_t n = 0; n < t.size(); n++) {
      sum += t.number(n);
      if (n < 6) first += fmt::format(" {:g}", t.number(n));
    }
    fmt::print("{}: {} elements of {}, sum {:.9g}, first{}\n", program.params[i].name, t.size(),
               to_string(t.type), sum, first);
  }
}

double tolerance(DType type) {
  if (!type.is_float()) return 0;
  return type.bits == 64 ? 1e-12 : type.bits == 32 ? 1e-5 : type == bf16 ? 8e-3 : 1e-3;
}

bool agrees(const Program& program, Trial& trial, Trial& wanted) {
  bool good = true;
  for (size_t i = 0; i < program.params.size(); i++) {
    if (!program.params[i].is_written) continue;
    double error = 0, norm = 0;
    for (int64_t n = 0; n < trial.tensors[i].size(); n++) {
      double a = trial.tensors[i].number(n), b = wanted.tensors[i].number(n);
      error += (a - b) * (a - b);
      norm += b * b;
    }
    error = std::sqrt(norm > 0 ? error / norm : error);
    bool ok = error <= tolerance(trial.tensors[i].type);
    fmt::print("{}: relative error against the reference {:.2g}{}\n", program.params[i].name, error,
               ok ? "" : ": WRONG");
    good &= ok;
  }
  return good;
}

int run(const Arguments& a, const Function& f) {
  Settings settings{
      .options = {.skip = a.skip, .stop_after = "", .flags = {}}, .cache = std::nullopt, .dump_dir = ""};
  auto kernel = compile_kernel(f, a.target.empty() ? "reference" : a.target, settings);
  Trial trial = random_trial(kernel->program, Given(a.set), a.seed);
  Trial wanted = trial;
  launch(*kernel, trial);
  print_results(kernel->program, trial);
  if (!a.check) return 0;
  auto reference = compile_kernel(f, "reference", settings);
  launch(*reference, wanted);
  return agrees(reference->program, trial, wanted) ? 0 : 1;
}

// ── the command line ──────────────────────────────────────────────────────────────────────────────────
void declare_options(CLI::App& app, Arguments& a) {
  app.add_option("FILE", a.file, "text IR; - is standard input");
  app.add_option("--target", a.target,
                 "cuda -arch=CHIP, sim:CHIP, cpu, cpu -mcpu=CHIP; for `run` also reference");
  app.add_option("--stop-after", a.stop_after, "the last pass to run");
  app.add_option("--skip", a.skip, "a pass to leave out; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--print-after-all", a.print_after_all, "print the IR after every pass");
  app.add_option("--emit", a.emit,
                 "what to print: ir, source, or notes: what the passes decided, and what accesses cost")
      ->check(CLI::IsMember({"ir", "source", "notes"}));
  app.add_option("--level", a.level, "the level of the input")
      ->check(CLI::IsMember({"tile", "thread", "machine"}));
  app.add_flag("--list-passes", a.list_passes, "print the names of the passes, in order");
  auto* run = app.add_subcommand("run", "execute on random inputs")->fallthrough();
  run->add_option("--seed", a.seed, "of the random inputs");
  run->add_option("--set", a.set, "NAME=NUMBER: an extent or a scalar; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  run->add_flag("--check", a.check, "compare with the reference");
  run->callback([&a] { a.run = true; });
}

int work(const Arguments& a) {
  if (a.list_passes) {
    for (auto name : pass_names()) fmt::print("{}\n", name);
    return 0;
  }
  Function f = read_function(a);
  if (a.run) return run(a, f);
  bool passes =
      !a.target.empty() || !a.stop_after.empty() || !a.skip.empty() || a.print_after_all || a.emit != "ir";
  if (passes)
    compile_and_print(a, std::move(f));
  else
    fmt::print("{}", print(f));
  return 0;
}

}  // namespace
}  // namespace tl

int main(int argc, char** argv) {
  tl::Arguments arguments;
  CLI::App app("Reads, checks, compiles and runs text IR.", "tl_opt");
  tl::declare_options(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  try {
    return tl::work(arguments);
  } catch (const tl::CompileError& e) {
    std::cerr << e.what() << "\n";
    return 1;
  } catch (const std::exception& e) {
    std::cerr << "tl_opt: " << e.what() << "\n";
    return 2;
  }
}
