// Random arguments, a call, a comparison, a verdict.
#include "trial.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace tl {

double Given::of(const std::string& name) const {
  auto it = values.find(name);
  if (it == values.end()) fail({}, "the value of {} is open: give it with --set {}=NUMBER", name, name);
  return it->second;
}

int64_t Tensor::size() const {
  int64_t n = 1;
  for (auto e : shape) n *= e;
  return n;
}
std::byte* Tensor::at(int64_t i) {
  int64_t offset = 0;
  for (size_t d = shape.size(); d-- > 0;) {
    offset += i % shape[d] * strides[d];
    i /= shape[d];
  }
  return bytes.data() + offset * type.bytes();
}
double Tensor::number(int64_t i) {
  Scalar v = element_access(type).get(at(i));
  return type.is_float() ? v.d : float_of_int(v.i, type, f64);
}

int64_t Tensor::whole(int64_t i) { return element_access(type).get(at(i)).i; }

static int64_t extreme_number(std::mt19937_64& random, DType type) {
  int64_t power = int64_t(uint64_t(1) << random() % type.bits), near = int64_t(random() % 3) - 1;
  int64_t end = type.is_signed() ? int64_t(uint64_t(1) << (type.bits - 1)) : 0;
  const int64_t pool[] = {end,
                          int64_t(uint64_t(end) - 1),
                          power,
                          int64_t(0 - uint64_t(power)),
                          near,
                          int64_t(uint64_t(power) + uint64_t(near)),
                          int64_t(random()),
                          int64_t(random() % 21) - 10};
  return wrap_int(pool[random() % std::size(pool)], type);
}

constexpr std::string_view input_names[] = {"eighths", "whole", "extreme", "bits"};
std::string_view name_of(Inputs inputs) { return input_names[size_t(inputs)]; }
std::optional<Inputs> find_inputs(std::string_view name) {
  for (size_t i = 0; i < std::size(input_names); i++)
    if (input_names[i] == name) return Inputs(i);
  return std::nullopt;
}

static void put_random_bits(std::mt19937_64& random, DType type, std::byte* at) {
  uint64_t bits = random();
  if (type.is_bool()) bits &= 1;
  if (type.is_float() && random() % 3 == 0) bits |= float_bits(INFINITY, type, Rounding::nearest_even, false);
  std::memcpy(at, &bits, size_t(type.bytes()));
}

Trial random_trial(const Program& program, const Given& given, uint64_t seed, Inputs inputs) {
  std::vector<int64_t> integers;
  for (auto& source : program.integers) integers.push_back(truncated(given.of(source.name), u64));
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
    uint64_t own_seed = seed;
    for (char c : p.name) own_seed = own_seed * 31 + uint64_t(c);
    std::mt19937_64 random(own_seed);
    bool whole = inputs != Inputs::eighths, extreme = inputs == Inputs::extreme && t.type.is_int();
    for (int64_t i = 0; i < t.size(); i++) {
      if (inputs == Inputs::bits) {
        put_random_bits(random, t.type, t.at(i));
        continue;
      }
      int64_t n = whole ? int64_t(random() % 7) - 3 : int64_t(random() % 17) - 8;
      Scalar v = extreme             ? scalar(extreme_number(random, t.type))
                 : t.type.is_float() ? scalar(whole ? double(n) : double(n) / 8)
                                     : scalar(wrap_int(n, t.type));
      element_access(t.type).put(t.at(i), v);
    }
  }
  return trial;
}

std::vector<Argument> arguments_of(const Program& program, Trial& trial, int device_type) {
  std::vector<Argument> arguments;
  for (size_t i = 0; i < trial.tensors.size(); i++) {
    Tensor& t = trial.tensors[i];
    auto& spec = program.params[i];
    if (!spec.is_tensor) {
      arguments.push_back(t.type.is_float()            ? Argument(trial.scalars[i])
                          : trial.scalars[i] >= 0x1p63 ? Argument(uint64_t(trial.scalars[i]))
                                                       : Argument(int64_t(trial.scalars[i])));
      continue;
    }
    DlType dl = dl_type(spec.dtype);
    arguments.push_back(TensorView{.data = t.bytes.data(),
                                   .code = dl.code,
                                   .bits = dl.bits,
                                   .ndim = int(t.shape.size()),
                                   .shape = t.shape.data(),
                                   .strides = t.strides.data(),
                                   .device_type = device_type});
  }
  return arguments;
}

