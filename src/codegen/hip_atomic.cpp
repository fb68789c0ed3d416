// Atomic accesses in HIP C++: one small function each, around clang's own operation where that becomes the
// chip's instruction, else a loop that compares and swaps.  Shared memory is ordered among the block's
// threads, global among all of the GPU's.
#include "codegen/c_like.h"

namespace tl {
namespace {

using HipAtomic = Intrinsic::Atomic;

std::string_view hip_scope(const AtomicUse& u) {
  return u.global ? "__HIP_MEMORY_SCOPE_AGENT" : "__HIP_MEMORY_SCOPE_WORKGROUP";
}

// Of an access that only loads or only stores, as much of the order as it can have.
std::string hip_order(const AtomicUse& u) {
  static constexpr std::string_view names[] = {"RELAXED", "ACQUIRE", "RELEASE", "ACQ_REL", "SEQ_CST"};
  MemoryOrder order = u.order;
  if (order == MemoryOrder::acq_rel && u.op == HipAtomic::load) order = MemoryOrder::acquire;
  if (order == MemoryOrder::acq_rel && u.op == HipAtomic::store) order = MemoryOrder::release;
  return fmt::format("__ATOMIC_{}", names[size_t(order)]);
}

std::string_view operation_of(HipAtomic op) {
  static constexpr std::string_view names[] = {"",          "load",      "store",   "fetch_add",
                                               "fetch_max", "fetch_min", "fetch_or"};
  return names[size_t(op)];
}

// Compares and swaps until no other thread intervened.
std::string swapped(const AtomicUse& u) {
  internal_check(u.type.lanes == 1, "a vector that the chip does not update");
  return fmt::format(
      "  {0} old = __hip_atomic_load(p, __ATOMIC_RELAXED, {3}), made;\n"
      "  do made = {1};\n"
      "  while (!__hip_atomic_compare_exchange_strong(p, &old, made, {2}, __ATOMIC_RELAXED, {3}));\n{4}",
      u.element, updated(u, "__builtin_"), hip_order(u), hip_scope(u), u.returns ? "  return old;\n" : "");
}

// Several elements at once, which clang names by the chip's instruction, without an order: a fence gives it
// one.  Target::atomic_lanes joins relaxed and releasing updates only, so none is needed behind it.
std::string packed(const AtomicUse& u, const AtomicInstr& row) {
  internal_check(!u.returns, "the old values of several elements");
  std::string fence = u.order == MemoryOrder::relaxed
                          ? ""
                          : fmt::format("  __builtin_amdgcn_fence(__ATOMIC_RELEASE, \"{}\");\n",
                                        u.global ? "agent" : "workgroup");
  return fmt::format(
      "{}  typedef {} pair __attribute__((ext_vector_type(2)));\n"
      "  __builtin_amdgcn_{}_atomic_{}((__attribute__((address_space({}))) pair*)p, __builtin_bit_cast(pair, "
      "x));\n",
      fence, u.type.kind == DType::Kind::bfloat ? "short" : "_Float16", u.global ? "global" : "ds", row.text,
      u.global ? 1 : 3);
}

}  // namespace

std::string hip_atomic(const AtomicUse& u, const Target& target) {
  bool loads = u.op == HipAtomic::load, stores = u.op == HipAtomic::store, several = u.type.lanes > 1;
  std::string value = several ? fmt::format("const vec<{}, {}>&", u.element, u.type.lanes) : u.element;
  auto* row = target.atomic_for(u.op, u.type, u.global);
  std::string access =
      loads || stores || (row && !several)
          ? fmt::format("  {}__hip_atomic_{}(p{}, {}, {});\n", loads || u.returns ? "return " : "",
                        operation_of(u.op), loads ? "" : ", x", hip_order(u), hip_scope(u))
      : row ? packed(u, *row)
            : swapped(u);
  return fmt::format("\nTL_DEVICE {} {}({}{}* p{}) {{\n{}}}\n", loads || u.returns ? u.element : "void",
                     u.name, loads ? "const " : "", u.element, loads ? "" : fmt::format(", {} x", value),
                     access);
}

}  // namespace tl
