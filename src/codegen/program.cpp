// Formulas evaluated, Programs as bytes.
#include "codegen/program.h"

#include <algorithm>
#include <stdexcept>

#include "base/bytes.h"
#include "base/error.h"

namespace tl {
namespace {

[[noreturn]] void too_large() {
  throw std::range_error("a size computed from the arguments does not fit in 64 bits");
}

int64_t divide(int64_t a, int64_t b, bool want_remainder) {
  if (b == 0) throw std::range_error("a size computed from the arguments divides by zero");
  if (b == -1 && a == INT64_MIN && !want_remainder) too_large();
  if (b == -1) return want_remainder ? 0 : -a;
  int64_t quotient = a / b, remainder = a % b;
  if (remainder != 0 && (remainder < 0) != (b < 0)) quotient--, remainder += b;
  return want_remainder ? remainder : quotient;
}

int64_t apply(Formula::Op op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case Formula::Op::add:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case Formula::Op::sub:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case Formula::Op::mul:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case Formula::Op::floordiv:
      return divide(a, b, false);
    case Formula::Op::floormod:
      return divide(a, b, true);
    case Formula::Op::min:
      return std::min(a, b);
    case Formula::Op::max:
      return std::max(a, b);
    case Formula::Op::eq:
      return a == b;
    case Formula::Op::ne:
      return a != b;
    case Formula::Op::lt:
      return a < b;
    case Formula::Op::le:
      return a <= b;
    case Formula::Op::both:
      return a && b;
    case Formula::Op::either:
      return a || b;
    default:
      internal_error("a formula with an unknown operator");
  }
  if (overflow) too_large();
  return result;
}

int64_t run(const Formula& formula, std::span<const int64_t> integers, int64_t* stack) {
  size_t height = 0;
  for (const Formula::Step& step : formula.steps) {
    if (step.op == Formula::Op::constant) {
      stack[height++] = step.value;
    } else if (step.op == Formula::Op::integer) {
      internal_check(size_t(step.value) < integers.size(), "a formula over an integer that is not there");
      stack[height++] = integers[size_t(step.value)];
    } else {
      internal_check(height >= 2, "a formula with too few operands");
      height--;
      stack[height - 1] = apply(step.op, stack[height - 1], stack[height]);
    }
  }
  internal_check(height == 1, "a formula that does not leave one number");
  return stack[0];
}

}  // namespace

// ── as bytes; `fields` are found by argument-dependent lookup, so not in the unnamed namespace ─────────────

template <class Io>
void fields(Io& io, Formula::Step& v) {
  io(v.op, v.value);
}
template <class Io>
void fields(Io& io, Formula& v) {
  io(v.steps);
}
template <class Io>
void fields(Io& io, ParamSpec& v) {
  io(v.name, v.is_tensor, v.dtype, v.bits, v.shape, v.strides, v.is_written, v.is_used, v.may_overlap);
}
template <class Io>
void fields(Io& io, IntegerSource& v) {
  io(v.name, v.param, v.from, v.dim, v.factor, v.offset);
}
template <class Io>
void fields(Io& io, Workspace& v) {
  io(v.name, v.bytes, v.zeroed);
}
template <class Io>
void fields(Io& io, TensorMapSpec& v) {
  io(v.name, v.of_workspace, v.index, v.dtype, v.bits, v.shape, v.strides, v.box, v.swizzle, v.fetch);
}
template <class Io>
void fields(Io& io, EntrySpec::Arg& v) {
  io(v.from, v.index);
}
template <class Io>
void fields(Io& io, EntrySpec& v) {
  io(v.name, v.grid, v.threads, v.shared_bytes, v.arena_bytes, v.cooperative, v.dependent, v.args);
}
template <class Io>
void fields(Io& io, CheckSpec& v) {
  io(v.holds, v.text);
}
template <class Io>
void fields(Io& io, Program& v) {
  io(v.name, v.language, v.chip, v.described, v.text, v.flags, v.params, v.integers, v.workspaces, v.maps,
     v.entries, v.checks, v.warnings, v.alignment);
}

int64_t evaluate(const Formula& formula, std::span<const int64_t> integers) {
  if (formula.steps.size() == 1 && formula.steps[0].op == Formula::Op::constant)
    return formula.steps[0].value;
  int64_t small[32];
  if (formula.steps.size() <= 32) return run(formula, integers, small);
  std::vector<int64_t> large(formula.steps.size());
  return run(formula, integers, large.data());
}

bool names_integer(const Formula& formula, size_t integer) {
  return std::ranges::any_of(formula.steps, [&](const Formula::Step& step) {
    return step.op == Formula::Op::integer && size_t(step.value) == integer;
  });
}

std::string broken_check(const Program& program, std::span<const int64_t> integers) {
  for (const CheckSpec& check : program.checks) {
    if (evaluate(check.holds, integers)) continue;
    std::string values;
    for (size_t i = 0; i < integers.size(); i++)
      if (names_integer(check.holds, i))
        values += fmt::format("{} {} = {}", values.empty() ? ", where" : ",", program.integers[i].name,
                              integers[i]);
    return fmt::format("{}: {}{}", program.name, check.text, values);
  }
  return "";
}

std::string formula_text(const Formula& formula, std::span<const IntegerSource> integers) {
  std::vector<std::string> stack;
  for (const Formula::Step& step : formula.steps) {
    if (step.op == Formula::Op::constant) {
      stack.push_back(std::to_string(step.value));
      continue;
    }
    if (step.op == Formula::Op::integer) {
      stack.push_back(integers[size_t(step.value)].name);
      continue;
    }
    internal_check(stack.size() >= 2, "a formula with too few operands");
    std::string b = std::move(stack.back()), a = std::move(stack[stack.size() - 2]);
    stack.resize(stack.size() - 2);
    static constexpr const char* infix[] = {"", "",   "+",  "-", "*",  "//",  "%", "",
                                            "", "==", "!=", "<", "<=", "and", "or"};
    bool is_call = step.op == Formula::Op::min || step.op == Formula::Op::max;
    stack.push_back(is_call ? fmt::format("{}({}, {})", step.op == Formula::Op::min ? "min" : "max", a, b)
                            : fmt::format("({} {} {})", a, infix[size_t(step.op)], b));
  }
  internal_check(stack.size() == 1, "a formula that does not leave one text");
  std::string& text = stack[0];
  return text.front() == '(' && text.back() == ')' ? text.substr(1, text.size() - 2) : text;
}

std::string serialize(const Program& program) {
  ByteWriter writer;
  writer(program);
  return std::move(writer.bytes);
}

std::optional<Program> deserialize_program(std::string_view bytes) {
  ByteReader reader{bytes};
  Program program;
  reader(program);
  if (!reader.ok || !reader.bytes.empty()) return std::nullopt;
  return program;
}

}  // namespace tl
