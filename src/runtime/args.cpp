// Checks are in the order in which one mistake explains the others: count, None, type and rank, device; then
// the integers are read from the arguments, and shapes, strides, alignment and aliasing are checked against
// them.
#include "runtime/args.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "runtime/device.h"
#include "runtime/half.h"
#include "runtime/overlap.h"

namespace tl {
namespace {

constexpr int64_t unknown = INT64_MIN;  // an integer whose tensor was not looked at yet

std::string described(const Program& program, size_t param) {
  return fmt::format("{}: argument {} '{}'", program.name, param, program.params[param].name);
}

// How an array of that type is made of another; nothing for types that NumPy does not have itself.
std::string conversion(const ParamSpec& spec, const TensorView& given) {
  DlType type = dl_type(spec.dtype);
  bool is_plain = type.code <= 2 && spec.dtype != "tf32" && spec.dtype.find('x') == std::string::npos;
  if (given.ndim != int(spec.shape.size()) || holds_elements(spec.dtype, given) || !is_plain) return "";
  std::string dtype = python_dtype(spec.dtype);
  if (spec.is_written) return fmt::format("; the kernel writes to it, so make the array itself {}", dtype);
  return fmt::format("; pass {0}.astype(\"{1}\"), of a PyTorch tensor {0}.to(torch.{1})", spec.name, dtype);
}

std::string tensor_text(const TensorView& t) {
  return fmt::format("{}[{}]", python_dtype(dtype_name(t.code, t.bits, t.lanes)),
                     fmt::join(t.shape, t.shape + t.ndim, ", "));
}

// "128", "M=64", "M" while M is not known, the number of a compound formula, else "?".
std::string extent_text(const Program& program, const Formula& formula, std::span<const int64_t> integers) {
  if (formula.steps.size() == 1 && formula.steps[0].op == Formula::Op::integer) {
    auto i = size_t(formula.steps[0].value);
    const std::string& name = program.integers[i].name;
    return integers[i] == unknown ? name : fmt::format("{}={}", name, integers[i]);
  }
  for (const Formula::Step& step : formula.steps)
    if (step.op == Formula::Op::integer && integers[size_t(step.value)] == unknown) return "?";
  return fmt::format("{}", evaluate(formula, integers));
}

std::string expected_text(const Program& program, const ParamSpec& spec, std::span<const int64_t> integers) {
  std::vector<std::string> extents;
  for (const Formula& f : spec.shape) extents.push_back(extent_text(program, f, integers));
  return fmt::format("{}[{}]", python_dtype(spec.dtype), fmt::join(extents, ", "));
}

std::string device_text(int type, int id) {
  switch (type) {
    case 1:
      return "on the CPU";
    case 2:
      return fmt::format("on cuda:{}", id);
    case 10:
      return fmt::format("on rocm:{}", id);
    default:
      return fmt::format("on a device of DLPack type {}", type);
  }
}

int device_type_of(const TensorView& t) {
  if (t.device_type == 3 || t.device_type == 11) return device_cpu;  // pinned host memory
  return t.device_type == 13 ? int(device_cuda) : t.device_type;     // managed memory
}

bool is_empty(const TensorView& t) { return std::find(t.shape, t.shape + t.ndim, 0) != t.shape + t.ndim; }

// ── scalars ────────────────────────────────────────────────────────────────────────────────────────────────

std::string scalar_text(const Argument& argument) {
  if (auto t = std::get_if<TensorView>(&argument)) return tensor_text(*t);
  if (auto i = std::get_if<int64_t>(&argument)) return fmt::format("the number {}", *i);
  if (auto i = std::get_if<uint64_t>(&argument)) return fmt::format("the number {}", *i);
  if (auto f = std::get_if<double>(&argument)) return fmt::format("the number {}", *f);
  return "None";
}

uint64_t pack_scalar(const Program& program, size_t param, const Argument& argument) {
  if (program.params[param].dtype == "handle") {  // an address, or the tensor that lies there
    if (auto t = std::get_if<TensorView>(&argument)) return reinterpret_cast<uintptr_t>(t->data);
    if (auto address = std::get_if<int64_t>(&argument)) return uint64_t(*address);
    if (auto address = std::get_if<uint64_t>(&argument)) return *address;
    throw ArgumentError(fmt::format("{} is {} but a tensor or its address was expected",
                                    described(program, param), scalar_text(argument)));
  }
  DlType type = dl_type(program.params[param].dtype);
  auto integer = std::get_if<int64_t>(&argument);
  auto large = std::get_if<uint64_t>(&argument);
  auto real = std::get_if<double>(&argument);
  bool wants_real = type.code == 2 || type.code == 4;
  std::string dtype = python_dtype(program.params[param].dtype);
  if (!integer && !large && !(real && wants_real))
    throw ArgumentError(fmt::format("{} is {} but a number of type {} was expected",
                                    described(program, param), scalar_text(argument), dtype));
  if (wants_real) {
    double value = integer ? double(*integer) : large ? double(*large) : *real;
    uint16_t half = type.code == 4 ? bfloat_from_double(value) : half_from_double(value);
    bool infinite = type.bits == 16 ? (half & 0x7fff) == (type.code == 4 ? 0x7f80 : 0x7c00)
                                    : type.bits == 32 && std::isinf(float(value));
    if (infinite && std::isfinite(value))
      throw ArgumentError(fmt::format("{} is {}, which {} cannot hold: for infinity pass float('{}inf')",
                                      described(program, param), scalar_text(argument), dtype,
                                      value < 0 ? "-" : ""));
    if (type.bits == 16) return half;
    return type.bits == 32 ? std::bit_cast<uint32_t>(float(value)) : std::bit_cast<uint64_t>(value);
  }
  if (type.code == 6) return large || *integer != 0;
  bool fits = large             ? type.code == 1 && type.bits == 64
              : type.bits == 64 ? type.code == 0 || *integer >= 0
              : type.code == 1  ? *integer >= 0 && *integer >> type.bits == 0
                                : *integer >> (type.bits - 1) == (*integer < 0 ? -1 : 0);
  if (!fits)
    throw ArgumentError(fmt::format("{} is {}, which {} cannot hold", described(program, param),
                                    large ? std::to_string(*large) : std::to_string(*integer), dtype));
  return large ? *large : uint64_t(*integer);
}

// ── tensors ────────────────────────────────────────────────────────────────────────────────────────────────

struct Checker {
  const Program& program;
  std::span<const Argument> arguments;
  int device_type;
  Packed& out;

