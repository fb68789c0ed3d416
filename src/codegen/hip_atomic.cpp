// Atomic accesses in HIP C++: one small function each, around clang's own operations, which become the chip's
// instructions where it has them.  16-bit floats are compared and swapped as bits.  Shared memory is ordered
// among the block's threads, global among all of the GPU's.
#include "codegen/c_like.h"

namespace tl {
namespace {

using HipAtomic = Callee::Atomic;

std::string_view hip_type(DType t) {
  if (t.is_float())
    return t.bits == 16   ? (t.kind == DType::Kind::bfloat ? "bf16_t" : "half_t")
           : t.bits == 32 ? "float"
                          : "double";
  static constexpr std::string_view names[2][4] = {{"i8", "i16", "int", "i64"}, {"u8", "u16", "u32", "u64"}};
  return names[t.is_unsigned()][t.bits == 8 ? 0 : t.bits == 16 ? 1 : t.bits == 32 ? 2 : 3];
}

std::string_view hip_scope(const AtomicUse& u) {
  return u.global ? "__HIP_MEMORY_SCOPE_AGENT" : "__HIP_MEMORY_SCOPE_WORKGROUP";
}

// Of an access that only loads or only stores, as much of the order as it can have.
std::string_view hip_order(const AtomicUse& u) {
  switch (u.order) {
    case MemoryOrder::relaxed:
      return "__ATOMIC_RELAXED";
    case MemoryOrder::acquire:
      return "__ATOMIC_ACQUIRE";
    case MemoryOrder::release:
      return "__ATOMIC_RELEASE";
    case MemoryOrder::acq_rel:
      return u.op == HipAtomic::load    ? "__ATOMIC_ACQUIRE"
             : u.op == HipAtomic::store ? "__ATOMIC_RELEASE"
                                        : "__ATOMIC_ACQ_REL";
    case MemoryOrder::seq_cst:
      return "__ATOMIC_SEQ_CST";
  }
  return "";
}

std::string_view operation_of(HipAtomic op) {
  switch (op) {
    case HipAtomic::add:
      return "add";
    case HipAtomic::max:
      return "max";
    case HipAtomic::min:
      return "min";
    default:
      return "or";
  }
}

// 16-bit floats: what the update makes of `old` and x.
std::string swapped(const AtomicUse& u, std::string_view t) {
  std::string_view value = u.op == HipAtomic::add   ? "float(old) + float(x)"
                           : u.op == HipAtomic::max ? "__builtin_fmaxf(float(old), float(x))"
                                                    : "__builtin_fminf(float(old), float(x))";
  return fmt::format(
      "  u16 found = *(const volatile u16*)p;\n"
      "  {0} old, made;\n"
      "  do {{\n"
      "    old = {0}::raw(found);\n"
      "    made = {0}({1});\n"
      "  }} while (!__hip_atomic_compare_exchange_strong((u16*)p, &found, made.bits, {2}, __ATOMIC_RELAXED,\n"
      "                                                 {3}));\n",
      t, value, hip_order(u), hip_scope(u));
}

}  // namespace

std::string hip_atomic(const AtomicUse& u, const Target&) {
  internal_check(u.type.lanes == 1, "an atomic access of several elements");
  std::string_view t = hip_type(u.type);
  bool half = u.type.is_float() && u.type.bits == 16, loads = u.op == HipAtomic::load;
  bool gives = loads || u.returns;
  std::string text = fmt::format("\nTL_DEVICE {} {}({}{}* p{}) {{\n", gives ? t : "void", u.name,
                                 loads ? "const " : "", t, loads ? "" : fmt::format(", {} x", t));
  std::string_view place = half ? (loads ? "(const u16*)p" : "(u16*)p") : "p";
  if (loads) {
    std::string value = fmt::format("__hip_atomic_load({}, {}, {})", place, hip_order(u), hip_scope(u));
    return text + fmt::format("  return {};\n}}\n", half ? fmt::format("{}::raw({})", t, value) : value);
  }
  if (u.op == HipAtomic::store)
    return text + fmt::format("  __hip_atomic_store({}, {}, {}, {});\n}}\n", place, half ? "x.bits" : "x",
                              hip_order(u), hip_scope(u));
  if (half) return text + swapped(u, t) + (gives ? "  return old;\n}\n" : "}\n");
  return text + fmt::format("  {}__hip_atomic_fetch_{}(p, x, {}, {});\n}}\n", gives ? "return " : "",
                            operation_of(u.op), hip_order(u), hip_scope(u));
}

}  // namespace tl
