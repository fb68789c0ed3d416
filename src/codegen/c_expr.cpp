// Scalar expressions in C++.  Where C differs: its arithmetic is undefined where ours wraps, its division
// rounds to zero where ours rounds down, and its small integers are promoted to int.
#include <bit>
#include <cmath>

#include "arith/products.h"
#include "codegen/c_like.h"

namespace tl::c {
namespace {

std::string_view int_name(DType t) {  // of 8 to 64 bits
  static constexpr std::string_view names[2][4] = {{"u8", "u16", "u32", "u64"}, {"i8", "i16", "int", "i64"}};
  return names[t.is_signed()][std::bit_width(unsigned(t.bits)) - 4];
}

Rank rank_of(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
    case BinaryOp::sub:
      return sum;
    case BinaryOp::bit_and:
      return bit_and_rank;
    case BinaryOp::bit_or:
      return bit_or_rank;
    case BinaryOp::bit_xor:
      return bit_xor_rank;
    case BinaryOp::shl:
    case BinaryOp::shr:
      return shift;
    case BinaryOp::eq:
    case BinaryOp::ne:
      return equality;
    case BinaryOp::lt:
    case BinaryOp::le:
    case BinaryOp::gt:
    case BinaryOp::ge:
      return relation;
    case BinaryOp::logical_and:
      return and_rank;
    case BinaryOp::logical_or:
      return or_rank;
    default:
      return product;
  }
}

std::string_view symbol_of(BinaryOp op) {
  switch (op) {
    case BinaryOp::floordiv:
    case BinaryOp::truncdiv:
      return "/";
    case BinaryOp::floormod:
    case BinaryOp::truncmod:
      return "%";
    case BinaryOp::logical_and:
      return "&&";
    case BinaryOp::logical_or:
      return "||";
    default:
      return symbol(op);
  }
}

// Operators whose precedence few remember: their operands stand in parentheses.
bool is_obscure(BinaryOp op) {
  Rank r = rank_of(op);
  return r == shift || r == bit_and_rank || r == bit_or_rank || r == bit_xor_rank;
}

bool is_sum(BinaryOp op) { return op == BinaryOp::add || op == BinaryOp::sub || op == BinaryOp::mul; }

Interval range_of_type(DType t) {
  if (t.is_bool()) return {0, 1};
  if (t.bits >= 64) return t.is_unsigned() ? Interval{0, INT64_MAX} : Interval{};
  int64_t top = int64_t(1) << (t.bits - t.is_signed());
  return {t.is_signed() ? -top : 0, top - 1};
}

bool fits(BinaryOp op, Interval a, Interval b, DType t) {
  using wide = __int128;
  wide ends[4];
  auto apply = [&](int64_t x, int64_t y) {
    return op == BinaryOp::add ? wide(x) + y : op == BinaryOp::sub ? wide(x) - y : wide(x) * y;
  };
  ends[0] = apply(a.min, b.min), ends[1] = apply(a.min, b.max);
  ends[2] = apply(a.max, b.min), ends[3] = apply(a.max, b.max);
  Interval limits = range_of_type(t);
  for (wide e : ends)
    if (e < limits.min || e > limits.max) return false;
  return true;
}

// By what their names begin with, the first of these that fits.
struct ThreadHelper {
  std::string_view intrinsics, section;
  bool immediate = false;
};
constexpr ThreadHelper thread_helpers[] = {{"shfl_sync", "shuffle_sync"},
                                           {"shfl_xor_sync", "shuffle_sync"},
                                           {"shfl_up_sync", "shuffle_sync"},
                                           {"shfl_down_sync", "shuffle_sync"},
                                           {"shfl", "shuffle"},
                                           {"any_sync", "vote"},
                                           {"all_sync", "vote"},
                                           {"ballot_sync", "vote"},
                                           {"activemask", "vote"},
                                           {"match_", "match"},
                                           {"sync_warp", "sync_warp"},
                                           {"bar_", "named_barrier", true},
                                           {"sync_threads_", "block_vote"},
                                           {"sync_grid", "sync_grid"},
                                           {"pdl_", "pdl"}};

std::string float_digits(double v, DType t) {
  std::string s = t.bits == 64 ? fmt::format("{}", v) : fmt::format("{}", float(v));
  return s.find_first_of(".e") == std::string::npos ? s + ".0" : s;
}

}  // namespace

