// What the specialized variant of a kernel assumes of a call, and whether a call meets it: alignment of
// addresses and rows, indices of 32 bits.
#include <algorithm>
#include <numeric>

#include "api/kernel.h"
#include "arith/simplify.h"
#include "ir/rewrite.h"

namespace tl {
namespace {

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
  return {stride_of(*t, source.dim), true};
}

// How far apart the elements of a tensor's dimension are: a product of a constant, of variables (innermost
// first), and of what is neither.
struct Stride {
  int64_t constant = 1, lanes = 1;  // lanes: elements that make 16 bytes
  std::vector<Expr> factors = {};

  void multiply(const Expr& e) {
    if (auto* n = e.as<Binary>(); n && n->op == BinaryOp::mul) {
      multiply(n->b);
      return multiply(n->a);
    }
    if (auto n = as_int(e))
      constant *= *n;
    else
      factors.push_back(e);
  }
};

// Of every dimension of every tensor but the innermost, those with the fewest factors first: a product of
// several needs nothing more where one of them is divisible already.
std::vector<Stride> strides_of(const Function& f) {
  std::vector<Stride> strides;
  for (auto& p : f.params) {
    if (!p.buffer) continue;
    const BufferInfo& b = f[p.buffer];
    Stride stride{.lanes = std::max<int64_t>(1, 16 / b.dtype.bytes())};
    for (auto& e : b.strides) {
      Stride given{.lanes = stride.lanes};
      given.multiply(e);
      strides.push_back(std::move(given));
    }
    for (size_t d = b.strides.empty() ? b.shape.size() : 0; d-- > 1;) {
      stride.multiply(b.shape[d]);
      strides.push_back(stride);
    }
  }
  std::vector<Stride> fewest_first;
  for (size_t factors = 0; fewest_first.size() < strides.size(); factors++)
    for (auto& s : strides)
      if (s.factors.size() == factors) fewest_first.push_back(s);
  return fewest_first;
}

// What each variable must be divisible by, so that all strides are whole numbers of 16 bytes, as far as
// variables decide that.
std::vector<int64_t> divisors_for(const Function& f, std::span<const Expr> vars) {
  std::vector<int64_t> divisors(vars.size(), 1);
  for (const Stride& stride : strides_of(f)) {
    int64_t have = std::gcd(stride.constant, stride.lanes);
    std::optional<size_t> free;  // the innermost variable, which can make up for what is missing
    for (const Expr& factor : stride.factors) {
      auto it = std::ranges::find_if(vars, [&](const Expr& v) { return v.get() == factor.get(); });
      if (it == vars.end()) continue;
      auto i = size_t(it - vars.begin());
      have = std::gcd(have * divisors[i], stride.lanes);
      if (!free) free = i;
    }
    int64_t missing = stride.lanes / have;
    if (missing == 1) continue;
    if (free) {
      divisors[*free] *= missing;
      continue;
    }
    for (const Expr& factor : stride.factors)  // n + 8
      for (size_t i = 0; i < vars.size(); i++)
        if (uses_var(factor, vars[i])) divisors[i] = std::lcm(divisors[i], missing);
  }
  return divisors;
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

// No tensor map describes a tensor without elements (pass/move_boxes.cpp).
int64_t least_extent(const Target& chip) { return chip.warpgroup.empty() ? 0 : 1; }
// What is added to round up to whole tiles, as in (M + 127) // 128, fits 32 bits, too.
constexpr int64_t most_extent = INT32_MAX - UINT16_MAX;

}  // namespace

CompiledKernel::Specialization CompiledKernel::find_specialization() const {
  Specialization u;
  bool aligns = target.chip->vector_alignment != 1, narrows = target.chip->index_bits <= 32;
  if (aligns) u.alignment = target.chip->vector_bytes;
  if (!aligns && !narrows) return u;
  std::vector<Expr> vars = integer_vars(function);
  Program signature = signature_of(function, *target.chip);
  std::vector<int64_t> divisors =
      aligns ? divisors_for(function, vars) : std::vector<int64_t>(vars.size(), 1);
  for (size_t i = 0; i < vars.size(); i++) {
    if (!signature.params[size_t(signature.integers[i].param)].is_used)
      continue;  // a tensor that may be None
    if (signature.integers[i].from != IntegerSource::From::value || divisors[i] > 1)
      u.dimensions.push_back({vars[i], signature.integers[i], divisors[i]});
  }
  for (size_t i = 0; i < function.params.size() && narrows; i++)
    if (BufferId b = function.params[i].buffer; b && !as_int(simplify(span_of(function[b]))))
      u.sized.push_back(i);
  return u;
}

bool CompiledKernel::is_specialized(std::span<const Argument> arguments) const {
  if (specialization.alignment > 1 && common_alignment(arguments) < specialization.alignment) return false;
  int64_t least = least_extent(*target.chip);
  for (auto& d : specialization.dimensions) {
    Found found = dimension_of(d.source, arguments);
    if (!found.known || found.value % d.divisor != 0 || found.value > most_extent || found.value < least)
      return false;
  }
  for (size_t i : specialization.sized)
    if (auto* t = i < arguments.size() ? std::get_if<TensorView>(&arguments[i]) : nullptr)
      if (!spans_32_bits(*t)) return false;
  return true;
}

std::string CompiledKernel::describe_specialization() const {
  std::vector<std::string> parts;
  if (specialization.alignment > 1)
    parts.push_back(fmt::format("addresses are divisible by {} bytes", specialization.alignment));
  for (auto& d : specialization.dimensions)
    if (d.divisor > 1) parts.push_back(fmt::format("{} is divisible by {}", d.source.name, d.divisor));
  if (!specialization.sized.empty()) parts.push_back("tensors span fewer than 2^31 elements");
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string CompiledKernel::why_generic(std::span<const Argument> arguments) const {
  std::vector<std::string> broken;
  if (int a = common_alignment(arguments); a < specialization.alignment)
    broken.push_back(
        fmt::format("an address is divisible by {} bytes only, not {}", a, specialization.alignment));
  for (auto& d : specialization.dimensions) {
    Found found = dimension_of(d.source, arguments);
    if (!found.known) continue;
    if (found.value % d.divisor)
      broken.push_back(fmt::format("{} = {} is not divisible by {}", d.source.name, found.value, d.divisor));
    if (int64_t least = least_extent(*target.chip); found.value > most_extent || found.value < least)
      broken.push_back(fmt::format("{} = {} is not in [{}, 2^31 - 2^16)", d.source.name, found.value, least));
  }
  for (size_t i : specialization.sized)
    if (auto* t = std::get_if<TensorView>(&arguments[i]); t && !spans_32_bits(*t))
      broken.push_back(fmt::format("{} spans 2^31 elements or more", program.params[i].name));
  return fmt::format("{}", fmt::join(broken, ", "));
}

Function CompiledKernel::function_for(bool specialized) const {
  Function f = function;
  if (!specialized) {
    for (Kernel& k : f.kernels) k.attrs.entries["alignment"] = int64_t(0);
    return f;
  }
  for (auto& d : specialization.dimensions) {
    DType type = d.var->dtype;
    if (d.divisor > 1)
      f.facts.push_back(eq(binary(BinaryOp::floormod, d.var, imm(d.divisor, type)), zero(type)));
    if (type != i64) continue;
    f.facts.push_back(le(imm(least_extent(*target.chip)), d.var));
    f.facts.push_back(le(d.var, imm(most_extent)));
  }
  for (size_t i : specialization.sized)
    f.facts.push_back(le(simplify(span_of(f[f.params[i].buffer])), imm(INT32_MAX)));
  return f;
}

}  // namespace tl