  const TensorView& tensor(size_t param) const { return std::get<TensorView>(arguments[param]); }
  const ParamSpec& spec(size_t param) const { return program.params[param]; }

  [[noreturn]] void mismatch(size_t param, const std::string& why = "") const {
    throw ArgumentError(fmt::format("{} is {} but {} was expected{}", described(program, param),
                                    scalar_text(arguments[param]),
                                    expected_text(program, spec(param), out.integers), why));
  }

  void check_count() const {
    if (arguments.size() == program.params.size()) return;
    std::vector<std::string> names;
    for (const ParamSpec& p : program.params) names.push_back(p.name);
    throw ArgumentError(fmt::format("{}: {} argument{} expected ({}) but {} {} given", program.name,
                                    names.size(), names.size() == 1 ? " was" : "s were",
                                    fmt::join(names, ", "), arguments.size(),
                                    arguments.size() == 1 ? "was" : "were"));
  }

  void check_type(size_t param) const {
    auto t = std::get_if<TensorView>(&arguments[param]);
    if (!t) mismatch(param);
    if (!holds_elements(spec(param).dtype, *t) || t->ndim != int(spec(param).shape.size()))
      mismatch(param, conversion(spec(param), *t));
  }

  void check_device(size_t param) {
    const TensorView& t = tensor(param);
    int type = device_type_of(t);
    if (type != device_type) {
      const char* cure = type == device_cpu    ? "move it there, or compile with target=\"cpu\""
                         : type == device_cuda ? "move it to the CPU, or compile with target=\"cuda\""
                                               : "move it there";
      throw ArgumentError(fmt::format("{} is {} but the function was compiled for {}; {}",
                                      described(program, param), device_text(type, t.device_id),
                                      device_type == device_cpu    ? "the CPU"
                                      : device_type == device_cuda ? "CUDA"
                                                                   : "AMD's GPUs",
                                      cure));
    }
    if (type == device_cpu || out.device_id == t.device_id) return;
    if (out.device_id < 0) {
      out.device_id = t.device_id;
      return;
    }
    size_t other = 0;
    while (!std::holds_alternative<TensorView>(arguments[other])) other++;
    throw ArgumentError(fmt::format("{} is {} but argument {} '{}' is {}; all must be on one GPU",
                                    described(program, param), device_text(type, t.device_id), other,
                                    spec(other).name, device_text(type, out.device_id)));
  }