bool has_load(const Expr& e) {
  return contains(e, [](const Load&) { return true; });
}

Stmt widen_halves(const Stmt& s) {
  auto wide = [](const Expr& e) { return cast(f32.with_lanes(e->dtype.lanes), e); };
  auto binaries = [&](const Binary& n, Rewriter& self) {
    Expr e = self.children(n);
    auto* b = e.as<Binary>();
    if (!b || !is_half(b->a->dtype)) return e;
    Expr r = binary(b->op, wide(b->a), wide(b->b), n.span);
    return r->dtype.is_bool() ? r : cast(n.dtype, r, n.span);
  };
  auto unaries = [&](const Unary& n, Rewriter& self) {
    Expr e = self.children(n);
    auto* u = e.as<Unary>();
    return u && is_half(n.dtype) ? cast(n.dtype, unary(u->op, wide(u->a), n.span), n.span) : e;
  };
  auto calls = [&](const Call& n, Rewriter& self) {
    Expr e = self.children(n);
    auto* c = e.as<Call>();
    bool once = c->intrinsic == &fma_function;  // rounded, which f32 in between would not be
    if (once || !c->intrinsic->eval || c->args.empty() || !is_half(c->args[0]->dtype)) return e;
    std::vector<Expr> args;
    for (auto& a : c->args) args.push_back(wide(a));
    if (!is_half(n.dtype)) return call(*c->intrinsic, std::move(args), n.dtype, n.span);
    return cast(n.dtype, call(*c->intrinsic, std::move(args), f32.with_lanes(n.dtype.lanes), n.span), n.span);
  };
  auto casts = [&](const Cast& n, Rewriter& self) {
    Expr e = self.children(n);
    auto* c = e.as<Cast>();
    if (!c) return e;
    DType from = c->a->dtype, to = n.dtype;
    bool exact = from.is_bool() || (from.is_int() && from.bits < 32);  // in an f32
    bool unpack = is_half(from) && to.scalar() != f32;
    return unpack || (is_half(to) && exact) ? cast(to, wide(c->a), n.span) : e;
  };
  return rewrite(s, binaries, unaries, calls, casts);
}

// ── types and constants ───────────────────────────────────────────────────────────────────────────────
std::string Printer::type(DType t) {
  if (t.lanes > 1) {
    need("vec");
    return fmt::format("vec<{}, {}>", type(t.scalar()), t.lanes);
  }
  if (is_half(t)) {
    std::string name = t.kind == DType::Kind::bfloat ? "bf16_t" : "half_t";
    need(name);
    return name;
  }
  if (t.is_float()) return t.bits == 64 ? "double" : "float";
  if (t.is_bool()) return "bool";
  if (t.is_handle()) return "void*";
  internal_check(t.is_int(), "a C type for " + to_string(t));
  return std::string(int_name(t));
}

std::string Printer::zero_of(DType t) { return is_half(t) ? type(t) + "::raw(0)" : text(zero(t)); }

Text Printer::print_int(const IntImm& n, bool typed) {
  DType t = n.dtype;
  if (t.is_bool()) return {n.value ? "true" : "false"};
  if (t.is_unsigned() && t.bits >= 32)
    return {fmt::format("{}{}", uint64_t(n.value), t.bits == 64 ? "ULL" : "u")};
  std::string_view suffix = t.bits == 64 ? "LL" : "";
  if (t.bits >= 32 && n.value == range_of_type(t).min)  // its magnitude is no literal of the type
    return {fmt::format("(-{}{} - 1)", range_of_type(t).max, suffix)};
  if (t == i64 && !typed && std::abs(n.value) <= INT32_MAX) suffix = "";
  std::string s = fmt::format("{}{}", n.value, suffix);
  if (t.bits < 32 && typed) return {fmt::format("{}({})", int_name(t), s)};
  return {s, n.value < 0 ? prefix : postfix};
}

