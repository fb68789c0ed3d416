// Calls that reach memory through a place (atomics, explicit-width accesses), external functions and inline
// PTX.  An access is a call of a small function that the dialect writes; it stands under the mask of its
// place.
#include <algorithm>

#include "codegen/c_like.h"

namespace tl::c {
namespace {

// The first element of a place.
Expr first_index(const Load& at) {
  if (at.index.empty()) return imm(0);
  auto* run = at.index[0].as<Ramp>();
  return run ? run->base : at.index[0];
}

Expr mask_of(const Call& n) {
  auto* at = obeys_mask(*n.callee) ? place_of(n.args[0]) : nullptr;
  return at ? at->mask : Expr();
}

// The constraint letter by which inline assembly takes a value.
char constraint(DType t) {
  if (t.is_float() && t.bits >= 32) return t.bits == 64 ? 'd' : 'f';
  return t.bits == 64 ? 'l' : t.bits == 32 ? 'r' : 'h';
}

// {0} {1} … {out} {out0} … become %n; all other text stands as it is.
std::string with_holes(std::string_view pattern, size_t outputs) {
  std::string s;
  for (size_t i = 0; i < pattern.size(); i++) {
    size_t end = pattern[i] == '{' ? pattern.find('}', i) : pattern.npos;
    std::string_view word = end == pattern.npos ? std::string_view() : pattern.substr(i + 1, end - i - 1);
    bool output = word.starts_with("out");
    std::string_view digits = output ? word.substr(3) : word;
    bool number = std::all_of(digits.begin(), digits.end(), [](char ch) { return ch >= '0' && ch <= '9'; });
    if (!number || digits.size() > 3 || (digits.empty() && !output)) {
      bool written = pattern[i] == '%' && i + 1 < pattern.size() && pattern[i + 1] == '%';
      s += pattern[i] == '%' ? "%%" : std::string(1, pattern[i]);  // a register's name
      i += written;
      continue;
    }
    size_t hole = digits.empty() ? 0 : size_t(std::stoul(std::string(digits)));
    s += fmt::format("%{}", output ? hole : outputs + hole);
    i = end;
  }
  return s;
}

}  // namespace

std::string Printer::pointer(const Expr& place) {
  auto* at = place_of(place);
  return "&" + element(at->buffer, {first_index(*at)});
}

std::string Printer::atomic_call(const Call& n) {
  const Load& at = *place_of(n.args[0]);
  bool has_value = n.args.size() == 3, returns = n.dtype != none_type;
  AtomicUse use{.op = n.callee->atomic,
                .type = at.dtype,
                .order = order_of(n),
                .returns = returns,
                .global = f[at.buffer].scope == Scope::global,
                .name = {}};
  std::string_view order = memory_orders()[size_t(use.order)];
  use.name = fmt::format("tl_{}_{}{}{}{}", n.callee->name, to_string(use.type), use.global ? "" : "_shared",
                         use.order == MemoryOrder::relaxed ? "" : fmt::format("_{}", order),
                         returns && has_value ? "_old" : "");
  type(use.type);  // its section of the prelude
  atomics.emplace(use.name, use);
  std::string value;
  if (has_value) value = ", " + (use.type.lanes > 1 ? gathered(lanes(n.args[1], {})) : argument(n.args[1]));
  return fmt::format("{}({}{})", use.name, pointer(n.args[0]), value);
}

std::string Printer::foreign_call(const Call& n) {
  std::vector<std::string> args;
  for (size_t i = 2; i < n.args.size(); i++)
    args.push_back(place_of(n.args[i]) ? pointer(n.args[i]) : argument(n.args[i]));
  return fmt::format("{}({})", n.args[0].as<StringImm>()->value, fmt::join(args, ", "));
}

// Always volatile; it clobbers memory where it is given an address.
std::string Printer::ptx_statement(const Call& n) {
  size_t outputs = size_t(*as_int(n.args[2]));
  std::vector<std::string> to, from;
  bool memory = false;
  for (size_t i = 3; i < n.args.size(); i++) {
    const Expr& e = n.args[i];
    auto* at = place_of(e);
    if (i < 3 + outputs) {
      std::string variable = element(at->buffer, at->index);
      to.push_back(
          fmt::format("\"={}\"({}{})", constraint(at->dtype), variable, is_half(at->dtype) ? ".bits" : ""));
    } else if (at) {
      memory = true;
      bool in_window = f[at->buffer].scope == Scope::shared;
      from.push_back(in_window ? fmt::format("\"r\"(u32(__cvta_generic_to_shared({})))", pointer(e))
                               : fmt::format("\"l\"({})", pointer(e)));
    } else if (e.as<IntImm>()) {
      from.push_back(fmt::format("\"n\"({})", text(e)));
    } else {
      std::string value = is_half(e->dtype) ? fmt::format("({}).bits", text(e)) : argument(e);
      from.push_back(fmt::format("\"{}\"({})", constraint(e->dtype), value));
    }
  }
  std::string pattern = c_string(with_holes(n.args[0].as<StringImm>()->value, outputs));
  return fmt::format("asm volatile({} : {} : {}{})", pattern, fmt::join(to, ", "), fmt::join(from, ", "),
                     memory ? " : \"memory\"" : "");
}

std::string Printer::memory_call(const Call& n) {
  if (n.callee->atomic != Callee::Atomic::none) return atomic_call(n);
  if (n.callee == &inline_ptx) return ptx_statement(n);
  if (is_foreign(*n.callee)) return foreign_call(n);
  std::string at = pointer(n.args[0]);
  if (n.callee == &load_wide) return fmt::format("*(const u32*){}", at);
  if (n.args[1]->dtype.lanes == 1) return fmt::format("*(u32*){} = {}", at, text(n.args[1]));
  internal_error("a wide store of several lanes is a statement");
}

Text Printer::print_memory_call(const Call& n) {
  std::string s = memory_call(n);
  Expr mask = mask_of(n);
  Rank rank = n.callee == &load_wide ? prefix : postfix;
  return mask ? Text{fmt::format("{} ? {} : {}", text(mask, or_rank), s, zero_of(n.dtype)), ternary}
              : Text{s, rank};
}

// At most 16 bytes an access.
std::vector<Expr> Printer::load_wide_lanes(const Call& n, const Guard& guard) {
  internal_check(!guard.per_lane, "a wide load that some lanes take");
  Expr mask = both(guard.cond, mask_of(n));
  if (mask) mask = hoisted(mask, "m");
  need("access");
  int count = std::min<int>(n.dtype.lanes, 4);
  std::vector<Expr> result;
  std::string at = pointer(n.args[0]);
  for (int first = 0; first < n.dtype.lanes; first += count) {
    std::string name = names.unique("wide"),
                value = fmt::format("tl_load<{}>((const u32*){} + {})", count, at, first);
    std::string t = type(n.dtype.with_lanes(count));
    line(mask ? fmt::format("{} {} = {{}};", t, name) : fmt::format("const {} {} = {};", t, name, value));
    if (mask) line(fmt::format("if ({}) {} = {};", text(mask), name, value));
    auto part = named_lanes(n.dtype.with_lanes(count), name);
    result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

void Printer::print_eval(const Eval& n) {
  auto* c = n.value.as<Call>();
  bool memory = c && (obeys_mask(*c->callee) || is_foreign(*c->callee));
  if (!memory) return line(text(n.value) + ";");
  Expr mask = mask_of(*c);
  if (c->callee == &store_wide && c->args[1]->dtype.lanes > 1) {
    std::vector<Expr> values = lanes(c->args[1], {});
    need("access");
    size_t count = std::min<size_t>(values.size(), 4);
    for (size_t first = 0; first < values.size(); first += count) {
      std::vector<Expr> part(values.begin() + long(first), values.begin() + long(first + count));
      line(fmt::format("{}tl_store((u32*){} + {}, {});", mask ? fmt::format("if ({}) ", text(mask)) : "",
                       pointer(c->args[0]), first, gathered(part)));
    }
    return;
  }
  std::string s = memory_call(*c);  // may put temporaries in front
  line(fmt::format("{}{};", mask ? fmt::format("if ({}) ", text(mask)) : "", s));
}

}  // namespace tl::c
