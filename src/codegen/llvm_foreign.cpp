// Calls that access memory through an address, in LLVM IR: atomic accesses to tensors, which the blocks of a
// launch share; tiles belong to one block, which is one thread here, so that their updates are plain ones.
#include <fmt/format.h>

#include "codegen/llvm_kernel.h"

namespace tl::llvm {
namespace {

using Atomic = Intrinsic::Atomic;

std::string_view ordering(MemoryOrder order) {
  static constexpr std::string_view names[] = {"monotonic", "acquire", "release", "acq_rel", "seq_cst"};
  return names[size_t(order)];
}
// Of a compare-and-swap that finds another value.
std::string_view failing(MemoryOrder order) {
  if (order == MemoryOrder::seq_cst) return "seq_cst";
  return order == MemoryOrder::relaxed || order == MemoryOrder::release ? "monotonic" : "acquire";
}

BinaryOp operator_of(Atomic op) {
  return op == Atomic::add   ? BinaryOp::add
         : op == Atomic::max ? BinaryOp::max
         : op == Atomic::min ? BinaryOp::min
                             : BinaryOp::bit_or;
}

struct Update {
  KernelWriter& k;
  const Call& n;
  DType type;
  Value at;
  MemoryOrder order;
  Writer& w = k.w;
  std::string text = type_text(type);
  int align = type.bytes();

  Value updated(const Value& old, const Value& value) const {
    Atomic op = n.intrinsic->atomic;
    if (op == Atomic::store) return value;
    if (!is_half(type)) return k.binary(operator_of(op), type, old, value, nullptr);
    Value a = convert(w, type, old, f32, k.has_half), b = convert(w, type, value, f32, k.has_half);
    return convert(w, f32, k.binary(operator_of(op), f32, a, b, nullptr), type, k.has_half);
  }

  // Nobody else reaches the element.
  Value alone(const Value& value) const {
    Value old;
    if (n.intrinsic->atomic != Atomic::store)
      old = w.fresh(fmt::format("load {}, ptr {}, align {}", text, at, align));
    if (!value.empty())
      w.line(fmt::format("store {} {}, ptr {}, align {}", text, updated(old, value), at, align));
    return old;
  }

  // LLVM has no 16-bit floats on every chip: compare and swap.
  Value swap(const Value& value) const {
    std::string head = w.new_label("swap"), done = w.new_label("done");
    Value first = w.fresh(fmt::format("load atomic {}, ptr {} monotonic, align {}", text, at, align));
    std::string before = w.block;
    w.jump(head);
    w.label(head);
    w.open_scope();
    Value seen = w.name("seen");
    Value old = w.fresh(fmt::format("phi {} [ {}, %{} ], [ {}, %{} ]", text, first, before, seen, head));
    Value pair = w.fresh(fmt::format("cmpxchg ptr {}, {} {}, {} {} {} {}, align {}", at, text, old, text,
                                     updated(old, value), ordering(order), failing(order), align));
    w.line(fmt::format("{} = extractvalue {{ {}, i1 }} {}, 0", seen, text, pair));
    Value same = w.fresh(fmt::format("extractvalue {{ {}, i1 }} {}, 1", text, pair));
    internal_check(w.block == head, "one block that compares and swaps");
    w.branch(same, done, head);
    w.close_scope();
    w.label(done);
    return seen;
  }

  Value shared_by_blocks(const Value& value) const {
    Atomic op = n.intrinsic->atomic;
    if (op == Atomic::load)
      return w.fresh(fmt::format("load atomic {}, ptr {} {}, align {}", text, at, ordering(order), align));
    if (op == Atomic::store) {
      w.line(fmt::format("store atomic {} {}, ptr {} {}, align {}", text, value, at, ordering(order), align));
      return "";
    }
    if (is_half(type)) return swap(value);
    std::string_view names[] = {"add", "max", "min", "or"};
    std::string word(names[size_t(op) - size_t(Atomic::add)]);
    if (type.is_float()) word = "f" + word;
    if (type.is_unsigned() && op != Atomic::add && op != Atomic::bit_or) word = "u" + word;
    return w.fresh(fmt::format("atomicrmw {} ptr {}, {} {} {}, align {}", word, at, text, value,
                               ordering(order), align));
  }
};

Value atomic(KernelWriter& k, const Call& n, const Load& at) {
  internal_check(at.dtype.lanes == 1, "an atomic access of one element");
  Value value = n.args.size() == 3 ? k.expr(n.args[1]) : Value();
  Update u{.k = k,
           .n = n,
           .type = at.dtype,
           .at = k.address(at.buffer, at.index.empty() ? imm(0) : at.index[0]),
           .order = order_of(n)};
  bool global = k.f[at.buffer].scope == Scope::global;
  return global ? u.shared_by_blocks(value) : u.alone(value);
}

Value wide(KernelWriter& k, const Call& n, const Load& at) {
  Value place = k.address(at.buffer, at.index.empty() ? imm(0) : at.index[0]);
  if (n.intrinsic == &load_wide)
    return k.w.fresh(fmt::format("load {}, ptr {}, align 1", type_text(n.dtype), place));
  k.w.line(
      fmt::format("store {} {}, ptr {}, align 1", type_text(n.args[1]->dtype), k.expr(n.args[1]), place));
  return "";
}

}  // namespace

Value KernelWriter::memory_call(const Call& n) {
  const Load& at = *place_of(n.args[0]);
  auto access = [&] {
    return n.intrinsic->atomic != Atomic::none ? atomic(*this, n, at) : wide(*this, n, at);
  };
  if (!at.mask) return access();
  std::string yes = w.new_label("inside"), join = w.new_label("join");
  Value cond = expr(at.mask);
  std::string before = w.block;
  w.branch(cond, yes, join);
  w.label(yes);
  w.open_scope();
  Value v = access();
  w.close_scope();
  std::string end = w.block;
  w.jump(join);
  w.label(join);
  if (n.dtype == none_type) return "";
  Value nothing = n.dtype.is_float() ? float_constant(0, n.dtype) : int_constant(0, n.dtype);
  return phi_of(n.dtype, v, end, nothing, before);
}

}  // namespace tl::llvm