Text Printer::print_float(const FloatImm& n) {
  DType t = n.dtype;
  if (is_half(t))
    return {fmt::format("{}::raw(0x{:04x} /* {} */)", type(t), stored_bits(n.value, t), n.value)};
  if (!std::isfinite(n.value))
    return {fmt::format(fmt::runtime(t.bits == 64 ? "{}(0x{:x}ll)" : "{}(0x{:x})"),
                        built_in(t.bits == 64 ? "__longlong_as_double" : "__int_as_float"),
                        stored_bits(n.value, t))};
  return {float_digits(n.value, t) + (t.bits == 64 ? "" : "f"), std::signbit(n.value) ? prefix : postfix};
}

// C++ computes 8 and 16 bits, and bits of bools, as int; an overload, a template, a brace or an operand of
// inline assembly must see the type itself.
std::string Printer::argument(const Expr& e) {
  DType t = e->dtype;
  if (auto* n = e.as<IntImm>()) return print_int(*n, true).text;
  Text s = print(e);
  auto* load = e.as<Load>();
  bool grows = t.is_bool() ? e.as<Binary>() && !is_comparison(e.as<Binary>()->op) : t.is_int() && t.bits < 32;
  if (!grows || e.as<Var>() || (load && !load->mask)) return s.text;
  std::string_view intrinsic = std::string_view(s.text).substr(0, s.text.find('('));
  bool typed =
      s.rank == postfix && (intrinsic == type(t) || intrinsic.ends_with(fmt::format("<{}>", type(t))));
  return typed ? s.text : fmt::format("{}({})", type(t), s.text);
}

std::string Printer::text(const Expr& e, Rank at_least) {
  Text t = print(e);
  return t.rank < at_least ? "(" + t.text + ")" : t.text;
}

Interval Printer::range_of(const Expr& e) const {
  if (!known) known.emplace(facts);
  Interval range = known->range(e), possible = range_of_type(e->dtype);
  // A widening cast keeps its operand's range. That of u64 cannot be said in i64.
  if (auto* n = e.as<Cast>(); n && n->a->dtype.is_int() && n->a->dtype.scalar() != u64) {
    Interval narrow = range_of_type(n->a->dtype);
    if (possible.min <= narrow.min && narrow.max <= possible.max) possible = narrow;
  }
  return {std::max(range.min, possible.min), std::min(range.max, possible.max)};
}

bool Printer::wraps(const Expr& e) const {
  auto* n = e.as<Binary>();
  DType t = e->dtype;
  if (!n || !t.is_int() || !is_sum(n->op) || t.scalar() == u64) return false;
  if (t.scalar() != i64) return true;
  if (!known) known.emplace(facts);
  return known->of(e).data;
}

std::string c_string(std::string_view text) {
  std::string s = "\"";
  for (unsigned char c : text)
    s += c == '"' || c == '\\' ? fmt::format("\\{:c}", char(c))
         : c < ' ' || c > '~'  ? fmt::format("\\{:03o}", c)
                               : std::string(1, char(c));
  return s + "\"";
}

// ── operators ─────────────────────────────────────────────────────────────────────────────────────────
Text Printer::print(const Expr& e) {
  internal_check(e->dtype.lanes == 1, "a vector where C++ wants a scalar");
  return dispatch(e, overloads{
                         [&](const IntImm& n) { return print_int(n, false); },
                         [&](const FloatImm& n) { return print_float(n); },
                         [&](const StringImm& n) { return Text{c_string(n.value)}; },
                         [&](const Var& n) {
                           auto it = vars.find(&n);
                           internal_check(it != vars.end(), "a variable that is not in scope: " + n.hint);
                           return Text{int_vars.contains(&n) ? "i64(" + it->second + ")" : it->second};
                         },
                         [&](const Unary& n) { return print_unary(n); },
                         [&](const Binary& n) { return print_binary(n); },
                         [&](const Cast& n) { return print_cast(n); },
                         [&](const Select& n) {
                           return Text{fmt::format("{} ? {} : {}", text(n.cond, or_rank), text(n.a, or_rank),
                                                   text(n.b, ternary)),
                                       ternary};
                         },
                         [&](const Load& n) { return print_load(n); },
                         [&](const Ramp&) -> Text { internal_error("a ramp of one lane"); },
                         [&](const Broadcast& n) { return print(n.value); },
                         [&](const Call& n) { return print_call(n); },
                     });
}

