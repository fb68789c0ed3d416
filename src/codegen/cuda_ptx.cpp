// T.ptx in CUDA C++: a statement of inline assembly.
#include <algorithm>

#include "codegen/c_like.h"

namespace tl {
namespace {

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
    bool number = std::ranges::all_of(digits, [](char ch) { return ch >= '0' && ch <= '9'; });
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

// Always volatile; it clobbers memory where it is given an address.
std::string ptx_statement(c::Printer& p, const Call& n) {
  size_t outputs = size_t(*as_int(n.args[2]));
  std::vector<std::string> to, from;
  bool memory = false;
  for (size_t i = 3; i < n.args.size(); i++) {
    const Expr& e = n.args[i];
    auto* at = place_of(e);
    if (i < 3 + outputs) {
      std::string variable = p.element(at->buffer, at->index);
      to.push_back(fmt::format("\"={}\"({}{})", constraint(at->dtype), variable,
                               c::is_half(at->dtype) ? ".bits" : ""));
    } else if (at) {
      memory = true;
      bool in_window = p.f[at->buffer].scope == Scope::shared;
      from.push_back(in_window ? fmt::format("\"r\"(u32(__cvta_generic_to_shared({})))", p.pointer(e))
                               : fmt::format("\"l\"({})", p.pointer(e)));
    } else if (e.as<IntImm>()) {
      from.push_back(fmt::format("\"n\"({})", p.text(e)));
    } else {
      std::string value = c::is_half(e->dtype) ? fmt::format("({}).bits", p.text(e)) : p.argument(e);
      from.push_back(fmt::format("\"{}\"({})", constraint(e->dtype), value));
    }
  }
  std::string pattern = c::c_string(with_holes(n.args[0].as<StringImm>()->value, outputs));
  return fmt::format("asm volatile({} : {} : {}{})", pattern, fmt::join(to, ", "), fmt::join(from, ", "),
                     memory ? " : \"memory\"" : "");
}

}  // namespace tl
