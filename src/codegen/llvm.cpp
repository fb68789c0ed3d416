// Function@machine -> LLVM IR text.  A kernel is two functions: the entry that the runtime calls unpacks the
// slots, and passes pointers and scalars to a body whose parameters are `noalias`, on which LLVM's analyses
// depend. The arena holds what GPUs keep in shared memory and registers; local buffers become allocas, which
// LLVM turns into registers where all indices are constants.
#include <fmt/format.h>

#include <utility>

#include "arith/prove.h"
#include "codegen/codegen.h"
#include "codegen/llvm_kernel.h"
#include "ir/rewrite.h"

namespace tl {
namespace llvm {
namespace {

// Loops, vectors and register tiles are decided; what is left is to promote the accumulators, to move address
// arithmetic out of loops and to drop what is not used.
constexpr std::string_view passes = "function(sroa,early-cse,loop-mssa(licm))";

void for_loop(KernelWriter& k, const For& n) {
  Writer& w = k.w;
  DType t = n.var->dtype;
  std::string type = type_text(t), hint = n.var.as<Var>()->hint;
  Value first = k.expr(n.min), end = k.expr(n.min + n.extent);
  std::string head = w.new_label("for"), done = w.new_label("done"), before = w.block;
  Interval count = interval_of(n.extent, k.facts);
  if (count.min > 0)
    w.jump(head);
  else
    w.branch(w.compare("icmp slt", t, first, end), head, done);
  w.label(head);
  size_t phi = w.text.size();
  w.open_scope();
  Value i = w.name(hint), next = w.name(hint + "_next");
  k.vars[n.var.get()] = i;
  Interval from = interval_of(n.min, k.facts), to = interval_of(n.min + n.extent - 1, k.facts);
  k.facts.bind(n.var, Interval{from.min, to.max});
  bool may_jump = jumps(n.body);
  auto outer = std::exchange(k.loop, {.next = may_jump ? w.new_label("next") : "", .done = done});
  k.stmt(n.body);
  if (may_jump) {
    w.jump(k.loop.next);
    w.label(k.loop.next);
  }
  k.loop = std::move(outer);
  w.line(fmt::format("{} = add nsw {} {}, 1", next, type, i));
  w.branch(w.compare("icmp slt", t, next, end), head, done);
  w.close_scope();
  w.text.insert(
      phi, fmt::format("  {} = phi {} [ {}, %{} ], [ {}, %{} ]\n", i, type, first, before, next, w.block));
  w.label(done);
}

void if_stmt(KernelWriter& k, const If& n) {
  Writer& w = k.w;
  Value cond = k.expr(n.cond);
  std::string yes = w.new_label("then"), no = w.new_label("else"), join = w.new_label("join");
  w.branch(cond, yes, n.else_body ? no : join);
  auto arm = [&](const std::string& label, const Stmt& body) {
    w.label(label);
    w.open_scope();
    k.stmt(body);
    w.close_scope();
    w.jump(join);
  };
  Facts outside = k.facts;
  k.facts.assume(n.cond);
  arm(yes, n.then_body);
  k.facts = std::move(outside);
  if (n.else_body) arm(no, n.else_body);
  w.label(join);
}

// A loop that may never end asks whether the call has, and leaves the block then.
void ask_whether_over(Writer& w) {
  w.declarations.insert("declare zeroext i1 @tl_poll() nounwind memory(inaccessiblemem: readwrite)");
  std::string leave = w.new_label("leave"), stay = w.new_label("stay");
  w.branch(w.fresh("call zeroext i1 @tl_poll()"), leave, stay);
  w.label(leave);
  w.line("ret void");
  w.label(stay);
}

void while_stmt(KernelWriter& k, const While& n) {
  Writer& w = k.w;
  std::string head = w.new_label("while"), body = w.new_label("do"), done = w.new_label("done");
  w.jump(head);
  w.label(head);
  w.open_scope();
  w.branch(k.expr(n.cond), body, done);
  w.label(body);
  ask_whether_over(w);
  auto outer = std::exchange(k.loop, {.next = head, .done = done});
  k.stmt(n.body);
  k.loop = std::move(outer);
  w.jump(head);
  w.close_scope();
  w.label(done);
}

// What follows a jump in its block is never reached; it stands in a block of its own.
void control(KernelWriter& k, const Intrinsic& row) {
  if (&row == &thread_return)
    k.w.line("ret void");
  else
    k.w.jump(&row == &break_loop ? k.loop.done : k.loop.next);
  k.w.label(k.w.new_label("unreached"));
}

void let(KernelWriter& k, const Let& n) {
  k.vars[n.var.get()] = k.expr(n.value);
  learn(k.facts, n.var, n.value);
}

void alloc(KernelWriter& k, const Alloc& n) {
  const BufferInfo& info = k.f[n.buffer];
  if (auto* base = info.scope == Scope::global ? n.attrs.find("base") : nullptr) {  // made from an address
    auto& e = std::get<Expr>(*base);
    Value v = k.expr(e);
    k.pointers[n.buffer] =
        e->dtype.is_handle() ? v : k.w.fresh(fmt::format("inttoptr {} {} to ptr", type_text(e->dtype), v));
    return;
  }
  if (info.scope != Scope::local || is_in_arena(info) || k.pointers.count(n.buffer)) return;
  int64_t elements = info.elements >= 0 ? info.elements : element_count(info);
  internal_check(elements > 0, "a local buffer of constant shape");
  Value name = k.w.name(info.name);
  k.w.allocas += fmt::format("  {} = alloca [{} x {}], align 64\n", name, elements, memory_text(info.dtype));
  k.pointers[n.buffer] = name;
}

}  // namespace

void KernelWriter::stmt(const Stmt& s) {
  if (s->span) statement = s->span;
  known.reset();  // what follows may be known of more
  fails.clear();
  dispatch(s, overloads{
                  [&](const Store& n) { store(n); },
                  [&](const Let& n) { let(*this, n); },
                  [&](const For& n) { for_loop(*this, n); },
                  [&](const If& n) { if_stmt(*this, n); },
                  [&](const While& n) { while_stmt(*this, n); },
                  [&](const Block& n) {
                    for (auto& inner : n.stmts) stmt(inner);
                  },
                  [&](const Group& n) { stmt(n.body); },
                  [&](const Alloc& n) { alloc(*this, n); },
                  [&](const Tile&) { internal_error("a tile operator at level machine"); },
                  [&](const Eval& n) {
                    if (const Intrinsic* row = control_of(s)) return control(*this, *row);
                    auto* c = n.value.as<Call>();
                    if (!c || !write_message(*this, *c)) expr(n.value);
                  },
              });
}

namespace {

// What one slot holds: a pointer, or a scalar of some type for a variable.
struct Slot {
  BufferId buffer = {};
  const ExprNode* var = nullptr;
  std::string hint;
  DType type = handle;
};

Slot slot_of(const Function& f, const Program& p, const EntrySpec::Arg& arg) {
  using From = EntrySpec::Arg::From;
  size_t i = size_t(arg.index);
  if (arg.from == From::workspace) return {.buffer = f.workspaces[i], .hint = f[f.workspaces[i]].name};
  if (arg.from == From::integer)
    return {.var = integer_vars(f)[i].get(), .hint = p.integers[i].name, .type = i64};
  const Param& param = f.params[i];
  if (param.buffer) return {.buffer = param.buffer, .hint = param.name};
  return {.var = param.var.get(), .hint = param.name, .type = param.var->dtype};
}

// The large tensors that no kernel of the function reads.  They are written past the caches.
std::set<BufferId> streamed_tensors(const Function& f, const Target& target) {
  std::set<BufferId> written, read;
  for (const Kernel& kernel : f.kernels)
    visit(
        kernel.body, [&](const Store& n) { written.insert(n.buffer); },
        [&](const Load& n) { read.insert(n.buffer); });
  std::erase_if(written, [&](BufferId b) {
    int64_t bytes = f[b].dtype.bytes() * element_count(f[b]);
    return f[b].scope != Scope::global || read.contains(b) || bytes < target.streaming_bytes;
  });
  return written;
}

struct Module {
  const Function& f;
  const Target& target;
  std::set<BufferId> streamed = streamed_tensors(f, target);
  Writer w = {};
  std::string text = {};