void launch(CompiledKernel& kernel, Trial& trial) {
  std::string reason;
  Device* gpu = kernel.device_type() == device_cuda ? cuda_device(cuda_current_ordinal(), &reason) : nullptr;
  if (kernel.device_type() == device_cuda && !gpu) fail({}, "no CUDA device answers ({})", reason);
  std::vector<Argument> arguments = arguments_of(kernel.program, trial, kernel.device_type());
  for (size_t i = 0; gpu && i < arguments.size(); i++)
    if (auto* view = std::get_if<TensorView>(&arguments[i])) {
      view->device_id = gpu->ordinal;
      view->data = gpu->allocate(trial.tensors[i].bytes.size(), 0);
      gpu->copy_in(view->data, trial.tensors[i].bytes.data(), trial.tensors[i].bytes.size(), 0);
    }
  kernel.launch(arguments);
  for (size_t i = 0; gpu && i < arguments.size(); i++)
    if (auto* view = std::get_if<TensorView>(&arguments[i])) {
      gpu->copy_out(trial.tensors[i].bytes.data(), view->data, trial.tensors[i].bytes.size(), 0);
      gpu->release(view->data, 0);
    }
}

double error_of(Tensor& got, Tensor& wanted) {
  double largest = 1, error = 0;
  for (int64_t n = 0; n < wanted.size(); n++) {
    double a = got.number(n), b = wanted.number(n);
    if (std::isfinite(b)) largest = std::max(largest, std::fabs(b));
    bool same = a == b || (std::isnan(a) && std::isnan(b));
    double difference = same ? 0 : std::fabs(a - b);
    if (!got.type.is_float() && got.whole(n) != wanted.whole(n))  // doubles do not tell all integers apart
      difference = std::max(difference, 1.0);
    error = std::isnan(difference) ? INFINITY : std::max(error, difference);
  }
  return error / largest;
}

double tolerance(DType type) {
  if (!type.is_float()) return 0;
  return type.bits == 64 ? 1e-12 : type.bits == 32 ? 1e-5 : type == bf16 ? 8e-3 : 1e-3;
}

// ── verdicts ──────────────────────────────────────────────────────────────────────────────────────────
std::string to_string(const Verdict& v) {
  static constexpr std::string_view names[] = {"right", "refused", "wrong", "finding", "crash"};
  return v.text.empty() ? std::string(names[size_t(v.kind)])
                        : fmt::format("{}: {}", names[size_t(v.kind)], v.text);
}

static std::string differences(Tensor& got, Tensor& wanted) {
  int64_t count = 0, first = -1;
  for (int64_t i = wanted.size() - 1; i >= 0; i--)
    if (got.number(i) != wanted.number(i)) count++, first = i;
  if (first < 0) return "integers that doubles do not tell apart";
  return fmt::format("{} of {} elements, of which element {} is {}, not {}", count, wanted.size(), first,
                     got.number(first), wanted.number(first));
}

// The first element that has other bits than it should.
static Verdict compare_bits(const std::string& name, Tensor& got, Tensor& wanted) {
  auto code = [](Tensor& t, int64_t i) {
    uint64_t bits = 0;
    std::memcpy(&bits, t.at(i), size_t(t.type.bytes()));
    return bits;
  };
  for (int64_t i = 0; i < wanted.size(); i++)
    if (code(got, i) != code(wanted, i))
      return {.kind = Verdict::Kind::wrong,
              .what = "",
              .text = fmt::format("element {} of {} has the bits {:#x}, not {:#x}", i, name, code(got, i),
                                  code(wanted, i))};
  return {};
}

Verdict compare(const Program& program, Trial& got, Trial& wanted, const Test& test) {
  for (size_t i = 0; i < program.params.size(); i++) {
    if (!program.params[i].is_tensor) continue;
    if (test.inputs == Inputs::bits) {
      Verdict v = compare_bits(program.params[i].name, got.tensors[i], wanted.tensors[i]);
      if (v.is_failure()) return v;
      continue;
    }
    double error = error_of(got.tensors[i], wanted.tensors[i]), most = tolerance(got.tensors[i].type);
    if (error > (most > 0 ? std::max(test.tolerance, most) : 0))
      return {.kind = Verdict::Kind::wrong,
              .what = "",
              .text = fmt::format("{} differs by {:.2g} of its largest number: {}", program.params[i].name,
                                  error, differences(got.tensors[i], wanted.tensors[i]))};
  }
  return {};
}