Text Printer::print_unary(const Unary& n) {
  DType t = n.dtype;
  std::string a = text(n.a, prefix);
  if (n.op == UnaryOp::logical_not) return {"!" + a, prefix};
  std::string s = n.op == UnaryOp::bit_not ? "~" + a : a[0] == '-' ? "-(" + a + ")" : "-" + a;
  if (n.op == UnaryOp::neg && t.is_signed() && t.is_int() && t.bits <= 32) {
    need("neg");
    std::string negated = fmt::format("tl_neg({})", text(n.a));
    return {t == i32 ? negated : low_bits(t, negated)};
  }
  if (n.op == UnaryOp::neg && t == i64 && range_of(n.a).min == INT64_MIN && known->of(n.a).data)
    return {fmt::format("i64(-{})", unsigned_text(n.a, prefix))};
  if (t.is_int() && t.bits < 32) return {low_bits(t, s)};
  return {s, prefix};
}

// C computes 8 and 16 bits as int: what the type keeps of it.
std::string Printer::low_bits(DType t, std::string_view wide) {
  need("low_bits");
  return fmt::format("tl_low_bits<{}>({})", type(t), wide);
}

// One operand.  An i64 constant needs no suffix beside a value that already is one.
std::string Printer::operand(const Binary& parent, const Expr& e, Rank at_least) {
  auto* child = e.as<Binary>();
  bool associative =
      child && child->op == parent.op && parent.op != BinaryOp::shl && parent.op != BinaryOp::shr;
  if (child && is_obscure(parent.op) && !associative) at_least = prefix;
  if (child && is_obscure(child->op) && !associative) at_least = postfix;
  if (child && parent.op == BinaryOp::logical_or && child->op == BinaryOp::logical_and) at_least = postfix;
  auto* literal = e.as<IntImm>();
  if (!literal) return text(e, at_least);
  bool both = is_const(parent.a) && is_const(parent.b);
  Text t = print_int(*literal, both || (rank_of(parent.op) == shift && e.same(parent.a)));
  return t.text;
}

Text Printer::print_infix(const Binary& n, std::string_view symbol, Rank rank) {
  std::string a = operand(n, n.a, rank);
  if (auto* b = n.b.as<IntImm>(); b && n.op == BinaryOp::add && b->value < 0 && b->value > INT32_MIN)
    return {fmt::format("{} - {}", a, -b->value), rank};
  return {fmt::format("{} {} {}", a, symbol, operand(n, n.b, Rank(rank + 1))), rank};
}

Text Printer::print_binary(const Binary& n) {
  DType t = n.a->dtype;
  if (n.op == BinaryOp::min || n.op == BinaryOp::max) {
    std::string_view op = n.op == BinaryOp::min ? "min" : "max";
    if (t.is_float())
      return {fmt::format("{}({}, {})", built_in(fmt::format("f{}{}", op, t.bits == 64 ? "" : "f")),
                          text(n.a), text(n.b))};
    need("minmax");
    return {fmt::format("tl_{}<{}>({}, {})", op, type(t), text(n.a), text(n.b))};
  }
  if (t.is_int() && is_division(n.op)) return print_division(n);
  if (wraps(Expr(&n))) return print_wrapping(n);
  if (auto three = print_logic(n)) return *three;
  Text plain = print_infix(n, symbol_of(n.op), rank_of(n.op));
  if (n.op != BinaryOp::shl || !t.is_int()) return plain;
  std::string s = plain.text;
  if (t.is_signed())  // of a negative number, or into the sign
    s = fmt::format("{}({}) << {}", t.bits == 64 ? "u64" : "u32", text(n.a), operand(n, n.b, sum));
  if (t.bits < 32) return {low_bits(t, s)};
  return t.is_signed() ? Text{fmt::format("{}({})", type(t), s)} : plain;
}

