// Atomic accesses in CUDA C++: one small function each, around the chip's own instruction where its table has
// one, else a loop that compares and swaps (floating minima and maxima; bf16 sums before sm_90).
//
// Memory orders are PTX's: the access says relaxed, acquire, release or acq_rel; seq_cst puts a fence.sc in
// front. Shared memory is ordered among the block's threads (cta), global among all of the GPU's (gpu).
#include "codegen/c_like.h"

namespace tl {
namespace {

using Atomic = Intrinsic::Atomic;

// A value in the registers that inline assembly knows.
struct Bits {
  char letter;
  std::string_view type, bits;  // of C++, of PTX without a kind ("b32")
};
Bits bits_of(int bits) {
  if (bits == 64) return {'l', "u64", "b64"};
  return bits == 32 ? Bits{'r', "u32", "b32"} : Bits{'h', "u16", bits == 8 ? "b8" : "b16"};
}

std::string scope_of(const AtomicUse& u) { return u.global ? "gpu" : "cta"; }
std::string space_of(const AtomicUse& u) { return u.global ? "global" : "shared"; }
std::string where_of(const AtomicUse& u) {
  return u.global ? "\"l\"(__cvta_generic_to_global(p))" : "\"r\"(u32(__cvta_generic_to_shared(p)))";
}
std::string fence(const AtomicUse& u) {
  if (u.order != MemoryOrder::seq_cst) return "";
  return fmt::format("  asm volatile(\"fence.sc.{};\" ::: \"memory\");\n", scope_of(u));
}
// The order that the access itself says, of those that it may.
std::string_view semantics(const AtomicUse& u) {
  if (u.order != MemoryOrder::seq_cst) return memory_orders()[size_t(u.order)];
  return u.op == Atomic::load ? "acquire" : u.op == Atomic::store ? "relaxed" : "acq_rel";
}

std::string head(const AtomicUse& u, bool returns) {
  const std::string& element = u.element;
  std::string value = u.type.lanes > 1 ? fmt::format("const vec<{}, {}>& x", element, u.type.lanes)
                                       : fmt::format("{} x", element);
  return fmt::format("\nTL_DEVICE {} {}({}{}* p{}) {{\n{}", returns ? element : "void", u.name,
                     u.op == Atomic::load ? "const " : "", element, u.op == Atomic::load ? "" : ", " + value,
                     fence(u));
}

// Loads and stores move bits.
std::string access_function(const AtomicUse& u) {
  Bits r = bits_of(u.type.bits);
  std::string where = fmt::format("{}.{}.{}.{}", semantics(u), scope_of(u), space_of(u), r.bits);
  const std::string& t = u.element;
  bool narrow = u.type.bits == 8;  // held in a 16-bit register
  if (u.op == Atomic::store)
    return head(u, false) +
           (narrow ? fmt::format("  {} w = u8(x);\n", r.type)
                   : fmt::format("  {0} w = *({0}*)&x;\n", r.type)) +
           fmt::format("  asm volatile(\"st.{} [%0], %1;\" :: {}, \"{}\"(w) : \"memory\");\n}}\n", where,
                       where_of(u), r.letter);
  return head(u, true) +
         fmt::format("  {} w;\n  asm volatile(\"ld.{} %0, [%1];\" : \"={}\"(w) : {} : \"memory\");\n", r.type,
                     where, r.letter, where_of(u)) +
         (narrow ? fmt::format("  return {}(w);\n}}\n", t) : fmt::format("  return *({}*)&w;\n}}\n", t));
}

// How the operands of the chip's instruction are written: one value, or several in braces.
struct Values {
  std::string holes, values;
  std::string_view type;
  char letter;
};
Values values_of(const AtomicUse& u, int first) {
  DType t = u.type;
  if (t.lanes == 1) {
    if (t.bits == 16) return {fmt::format("%{}", first), "\"h\"(x.bits)", "u16", 'h'};
    char letter = t.is_float() ? (t.bits == 64 ? 'd' : 'f') : t.bits == 64 ? 'l' : 'r';
    return {fmt::format("%{}", first), fmt::format("\"{}\"(x)", letter), u.element, letter};
  }
  int words = t.lanes * t.bits / 32;  // 16-bit elements go in pairs
  std::vector<std::string> holes, values;
  for (int i = 0; i < words; i++) {
    holes.push_back(fmt::format("%{}", first + i));
    values.push_back(t.bits == 32 ? fmt::format("\"f\"(x[{}])", i)
                                  : fmt::format("\"r\"(((const u32*)&x)[{}])", i));
  }
  std::string all = fmt::format("{}", fmt::join(holes, ", "));
  return {words > 1 ? "{" + all + "}" : all, fmt::format("{}", fmt::join(values, ", ")), "", ' '};
}

std::string instruction_function(const AtomicUse& u, const AtomicInstr& row) {
  bool plain = u.order == MemoryOrder::relaxed || u.order == MemoryOrder::release;
  bool reduces = !u.returns && plain;  // `red` gives nothing and knows these two
  std::string where = fmt::format("{}.{}.{}.{}", semantics(u), scope_of(u), space_of(u), row.text);
  if (reduces) {
    Values x = values_of(u, 1);
    return head(u, false) + fmt::format("  asm volatile(\"red.{} [%0], {};\" :: {}, {} : \"memory\");\n}}\n",
                                        where, x.holes, where_of(u), x.values);
  }
  internal_check(u.type.lanes == 1, "an old value, or an order that red has not, of a vector");
  Values x = values_of(u, 2);
  std::string s =
      head(u, u.returns) +
      fmt::format(
          "  {} old;\n  asm volatile(\"atom.{} %0, [%1], {};\" : \"={}\"(old) : {}, {} : \"memory\");\n",
          x.type, where, x.holes, x.letter, where_of(u), x.values);
  if (!u.returns) return s + "}\n";
  return s +
         (u.type.bits == 16 ? fmt::format("  return {}::raw(old);\n}}\n", u.element) : "  return old;\n}\n");
}

// Compares and swaps until no other thread intervened. A relaxed update that changes nothing writes nothing.
std::string swap_function(const AtomicUse& u) {
  Bits r = bits_of(u.type.bits);
  const std::string& t = u.element;
  std::string s = head(u, u.returns);
  s +=
      fmt::format("  {0} seen, next, found = *(const volatile {0}*)p;\n  do {{\n    seen = found;\n", r.type);
  s += fmt::format("    {0} old = *({0}*)&seen;\n    {0} made = {1};\n    next = *({2}*)&made;\n", t,
                   updated(u, ""), r.type);
  if (u.order == MemoryOrder::relaxed) s += "    if (next == seen) break;\n";
  s += fmt::format(
      "    asm volatile(\"atom.{}.{}.{}.cas.{} %0, [%1], %2, %3;\" : \"={}\"(found) : {}, \"{}\"(seen), "
      "\"{}\"(next) : \"memory\");\n",
      semantics(u), scope_of(u), space_of(u), r.bits, r.letter, where_of(u), r.letter, r.letter);
  s += "  } while (found != seen);\n";
  return s + (u.returns ? fmt::format("  return *({}*)&found;\n}}\n", t) : "}\n");
}

}  // namespace

std::string updated(const AtomicUse& u, std::string_view math) {
  bool is_float = u.type.is_float(), half = is_float && u.type.bits == 16;
  std::string a = half ? "float(old)" : "old", b = half ? "float(x)" : "x", s;
  if (u.op == Atomic::add)
    s = a + " + " + b;
  else if (u.op == Atomic::bit_or)
    s = a + " | " + b;
  else if (is_float)
    s = fmt::format("{}f{}{}({}, {})", math, u.op == Atomic::max ? "max" : "min",
                    u.type.bits == 64 ? "" : "f", a, b);
  else
    s = fmt::format("{} {} {} ? {} : {}", a, u.op == Atomic::max ? ">" : "<", b, a, b);
  return half ? fmt::format("{}({})", u.element, s) : s;
}

std::string cuda_atomic(const AtomicUse& use, const Target& target) {
  if (use.op == Atomic::load || use.op == Atomic::store) return access_function(use);
  if (auto* row = target.atomic_for(use.op, use.type, use.global)) return instruction_function(use, *row);
  internal_check(use.type.lanes == 1, "a vector that the chip does not update");
  return swap_function(use);
}

}  // namespace tl