namespace {

bool ask_reference(const Function& f, Trial& trial) {
  try {
    launch(*compile_kernel(f, "reference"), trial);
    return true;
  } catch (const CompileError&) {
    return false;  // thread-level code, say: nobody knows
  }
}

Verdict judge_function(const Function& f, const Test& test) {
  Settings settings{.options = test.options, .cache = Cache{}, .dump_dir = "", .at_machine = test.at_machine};
  auto kernel = compile_kernel(f, test.target, settings);
  Trial trial = random_trial(kernel->program, test.given, test.seed, test.inputs), wanted = trial;
  bool compares = !test.at_machine && (test.oracle ? test.oracle(f, wanted) : ask_reference(f, wanted));
  if (kernel->target.kind == "sim") {
    SimulationOptions options{.seed = test.first_schedule, .schedules = test.schedules};
    auto report = kernel->simulate(arguments_of(kernel->program, trial), options);
    if (!report.findings.empty())
      return {.kind = Verdict::Kind::finding,
              .what = std::string(name_of(report.findings[0].kind)),
              .text = report.findings[0].text};
  } else {
    launch(*kernel, trial);
  }
  return compares ? compare(kernel->program, trial, wanted, test) : Verdict{};
}

std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

}  // namespace

Verdict judge(const std::string& text, const Test& test) try {
  Function f = parse(text, "program.ir", text_vocabulary());
  return judge_function(test.at_machine ? f : complete_tiles(std::move(f)), test);
} catch (const CompileError& e) {
  return {.kind = Verdict::Kind::refused, .what = "", .text = e.text, .line = int(e.span.line)};
} catch (const std::exception& e) {
  return {.kind = Verdict::Kind::crash, .what = first_line(e.what()), .text = first_line(e.what())};
}

Verdict judge_apart(const std::string& text, const Test& test, double seconds) {
  int ends[2];
  internal_check(pipe(ends) == 0, "a pipe");
  pid_t child = fork();
  internal_check(child >= 0, "a process");
  if (child == 0) {
    rlimit most{.rlim_cur = rlim_t(std::ceil(seconds)), .rlim_max = RLIM_INFINITY};
    setrlimit(RLIMIT_CPU, &most);
    Verdict v = judge(text, test);
    std::string message = fmt::format("{}\n{}\n{}", int(v.kind), v.what, first_line(v.text));
    bool told = write(ends[1], message.data(), message.size()) == ssize_t(message.size());
    _exit(told ? 0 : 1);
  }
  close(ends[1]);
  std::string message;
  char part[4096];
  pollfd waits{.fd = ends[0], .events = POLLIN, .revents = 0};
  bool ended = false;
  constexpr int share = 10;  // of a processor, at the least: a busy machine is no reason to give up
  while (poll(&waits, 1, int(seconds * share * 1000)) > 0) {
    ssize_t n = read(ends[0], part, sizeof part);
    if ((ended = n <= 0)) break;
    message.append(part, size_t(n));
  }
  close(ends[0]);
  if (!ended) kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (ended && WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    size_t first = message.find('\n'), second = message.find('\n', first + 1);
    return {.kind = Verdict::Kind(std::atoi(message.c_str())),
            .what = message.substr(first + 1, second - first - 1),
            .text = message.substr(second + 1)};
  }
  int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  bool late = !ended || signal == SIGXCPU;
  std::string what = late ? fmt::format("no end after {} s", seconds) : fmt::format("signal {}", signal);
  return {.kind = Verdict::Kind::crash, .what = what, .text = what};
}

bool fails_alike(const std::string& text, const Test& test, const Verdict& before, double seconds) {
  if (!judge_apart(text, test, seconds).is_like(before)) return false;
  if (before.kind != Verdict::Kind::wrong || test.target.starts_with("sim:")) return true;
  Test simulated = test;
  simulated.target = "sim:sm_90";
  return judge_apart(text, simulated, seconds).kind != Verdict::Kind::finding;
}

}  // namespace tl