  void check_shape(size_t param) const {
    const TensorView& t = tensor(param);
    const ParamSpec& s = spec(param);
    for (int d = 0; d < t.ndim; d++) {
      const Formula& wanted = s.shape[size_t(d)];
      if (t.shape[d] == evaluate(wanted, out.integers)) continue;
      std::string why;
      if (wanted.steps.size() == 1 && wanted.steps[0].op == Formula::Op::integer) {
        const IntegerSource& from = program.integers[size_t(wanted.steps[0].value)];
        if (from.from == IntegerSource::From::extent && from.is_whole() && size_t(from.param) != param)
          why = fmt::format(" ({} is extent {} of argument {} '{}')", from.name, from.dim, from.param,
                            spec(size_t(from.param)).name);
      }
      mismatch(param, why);
    }
  }

  void check_strides(size_t param) const {
    const TensorView& t = tensor(param);
    const ParamSpec& s = spec(param);
    bool same = true;
    for (int d = t.ndim - 1; d >= 0; d--)
      same = same && (t.shape[d] == 1 || stride_of(t, d) == evaluate(s.strides[size_t(d)], out.integers));
    if (same) return;
    std::vector<int64_t> actual, wanted;
    for (int d = 0; d < t.ndim; d++) actual.push_back(stride_of(t, d));
    for (const Formula& f : s.strides) wanted.push_back(evaluate(f, out.integers));
    throw ArgumentError(fmt::format("{} has strides ({}) but ({}) was expected; {}",
                                    described(program, param), fmt::join(actual, ", "),
                                    fmt::join(wanted, ", "), cure_of_strides(t, wanted)));
  }

  /// What to pass for a tensor of these extents whose strides must be `wanted`.
  static const char* cure_of_strides(const TensorView& t, const std::vector<int64_t>& wanted) {
    bool rows = true, columns = true;  // in row-major, in column-major order without gaps
    int64_t step = 1;
    for (size_t d = wanted.size(); d-- > 0; step *= t.shape[d])
      rows = rows && (t.shape[d] == 1 || wanted[d] == step);
    step = 1;
    for (size_t d = 0; d < wanted.size(); step *= t.shape[d++])
      columns = columns && (t.shape[d] == 1 || wanted[d] == step);
    if (rows) return "pass a contiguous copy";
    if (columns)
      return "pass a copy in column-major order: np.asfortranarray(x), or a contiguous array of the extents "
             "in reverse with its axes reversed";
    return "pass a view that has them, or declare the parameter with the strides that are passed (T.dynamic "
           "names take any)";
  }