// Division that rounds down: C's own where no operand is negative, a shift by a power of two, else a helper.
Text Printer::print_division(const Binary& n) {
  DType t = n.dtype;
  bool quotient = n.op == BinaryOp::floordiv || n.op == BinaryOp::truncdiv;
  bool floors = n.op == BinaryOp::floordiv || n.op == BinaryOp::floormod;
  Interval a = range_of(n.a), b = range_of(n.b);
  // Of the least number by -1 C++ says nothing for int and wider; narrower quotients grow to int.
  bool overflows = t.is_signed() && a.min <= range_of_type(t).min && b.min <= -1 && b.max >= -1;
  auto divisor = as_int(n.b);
  // Half the instructions of a signed one, which a compiler that does not know the ranges has to take.
  if (t.is_signed() && t.bits >= 32 && !divisor && a.min >= 0 && b.min >= 0) {
    std::string_view bits = t.bits == 64 ? "u64" : "u32";
    return {
        fmt::format("{0}({1}({2}) {3} {1}({4}))", type(t), bits, text(n.a), quotient ? "/" : "%", text(n.b))};
  }
  if (t.is_unsigned() || (floors ? a.min >= 0 && b.min >= 0 : !overflows))
    return print_infix(n, quotient ? "/" : "%", product);
  if (floors && divisor && *divisor > 0 && (*divisor & (*divisor - 1)) == 0) {
    if (quotient)
      return {fmt::format("{} >> {}", text(n.a, prefix), __builtin_ctzll(uint64_t(*divisor))), shift};
    return {fmt::format("{} & {}", text(n.a, prefix), *divisor - 1), bit_and_rank};
  }
  need(floors ? "floordiv" : "truncdiv");
  return {fmt::format("tl_{}{}<{}>({}, {})", floors ? "floor" : "trunc", quotient ? "div" : "mod", type(t),
                      text(n.a), text(n.b))};
}

// Sums and products that wrap: signed ones are done in unsigned arithmetic unless they provably stay in
// range.
Text Printer::print_wrapping(const Binary& n) {
  DType t = n.dtype;
  bool stays = fits(n.op, range_of(n.a), range_of(n.b), t) || is_small_product(Expr(&n), facts);
  if (stays) return print_infix(n, symbol(n.op), rank_of(n.op));
  if (t == u32) return print_infix(n, symbol(n.op), rank_of(n.op));
  std::string s = unsigned_text(Expr(&n), loosest);
  return {t.bits < 32 ? low_bits(t, s) : fmt::format("{}({})", type(t), s)};
}

std::string Printer::unsigned_text(const Expr& e, Rank at_least) {
  auto* n = e.as<Binary>();
  bool wide = e->dtype == i64;
  if (auto* i = e.as<IntImm>(); i && wide) return fmt::format("{}ULL", uint64_t(i->value));
  if (auto* i = e.as<IntImm>()) return fmt::format("{}u", uint32_t(i->value));
  if (!n || !is_sum(n->op) || e->dtype.bits < 32) {  // 8 and 16 bits wrap at each step
    if (n && is_sum(n->op) && !fits(n->op, range_of(n->a), range_of(n->b), e->dtype) && at_least == loosest)
      return fmt::format("{} {} {}", unsigned_text(n->a, prefix), symbol(n->op), unsigned_text(n->b, prefix));
    return fmt::format("{}({})", wide ? "u64" : "u32", text(e));
  }
  Rank rank = rank_of(n->op);
  std::string s =
      fmt::format("{} {} {}", unsigned_text(n->a, rank), symbol(n->op), unsigned_text(n->b, Rank(rank + 1)));
  return rank < at_least ? "(" + s + ")" : s;
}

Text Printer::print_cast(const Cast& n) {
  DType from = n.a->dtype, to = n.dtype;
  if (to.is_bool())
    return {fmt::format("{} != {}", text(n.a, relation), from.is_float() ? "0.0f" : "0"), equality};
  if (auto* v = n.a.as<Var>(); v && int_vars.contains(v))
    return {to == i32 ? vars.at(v) : fmt::format("{}({})", type(to), vars.at(v))};
  bool computed = from.is_int() && !n.a.as<Load>() && !n.a.as<IntImm>();
  if (to.is_int() && to.bits < 32 && computed && from.bits <= 64 && from.bits > to.bits)
    return {low_bits(to, from.bits == 64 ? fmt::format("u32({})", text(n.a)) : text(n.a))};
  return {fmt::format("{}({})", type(to), text(n.a))};
}

// ── memory and calls ──────────────────────────────────────────────────────────────────────────────────
std::string Printer::element(BufferId buffer, const std::vector<Expr>& index) {
  auto it = buffers.find(buffer);
  internal_check(it != buffers.end(), "a buffer that is not in scope: " + f[buffer].name);
  if (f[buffer].scope == Scope::local && f[buffer].shape.empty()) return it->second;
  internal_check(index.size() <= 1, "an access that is not flat: " + f[buffer].name);
  return fmt::format("{}[{}]", it->second, index.empty() ? "0" : text(index[0]));
}

