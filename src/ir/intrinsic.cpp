// The scalar functions and the thread-level rows that every GPU language has.
#include "ir/intrinsic.h"

#include <algorithm>
#include <cmath>

namespace tl {
namespace {

using Result = Intrinsic::Result;
using Effect = Intrinsic::Effect;

Scalar absolute(const Scalar* a, const DType* types, DType type) {
  if (type.is_float()) return {.d = std::fabs(a[0].d)};
  return types[0].is_unsigned() || a[0].i >= 0 ? a[0]
                                               : Scalar{.i = wrap_int(int64_t(0 - uint64_t(a[0].i)), type)};
}
// One rounding: the product of two floats of at most 24 bits is exact in double.
Scalar fused(const Scalar* a, const DType*, DType type) {
  if (!type.is_float())
    return {.i = wrap_int(int64_t(uint64_t(a[0].i) * uint64_t(a[1].i) + uint64_t(a[2].i)), type)};
  if (type.bits == 64) return {.d = std::fma(a[0].d, a[1].d, a[2].d)};
  return {.d = round_float(sum_to_odd(a[0].d * a[1].d, a[2].d), type)};
}

constexpr int count_of_names(std::string_view params) { return 1 + int(std::ranges::count(params, ',')); }

using Meaning = decltype(Intrinsic::eval);
constexpr Intrinsic of_float(std::string_view name, std::string_view params, std::string_view help,
                             Meaning eval) {
  return {.name = name, .arity = count_of_names(params), .eval = eval, .help = help, .params = params};
}
constexpr Intrinsic of_x(std::string_view name, std::string_view help, Meaning eval) {
  return of_float(name, "x", help, eval);
}
constexpr Intrinsic asks(std::string_view name, std::string_view help, Meaning eval) {
  Intrinsic row = of_x(name, help, eval);
  row.result = Result::boolean;
  return row;
}
// What a chip has a quick, less exact instruction for; elsewhere the same as the function that it is named
// after.
constexpr Intrinsic fast(std::string_view name, std::string_view published, std::string_view help,
                         Meaning eval) {
  Intrinsic row = of_x(name, help, eval);
  row.published = published;
  return row;
}
constexpr Intrinsic also_exact(Intrinsic row, decltype(Intrinsic::exact) exact) {
  row.exact = exact;
  return row;
}

#define TL_IS(VALUE) [](const double* a) { return VALUE; }
#define TL_FAST_HELP(WHAT) \
  WHAT ", by the GPU's fast instruction for float32 (see docs/numerics.md); elsewhere as without the " \
       "underscores."

constexpr Intrinsic scalar_rows[] = {
    of_x("exp", "e to the power of x.", TL_IS(std::exp(a[0]))),
    of_x("exp2", "2 to the power of x.", TL_IS(std::exp2(a[0]))),
    of_x("log", "The natural logarithm of x.", TL_IS(std::log(a[0]))),
    of_x("log2", "The logarithm of x to base 2.", TL_IS(std::log2(a[0]))),
    of_x("log10", "The logarithm of x to base 10.", TL_IS(std::log10(a[0]))),
    of_x("sqrt", "The square root of x.", TL_IS(std::sqrt(a[0]))),
    of_x("rsqrt", "1 / sqrt(x).", TL_IS(1 / std::sqrt(a[0]))),
    of_x("sin", "The sine of x (radians).", TL_IS(std::sin(a[0]))),
    of_x("cos", "The cosine of x (radians).", TL_IS(std::cos(a[0]))),
    of_x("tanh", "The hyperbolic tangent of x.", TL_IS(std::tanh(a[0]))),
    of_x("sigmoid", "1 / (1 + exp(-x)).", TL_IS(1 / (1 + std::exp(-a[0])))),
    of_x("erf", "The error function of x.", TL_IS(std::erf(a[0]))),
    also_exact(of_x("abs", "The absolute value of x.", TL_IS(std::fabs(a[0]))), absolute),
    of_x("floor", "The greatest whole number <= x, as a float.", TL_IS(std::floor(a[0]))),
    of_x("ceil", "The least whole number >= x, as a float.", TL_IS(std::ceil(a[0]))),
    of_x("round", "", TL_IS(std::nearbyint(a[0]))),
    of_x("trunc", "x without its fraction, as a float.", TL_IS(std::trunc(a[0]))),
    of_x("round_away", "", TL_IS(std::round(a[0]))),
    of_x("exp10", "10 to the power of x.", TL_IS(std::pow(10.0, a[0]))),
    of_x("expm1", "exp(x) - 1, also for small x.", TL_IS(std::expm1(a[0]))),
    of_x("log1p", "log(1 + x), also for small x.", TL_IS(std::log1p(a[0]))),
    of_x("tan", "The tangent of x (radians).", TL_IS(std::tan(a[0]))),
    of_x("asin", "The arc sine of x, in radians.", TL_IS(std::asin(a[0]))),
    of_x("acos", "The arc cosine of x, in radians.", TL_IS(std::acos(a[0]))),
    of_x("atan", "The arc tangent of x, in radians.", TL_IS(std::atan(a[0]))),
    of_x("sinh", "The hyperbolic sine of x.", TL_IS(std::sinh(a[0]))),
    of_x("cosh", "The hyperbolic cosine of x.", TL_IS(std::cosh(a[0]))),
    of_x("asinh", "The inverse hyperbolic sine of x.", TL_IS(std::asinh(a[0]))),
    of_x("acosh", "The inverse hyperbolic cosine of x >= 1.", TL_IS(std::acosh(a[0]))),
    of_x("atanh", "The inverse hyperbolic tangent of x in (-1, 1).", TL_IS(std::atanh(a[0]))),
    of_float("atan2", "x1, x2",
             "The angle of the point (x2, x1): atan(x1 / x2) in the right quadrant, in radians.",
             TL_IS(std::atan2(a[0], a[1]))),
    of_float("hypot", "x1, x2", "sqrt(x1 * x1 + x2 * x2) without overflow on the way.",
             TL_IS(std::hypot(a[0], a[1]))),
    of_float("copysign", "x1, x2", "The magnitude of x1 with the sign of x2.",
             TL_IS(std::copysign(a[0], a[1]))),
    of_float("fmod", "x, y", "What is left of x / y after truncation; it has the sign of x.",
             TL_IS(std::fmod(a[0], a[1]))),
    fast("fast_exp", "__exp", TL_FAST_HELP("e to the power of x"), TL_IS(std::exp(a[0]))),
    fast("fast_exp10", "__exp10", TL_FAST_HELP("10 to the power of x"), TL_IS(std::pow(10.0, a[0]))),
    fast("fast_log", "__log", TL_FAST_HELP("The natural logarithm of x"), TL_IS(std::log(a[0]))),
    fast("fast_log2", "__log2", TL_FAST_HELP("The logarithm of x to base 2"), TL_IS(std::log2(a[0]))),
    fast("fast_log10", "__log10", TL_FAST_HELP("The logarithm of x to base 10"), TL_IS(std::log10(a[0]))),
    fast("fast_sin", "__sin", TL_FAST_HELP("The sine of x (radians)"), TL_IS(std::sin(a[0]))),
    fast("fast_cos", "__cos", TL_FAST_HELP("The cosine of x (radians)"), TL_IS(std::cos(a[0]))),
    fast("fast_tan", "__tan", TL_FAST_HELP("The tangent of x (radians)"), TL_IS(std::tan(a[0]))),
    of_x("fast_rcp", "1 / x by the GPU's approximation (float32: 1 ulp, denormals are 0); elsewhere 1 / x.",
         TL_IS(1 / a[0])),
    of_float("pow", "x, y", "", TL_IS(std::pow(a[0], a[1]))),
    also_exact(of_float("fma", "x, y, z", "x * y + z, rounded once.", TL_IS(std::fma(a[0], a[1], a[2]))),
               fused),
    asks("isnan", "Whether x is not a number; a bool.", TL_IS(double(std::isnan(a[0])))),
    asks("isinf", "Whether x is infinite; a bool.", TL_IS(double(std::isinf(a[0])))),
    asks("isfinite", "Whether x is neither infinite nor NaN; a bool.", TL_IS(double(std::isfinite(a[0])))),
};
#undef TL_IS
#undef TL_FAST_HELP

// Rows under a second name.
struct Alias {
  std::string_view name, row, help;
};
constexpr Alias aliases[] = {
    {"fabs", "abs", "The absolute value of x."},
    {"nearbyint", "round", "x rounded to the nearest whole number, halves to the even one, as a float."},
};

using Atomic = Intrinsic::Atomic;
constexpr Intrinsic atomic(std::string_view name, int arity, std::string_view access, Atomic op) {
  return {.name = name,
          .arity = arity,
          .result = Result::none,
          .effect = Effect::memory,
          .access = access,
          .atomic = op};
}
constexpr std::string_view order_names[] = {"relaxed", "acquire", "release", "acq_rel", "seq_cst"};

constexpr Intrinsic thread_rows[] = {
    {.name = "thread_index", .result = Result::i64, .effect = Effect::thread},
    {.name = "sync_threads", .arity = 0, .result = Result::none, .effect = Effect::barrier},
    {.name = "address_of", .arity = -1, .result = Result::handle, .effect = Effect::pure},
    {.name = "shfl", .arity = 2, .effect = Effect::warp},
    {.name = "shfl_xor", .arity = 2, .effect = Effect::warp},
    {.name = "shfl_up", .arity = 2, .effect = Effect::warp},
    {.name = "shfl_down", .arity = 2, .effect = Effect::warp},
    {.name = "thread_number", .arity = 0, .result = Result::i64, .effect = Effect::thread},
    {.name = "block_uniform", .effect = Effect::pure},
    {.name = "shfl_sync", .arity = 4, .effect = Effect::warp},
    {.name = "shfl_xor_sync", .arity = 4, .effect = Effect::warp},
    {.name = "shfl_up_sync", .arity = 4, .effect = Effect::warp},
    {.name = "shfl_down_sync", .arity = 4, .effect = Effect::warp},
    {.name = "any_sync", .arity = 2, .result = Result::i32, .effect = Effect::warp},
    {.name = "all_sync", .arity = 2, .result = Result::i32, .effect = Effect::warp},
    {.name = "ballot_sync", .arity = 2, .result = Result::u32, .effect = Effect::warp},
    {.name = "match_any_sync", .arity = 2, .result = Result::u32, .effect = Effect::warp},
    {.name = "match_all_sync", .arity = 2, .result = Result::u32, .effect = Effect::warp},
    {.name = "activemask", .arity = 0, .result = Result::u32, .effect = Effect::warp},
    {.name = "ballot_sync64", .arity = 2, .result = Result::u64, .effect = Effect::warp},
    {.name = "match_any_sync64", .arity = 2, .result = Result::u64, .effect = Effect::warp},
    {.name = "match_all_sync64", .arity = 2, .result = Result::u64, .effect = Effect::warp},
    {.name = "activemask64", .arity = 0, .result = Result::u64, .effect = Effect::warp},
    {.name = "warp_size", .arity = 0, .result = Result::i64, .effect = Effect::thread},
    {.name = "all_lanes", .arity = 0, .result = Result::u32, .effect = Effect::thread},
    {.name = "warp_reduce_add", .effect = Effect::warp},
    {.name = "warp_reduce_max", .effect = Effect::warp},
    {.name = "warp_reduce_min", .effect = Effect::warp},
    {.name = "warp_reduce_and", .effect = Effect::warp},
    {.name = "warp_reduce_or", .effect = Effect::warp},
    {.name = "sync_warp", .result = Result::none, .effect = Effect::partial_barrier},
    {.name = "bar_sync", .arity = 2, .result = Result::none, .effect = Effect::partial_barrier},
    {.name = "bar_arrive", .arity = 2, .result = Result::none, .effect = Effect::partial_barrier},
    {.name = "bar_sync_groups", .arity = 2, .result = Result::none, .effect = Effect::partial_barrier},
    {.name = "sync_threads_count", .result = Result::i32, .effect = Effect::barrier},
    {.name = "sync_threads_and", .result = Result::i32, .effect = Effect::barrier},
    {.name = "sync_threads_or", .result = Result::i32, .effect = Effect::barrier},
    {.name = "sync_grid", .arity = -1, .result = Result::none, .effect = Effect::barrier},
    {.name = "break", .arity = 0, .result = Result::none, .effect = Effect::control},
    {.name = "continue", .arity = 0, .result = Result::none, .effect = Effect::control},
    {.name = "thread_return", .arity = 0, .result = Result::none, .effect = Effect::control},
    // (place, value, order); the old value where the call has a type
    atomic("atomic_add", 3, "x--", Atomic::add),
    atomic("atomic_max", 3, "x--", Atomic::max),
    atomic("atomic_min", 3, "x--", Atomic::min),
    atomic("atomic_or", 3, "x--", Atomic::bit_or),
    atomic("atomic_load", 2, "r-", Atomic::load),
    atomic("atomic_store", 3, "w--", Atomic::store),
    {.name = "load_wide", .arity = 1, .result = Result::none, .effect = Effect::memory, .access = "r"},
    {.name = "store_wide", .arity = 2, .result = Result::none, .effect = Effect::memory, .access = "w-"},
    {.name = "call_extern", .arity = -1, .result = Result::none, .effect = Effect::memory, .access = "--"},
    {.name = "call_pure_extern",
     .arity = -1,
     .result = Result::none,
     .effect = Effect::thread,
     .access = "--"},
    {.name = "ptx", .arity = -1, .result = Result::none, .effect = Effect::memory, .access = "---"},
};

// The effect `memory` keeps them in their place among other effects, and one by one.
constexpr Intrinsic message_rows[] = {
    {.name = "print", .arity = -1, .result = Result::none, .effect = Effect::memory},
    {.name = "device_assert", .arity = 3, .result = Result::none, .effect = Effect::memory},
    {.name = "assume_true", .arity = 1, .result = Result::none, .effect = Effect::memory},
    {.name = "breakpoint", .arity = 0, .result = Result::none, .effect = Effect::memory},
    {.name = "pdl_sync", .arity = 0, .result = Result::none, .effect = Effect::memory},
    {.name = "pdl_trigger", .arity = 0, .result = Result::none, .effect = Effect::memory},
};
// Their calls say how many lanes there are.
constexpr Intrinsic lane_rows[] = {
    {.name = "interleave", .arity = -1}, {.name = "even_lanes"}, {.name = "odd_lanes"}};
constexpr Intrinsic table_rows[] = {{.name = "lookup", .arity = 2, .result = Result::i32}};

const Intrinsic& row(std::string_view name) { return *find_intrinsic(name); }

}  // namespace

std::span<const Intrinsic> scalar_functions() { return scalar_rows; }
std::vector<ScalarFunction> offered_functions() {
  std::vector<ScalarFunction> all;
  for (auto rows : {scalar_functions(), exact_functions()})
    for (auto& r : rows)
      if (!r.help.empty()) all.push_back({r.published.empty() ? r.name : r.published, r.params, r.help, &r});
  for (auto& a : aliases) {
    const Intrinsic* r = find_intrinsic(a.row);
    all.push_back({a.name, r->params, a.help, r});
  }
  return all;
}

std::span<const Intrinsic> thread_functions() { return thread_rows; }
std::span<const Intrinsic> message_functions() { return message_rows; }

std::string_view printf_conversion(DType t) {
  if (t.kind == DType::Kind::bfloat) return "%.4g";
  if (t.is_float()) return t.bits == 64 ? "%.17g" : t.bits == 32 ? "%.9g" : "%.5g";
  if (t.bits == 64) return t.is_signed() ? "%lld" : "%llu";
  return t.is_unsigned() ? "%u" : "%d";
}

std::span<const Intrinsic> lane_functions() { return lane_rows; }

const Intrinsic* find_intrinsic(std::string_view name) {
  for (auto rows : {scalar_functions(), thread_functions(), exact_functions(), message_functions(),
                    lane_functions(), narrow_functions(), std::span<const Intrinsic>(table_rows)})
    for (auto& r : rows)
      if (r.name == name) return &r;
  return nullptr;
}

const Intrinsic &thread_index = row("thread_index"), &sync_threads = row("sync_threads");
const Intrinsic &address_of = row("address_of"), &fma_function = row("fma");
const Intrinsic &shfl_xor = row("shfl_xor"), &lookup = row("lookup");
const Intrinsic &load_wide = row("load_wide"), &store_wide = row("store_wide");
const Intrinsic &call_extern = row("call_extern"), &call_pure_extern = row("call_pure_extern"),
                &inline_ptx = row("ptx");

const Load* place_of(const Expr& e) {
  auto* c = e.as<Call>();
  return c && c->intrinsic == &address_of ? c->args[0].as<Load>() : nullptr;
}

Expr count_of(const Expr& address) {
  if (!place_of(address)) return {};
  auto& args = address.as<Call>()->args;
  return args.size() > 2 ? args[2] : Expr();
}

char access_of(const Call& c, size_t argument) {
  if (!place_of(c.args[argument])) return '-';
  if (argument < c.intrinsic->access.size() && c.intrinsic->access[argument] != '-')
    return c.intrinsic->access[argument];
  auto& place = *c.args[argument].as<Call>();
  auto* said = place.args.size() > 1 ? place.args[1].as<StringImm>() : nullptr;
  char access = said && said->value.size() == 1 ? said->value[0] : 'x';
  return access == 'v' ? 'r' : access;
}

bool is_by_value(const Expr& address) {
  if (!place_of(address)) return false;
  auto& args = address.as<Call>()->args;
  auto* said = args.size() > 2 ? args[1].as<StringImm>() : nullptr;
  return said && said->value == "v";
}

std::span<const std::string_view> memory_orders() { return order_names; }

MemoryOrder order_of(const Call& atomic) {
  auto* order = atomic.args.back().as<StringImm>();
  for (size_t i = 0; order && i < std::size(order_names); i++)
    if (order_names[i] == order->value) return MemoryOrder(i);
  return MemoryOrder::seq_cst;
}
const Intrinsic &print_row = row("print"), &device_assert = row("device_assert");
const Intrinsic &assume_function = row("assume_true"), &breakpoint_row = row("breakpoint"),
                &pdl_sync = row("pdl_sync"), &pdl_trigger = row("pdl_trigger"),
                &bar_sync_groups = row("bar_sync_groups");
const Intrinsic &elected = row("elected"), &random_sequence = row("random_sequence");
const Intrinsic &interleave = row("interleave"), &even_lanes = row("even_lanes"),
                &odd_lanes = row("odd_lanes");
const Intrinsic &thread_number = row("thread_number"), &sync_grid = row("sync_grid"),
                &block_uniform = row("block_uniform");
const Intrinsic &break_loop = row("break"), &continue_loop = row("continue"),
                &thread_return = row("thread_return");

bool is_named_barrier(const Intrinsic& intrinsic) {
  return intrinsic.effect == Effect::partial_barrier && intrinsic.arity == 2 &&
         &intrinsic != &bar_sync_groups;
}
bool is_thread_level(const Intrinsic& intrinsic) {
  return intrinsic.effect == Effect::thread || intrinsic.effect == Effect::warp ||
         intrinsic.effect == Effect::barrier || intrinsic.effect == Effect::partial_barrier;
}

}  // namespace tl