  void entry(const Kernel& kernel, const EntrySpec& spec, const std::vector<Slot>& slots);
  void body(const Kernel& kernel, const EntrySpec& spec, const std::vector<Slot>& slots);
  void kernel(const Kernel& kernel, const EntrySpec& spec, const Program& p) {
    std::vector<Slot> slots;
    for (auto& arg : spec.args) slots.push_back(slot_of(f, p, arg));
    entry(kernel, spec, slots);
    body(kernel, spec, slots);
  }
};

constexpr std::string_view grid_names[] = {"%bx", "%by", "%bz"};

void Module::entry(const Kernel& kernel, const EntrySpec& spec, const std::vector<Slot>& slots) {
  w.begin_function();
  std::string args;
  for (size_t i = 0; i < slots.size(); i++) {
    DType type = slots[i].type, memory = type.is_bool() ? u8 : type;
    Value place = w.pure(fmt::format("getelementptr i64, ptr %slots, i64 {}", i));
    Value v = w.fresh(fmt::format("load {}, ptr {}, align 8", type_text(memory), place));
    if (type.is_bool()) v = w.compare("icmp ne", memory, v, "0");
    args += fmt::format(", {} {}", type_text(type), v);
  }
  for (size_t d = 0; d < kernel.grid.size(); d++) args += fmt::format(", i64 {}", grid_names[d]);
  w.line(fmt::format("call void @{}.body(ptr %arena{})", spec.name, args));
  if (!streamed.empty()) {  // such stores are ordered with no others until told
    w.declarations.insert("declare void @llvm.x86.sse.sfence()");
    w.line("call void @llvm.x86.sse.sfence()");
  }
  text += fmt::format(
      "define void @{}(ptr %slots, i64 %bx, i64 %by, i64 %bz, ptr %arena) #0 {{\n{}  ret void\n}}\n\n",
      spec.name, w.text);
}

void Module::body(const Kernel& kernel, const EntrySpec& spec, const std::vector<Slot>& slots) {
  w.begin_function();
  KernelWriter k{.f = f,
                 .target = target,
                 .w = w,
                 .facts = facts_of(f, kernel),
                 .has_half = target.features.find("f16c") != std::string_view::npos,
                 .streamed = streamed};
  bool made_tensors = false;  // may be part of an argument
  visit(kernel.body, [&](const Alloc& n) { made_tensors |= f[n.buffer].scope == Scope::global; });
  std::string params = "ptr noalias align 64 %arena";
  w.name("arena");
  for (auto& slot : slots) {
    Value v = w.name(slot.hint);
    if (slot.buffer)
      k.pointers[slot.buffer] = v;
    else
      k.vars[slot.var] = v;
    bool alone = slot.buffer && !made_tensors && !may_alias(kernel, slot.buffer);
    params += fmt::format(", {}{} {}", type_text(slot.type), alone ? " noalias" : "", v);
  }
  for (size_t d = 0; d < kernel.grid.size(); d++) {
    Value v = w.name(kernel.grid_vars[d].as<Var>()->hint);
    k.vars[kernel.grid_vars[d].get()] = v;
    params += fmt::format(", i64 {}", v);
  }
  if (kernel.thread) k.vars[kernel.thread.get()] = "0";
  k.stmt(kernel.body);
  for (auto& comment : comments_of(kernel)) text += "; " + comment + "\n";
  text += fmt::format("define internal void @{}.body({}) #0 {{\nentry:\n{}{}  ret void\n}}\n\n", spec.name,
                      params, w.allocas, w.text);
}

std::string attributes(const Target& target) {
  int bits = target.vector_bytes * 8;
  std::string features =
      target.features.empty() ? "" : fmt::format(" \"target-features\"=\"{}\"", target.features);
  return fmt::format(
      "attributes #0 = {{ nounwind \"target-cpu\"=\"{}\"{} \"prefer-vector-width\"=\"{}\" "
      "\"min-legal-vector-width\"=\"{}\" \"no-trapping-math\"=\"true\" }}\n",
      target.name, features, bits, bits);
}

}  // namespace
}  // namespace llvm

Program print_llvm(const Function& f, const Target& target) {
  Program p = signature_of(f, target);
  p.flags = {fmt::format("-passes={}", llvm::passes)};
  llvm::Module module{.f = f, .target = target};
  module.w.fast = target.fast_math;
  module.w.has_scale = target.features.find("avx512vl") != std::string_view::npos;
  for (size_t i = 0; i < f.kernels.size(); i++) {
    int64_t& arena = p.entries[i].arena_bytes;
    if (arena) arena = (arena + 127) / 64 * 64;  // a vector may be read that begins inside and ends beyond
    module.kernel(f.kernels[i], p.entries[i], p);
  }
  p.text = fmt::format("; {} for {}\n\n", f.name, target.name) + module.text;
  for (auto& d : module.w.declarations) p.text += d + "\n";
  p.text += (module.w.declarations.empty() ? "" : "\n") + llvm::attributes(target);
  if (!module.streamed.empty()) p.text += "!0 = !{i32 1}\n";
  return p;
}

}  // namespace tl