Text Printer::print_load(const Load& n) {
  if (auto place = n.mask ? std::nullopt : looked_up(n)) return {*place};
  std::string s = element(n.buffer, n.index);
  if (!n.mask) return {s};
  return {fmt::format("{} ? {} : {}", text(n.mask, or_rank), s, zero_of(n.dtype)), ternary};
}

Text Printer::print_call(const Call& n) {
  if (n.intrinsic == &address_of) {
    auto* at = n.args[0].as<Load>();
    internal_check(at, "the address of something that is not in memory");
    return {"&" + element(at->buffer, at->index), prefix};
  }
  if (n.intrinsic == &even_lanes || n.intrinsic == &odd_lanes)
    return print(lanes(n.args[0], {})[n.intrinsic == &odd_lanes]);
  if (n.intrinsic == &sync_threads) return {"__syncthreads()"};
  if (n.intrinsic == &breakpoint_row) return {"(void)0"};
  if (n.intrinsic == &block_uniform) return print(n.args[0]);
  if (n.intrinsic == &lookup) return print_lookup(n);
  if (n.intrinsic->effect == Intrinsic::Effect::control)
    return {n.intrinsic == &thread_return ? "return" : std::string(n.intrinsic->name)};
  if (n.intrinsic == &print_row || n.intrinsic == &device_assert || n.intrinsic == &assume_function)
    return print_message(n);
  if (n.intrinsic == &thread_index) {
    auto dim = as_int(n.args[0]);
    internal_check(dim && *dim >= 0 && *dim < 3, "the dimension of a thread index");
    return {fmt::format("{}(threadIdx.{})", type(n.dtype), "xyz"[*dim])};
  }
  if (n.intrinsic->computes()) return print_function(n);
  if (obeys_mask(*n.intrinsic) || is_foreign(*n.intrinsic)) return print_memory_call(n);
  if (is_thread_level(*n.intrinsic) || n.intrinsic == &pdl_sync || n.intrinsic == &pdl_trigger)
    return print_thread_call(n);
  if (std::ranges::find(instructions, n.intrinsic) == instructions.end()) instructions.push_back(n.intrinsic);
  std::vector<std::string> args, constants;
  for (size_t i = 0; i < n.args.size(); i++) {
    if (takes_map(*n.intrinsic, i)) {  // and the map tells where its tensor is
      args.push_back("&" + maps.at(n.args[i++].as<StringImm>()->value));
      continue;
    }
    if (auto place = tile_place(n, i)) {
      args.push_back(*place);
      continue;
    }
    (takes_constant(*n.intrinsic, i) ? constants : args).push_back(argument(n.args[i]));
  }
  for (size_t i = 0; i < n.args.size() && !constants.empty(); i++)
    if (takes_constant(*n.intrinsic, i)) {
      this->constants[n.intrinsic].insert(as_int(n.args[i]).value_or(0));
      break;
    }
  if (n.intrinsic->name.starts_with("wgmma_")) need("warpgroup");
  std::string part = constants.empty() ? "" : fmt::format("<{}>", fmt::join(constants, ", "));
  return {fmt::format("tl_{}{}({})", n.intrinsic->name, part, fmt::join(args, ", "))};
}

// What threads do together: a helper of the prelude each.
Text Printer::print_thread_call(const Call& n) {
  for (auto& row : thread_helpers) {
    if (!n.intrinsic->name.starts_with(row.intrinsics)) continue;
    need(row.section);
    std::string name = fmt::format("tl_{}", n.intrinsic->name);
    std::vector<std::string> args;
    for (auto& a : n.args) args.push_back(args.empty() ? argument(a) : text(a));
    if (row.immediate) {  // the first one is part of the instruction
      name += fmt::format("<{}>", text(n.args[0]));
      args.erase(args.begin());
    }
    return {fmt::format("{}({})", name, fmt::join(args, ", "))};
  }
  internal_error(fmt::format("no C++ helper for {}", n.intrinsic->name));
}

}  // namespace tl::c