  void check_memory(size_t param) const {
    const TensorView& t = tensor(param);
    auto address = reinterpret_cast<uintptr_t>(t.data);
    if (!address)
      throw ArgumentError(fmt::format("{} has no memory (a null address)", described(program, param)));
    if (spec(param).is_written && t.readonly)
      throw ArgumentError(
          fmt::format("{} is read-only, but the function writes to it", described(program, param)));
    if (spec(param).is_written && overlaps_itself(t))
      throw ArgumentError(
          fmt::format("{} is written, but its strides ({}) put several of its elements at one address; pass "
                      "a tensor without overlaps",
                      described(program, param), fmt::join(t.strides, t.strides + t.ndim, ", ")));
    int wanted =
        program.alignment ? program.alignment : std::max(1, spec(param).bits / 8);  // 0: its element's
    if (address % uintptr_t(wanted) != 0)
      throw ArgumentError(fmt::format("{} is at {:#x}, but an address divisible by {} was expected",
                                      described(program, param), address, wanted));
  }
};

void check_aliasing(const Program& program, std::span<const Argument> arguments) {
  for (size_t i = 0; i < arguments.size(); i++) {
    if (!program.params[i].is_tensor || !program.params[i].is_written) continue;
    auto given = std::get_if<TensorView>(&arguments[i]);
    if (!given || is_empty(*given)) continue;
    const TensorView& written = *given;
    for (size_t k = 0; k < arguments.size(); k++) {
      auto other = std::get_if<TensorView>(&arguments[k]);
      if (k == i || !other || is_empty(*other) || !share_memory(written, *other)) continue;
      if (program.params[i].may_overlap || program.params[k].may_overlap) continue;
      throw ArgumentError(
          fmt::format("{} is written, but shares memory with argument {} '{}'; pass separate tensors",
                      described(program, i), k, program.params[k].name));
    }
  }
}

// ── integers ───────────────────────────────────────────────────────────────────────────────────────────────

// An integer's value from the argument that it comes from; unknown if that is not given.
int64_t read_integer(const IntegerSource& source, const Argument& argument) {
  if (source.from == IntegerSource::From::value) {
    auto value = std::get_if<int64_t>(&argument);
    return value ? *value : unknown;
  }
  auto t = std::get_if<TensorView>(&argument);
  if (!t || source.dim >= t->ndim) return unknown;
  return source.from == IntegerSource::From::extent ? source.solve(t->shape[source.dim])
                                                    : stride_of(*t, source.dim);
}

bool is_none(const Argument& argument) { return std::holds_alternative<std::monostate>(argument); }

// The one integer that a formula names.
std::optional<size_t> only_integer(const Formula& formula) {
  std::optional<size_t> found;
  for (const Formula::Step& step : formula.steps) {
    if (step.op != Formula::Op::integer) continue;
    if (found && *found != size_t(step.value)) return std::nullopt;
    found = size_t(step.value);
  }
  return found;
}

// What that integer is where the formula has this value, if it is a multiple of the integer plus a constant.
int64_t solve(const Formula& formula, size_t integer, int64_t value, size_t count) {
  auto at = [&](int64_t n) {
    std::vector<int64_t> tried(count, 0);
    tried[integer] = n;
    return evaluate(formula, tried);
  };
  int64_t offset = at(0), factor = at(1) - offset;
  if (factor <= 0 || at(2) != offset + 2 * factor) return unknown;
  return value < offset ? 0 : (value - offset) / factor;
}

// An integer whose source is not given may have a twin: another tensor with the same symbol in its shape.
void read_twins(const Program& program, std::span<const Argument> arguments, std::vector<int64_t>& integers) {
  for (size_t i = 0; i < arguments.size(); i++)
    if (auto t = std::get_if<TensorView>(&arguments[i]);
        t && size_t(t->ndim) == program.params[i].shape.size())
      for (int d = 0; d < t->ndim; d++) {
        const Formula& extent = program.params[i].shape[size_t(d)];
        auto named = only_integer(extent);
        if (named && integers[*named] == unknown)
          integers[*named] = solve(extent, *named, t->shape[d], integers.size());
      }
}

// Whether an extent, a grid, a workspace or a tensor map is computed from it.
bool sizes_name(const Program& program, size_t integer) {
  auto any = [&](const std::vector<Formula>& formulas) {
    return std::ranges::any_of(formulas, [&](auto& f) { return names_integer(f, integer); });
  };
  auto of_tensor = [&](auto& t) { return any(t.shape) || any(t.strides); };
  return std::ranges::any_of(program.checks, [&](auto& c) { return names_integer(c.holds, integer); }) ||
         std::ranges::any_of(program.params, of_tensor) || std::ranges::any_of(program.maps, of_tensor) ||
         std::ranges::any_of(program.entries, [&](auto& e) { return any(e.grid); }) ||
         std::ranges::any_of(program.workspaces, [&](auto& w) { return names_integer(w.bytes, integer); });
}

// Whether a launch takes the integer's value.
bool needs_integer(const Program& program, size_t integer) {
  for (const EntrySpec& entry : program.entries) {
    for (const Formula& extent : entry.grid)
      if (names_integer(extent, integer)) return true;
    for (const EntrySpec::Arg& arg : entry.args)
      if (arg.from == EntrySpec::Arg::From::integer && size_t(arg.index) == integer) return true;
  }
  for (const Workspace& w : program.workspaces)
    if (names_integer(w.bytes, integer)) return true;
  for (const CheckSpec& check : program.checks)
    if (names_integer(check.holds, integer)) return true;
  return false;
}

// A number from 2^63 on is as good as any, but for sizes.
void check_large(const Program& program, std::span<const Argument> arguments) {
  for (size_t i = 0; i < program.integers.size(); i++) {
    const IntegerSource& source = program.integers[i];
    auto large = std::get_if<uint64_t>(&arguments[size_t(source.param)]);
    if (large && sizes_name(program, i))
      throw ArgumentError(fmt::format("{} is {}, but sizes are computed from it: it must be less than 2^63",
                                      described(program, size_t(source.param)), *large));
  }
}

// A number that only tensors which are None determine is 0, if it is not needed.
void settle_unknown(const Program& program, std::span<const Argument> arguments,
                    std::vector<int64_t>& integers) {
  for (size_t i = 0; i < integers.size(); i++) {
    if (integers[i] != unknown) continue;
    const IntegerSource& source = program.integers[i];
    if (source.from == IntegerSource::From::value &&
        !std::holds_alternative<uint64_t>(arguments[size_t(source.param)]))
      continue;  // the number that `unknown` is
    if (source.from != IntegerSource::From::value && needs_integer(program, i))
      throw ArgumentError(fmt::format("{} is None, but the kernel needs {}, which is {} {} of that tensor",
                                      described(program, size_t(source.param)), source.name,
                                      source.from == IntegerSource::From::extent ? "extent" : "stride",
                                      source.dim));
    integers[i] = 0;
  }
}

}  // namespace

void check_and_pack(const Program& program, std::span<const Argument> arguments, int device_type,
                    Packed& out) {
  Checker checker{program, arguments, device_type, out};
  checker.check_count();
  out.device_id = device_type == device_cpu ? 0 : -1;
  out.slots.clear();
  out.integers.assign(program.integers.size(), unknown);
  for (size_t i = 0; i < arguments.size(); i++) {
    if (!program.params[i].is_tensor) {
      if (std::holds_alternative<TensorView>(arguments[i])) checker.check_device(i);
      out.slots.push_back(pack_scalar(program, i, arguments[i]));
      continue;
    }
    if (is_none(arguments[i]) && !program.params[i].is_used) {
      out.slots.push_back(0);
      continue;
    }
    checker.check_type(i);
    checker.check_device(i);
    out.slots.push_back(reinterpret_cast<uintptr_t>(checker.tensor(i).data));
  }
  for (size_t i = 0; i < program.integers.size(); i++)
    out.integers[i] = read_integer(program.integers[i], arguments[size_t(program.integers[i].param)]);
  check_large(program, arguments);
  if (std::ranges::find(out.integers, unknown) != out.integers.end()) {
    read_twins(program, arguments, out.integers);
    settle_unknown(program, arguments, out.integers);
  }
  for (size_t i = 0; i < arguments.size(); i++) {
    if (!program.params[i].is_tensor || is_none(arguments[i])) continue;
    checker.check_shape(i);
    if (is_empty(checker.tensor(i))) continue;
    checker.check_strides(i);
    checker.check_memory(i);
  }
  check_aliasing(program, arguments);
  if (std::string said = broken_check(program, out.integers); !said.empty()) throw ArgumentError(said);
}

int common_alignment(std::span<const Argument> arguments) {
  uintptr_t all = 256;
  for (const Argument& argument : arguments)
    if (auto t = std::get_if<TensorView>(&argument); t && !is_empty(*t))
      all |= reinterpret_cast<uintptr_t>(t->data);
  return int(all & -all);
}

std::vector<int64_t> infer_shape(const Program& program, std::span<const Argument> arguments, size_t param) {
  std::vector<int64_t> integers(program.integers.size(), unknown);
  check_large(program, arguments);
  for (size_t i = 0; i < integers.size(); i++)
    integers[i] = read_integer(program.integers[i], arguments[size_t(program.integers[i].param)]);
  read_twins(program, arguments, integers);
  std::vector<int64_t> shape;
  for (const Formula& extent : program.params[param].shape) {
    for (const Formula::Step& step : extent.steps)
      if (step.op == Formula::Op::integer && integers[size_t(step.value)] == unknown)
        throw ArgumentError(fmt::format("{}: none of the given arguments determines {}",
                                        described(program, param),
                                        program.integers[size_t(step.value)].name));
    shape.push_back(evaluate(extent, integers));
  }
  return shape;
}

}  // namespace tl
