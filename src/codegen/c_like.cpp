// Statements, kernels and the text around them.
#include "codegen/c_like.h"

#include <algorithm>
#include <cctype>

#include "arith/simplify.h"
#include "codegen/foreign_text.h"
#include "target/effects.h"
#include "target/hopper.h"

namespace tl {
namespace c {
namespace {

// What a local name must not hide: keywords, what the language predefines, and the functions that we call.
bool is_reserved(std::string_view name) {
  static const std::set<std::string_view> words = {
      "alignas", "alignof", "and", "and_eq", "asm", "assert", "auto", "bitand", "bitor", "bool", "break",
      "case", "catch", "char", "char16_t", "char32_t", "char8_t", "class", "co_await", "co_return",
      "co_yield", "compl", "concept", "const", "const_cast", "consteval", "constexpr", "constinit",
      "continue", "decltype", "default", "delete", "do", "double", "dynamic_cast", "else", "enum", "explicit",
      "export", "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable",
      "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private",
      "protected", "public", "register", "reinterpret_cast", "requires", "restrict", "return", "short",
      "signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template", "this",
      "thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "typeof", "union", "unsigned",
      "using", "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq",
      // predefined
      "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "linux", "unix", "NULL", "NAN", "INFINITY",
      "printf",
      // ours
      "i8", "i16", "i64", "u8", "u16", "u32", "u64", "half_t", "bf16_t", "vec", "words",
      // functions of the printer's tables
      "exp", "expf", "exp2", "exp2f", "log", "logf", "log2", "log2f", "log10", "log10f", "sqrt", "sqrtf",
      "rsqrt", "rsqrtf", "sin", "sinf", "cos", "cosf", "tanh", "tanhf", "erf", "erff", "fabs", "fabsf",
      "floor", "floorf", "ceil", "ceilf", "rint", "rintf", "trunc", "truncf", "pow", "powf", "fma", "fmaf",
      "fmin", "fminf", "fmax", "fmaxf", "isnan", "isinf", "isfinite", "round", "roundf", "exp10", "exp10f",
      "expm1", "expm1f", "log1p", "log1pf", "tan", "tanf", "asin", "asinf", "acos", "acosf", "atan", "atanf",
      "sinh", "sinhf", "cosh", "coshf", "asinh", "asinhf", "acosh", "acoshf", "atanh", "atanhf", "atan2",
      "atan2f", "hypot", "hypotf", "copysign", "copysignf", "fmod", "fmodf", "vprintf"};
  return words.contains(name);
}

std::string c_safe(std::string_view hint) {
  std::string s;
  for (unsigned char ch : hint)
    if (ch < 0x80 || ch >= 0xc0) s += (std::isalnum(ch) && ch < 0x80) || ch == '_' ? char(ch) : '_';
  // Two underscores in front, or one and a capital, belong to the language; tl_ is ours.
  while (s.size() > 1 && s[0] == '_' && (s[1] == '_' || std::isupper(static_cast<unsigned char>(s[1]))))
    s.erase(0, 1);
  if (s.empty() || s == "_" || std::isdigit(static_cast<unsigned char>(s[0])) || s.starts_with("tl_"))
    s = "v" + s;
  return s;
}

bool uses(const Stmt& s, const Expr& v) {
  return contains(s, [&](const Var& n) { return &n == v.get(); });
}

bool has_group(const Stmt& s) {
  return contains(s, [](const Group&) { return true; });
}

}  // namespace

std::string Names::unique(std::string_view hint) {
  std::string base = c_safe(hint), name = base;
  for (int n = 1; is_reserved(name) || taken.contains(name); n++) name = fmt::format("{}_{}", base, n);
  taken.insert(name);
  scopes.back().push_back(name);
  return name;
}

void Names::close() {
  for (auto& name : scopes.back()) taken.erase(name);
  scopes.pop_back();
}

// ── statements ────────────────────────────────────────────────────────────────────────────────────────
void Printer::line(std::string_view text) {
  out.append(size_t(depth) * 2, ' ');
  out += text;
  out += '\n';
}

void Printer::body(const Stmt& s) {
  Facts outside = facts;
  depth++;
  names.open();
  if (s) stmt(s);
  names.close();
  depth--;
  facts = std::move(outside);
  known.reset();
}

void Printer::declare(const Expr& v, const std::string& init) {
  std::string name = names.unique(v.as<Var>()->hint);
  vars[v.get()] = name;
  line(fmt::format("const {} {} = {};", v->dtype.is_handle() ? "auto" : type(v->dtype), name, init));
}

std::string Printer::name_index(const Expr& v, bool fits_int) {
  std::string name = vars[v.get()] = names.unique(v.as<Var>()->hint);
  bool is_int = v->dtype == i64 && fits_int && target.index_bits <= 32;
  if (is_int) int_vars.insert(v.get());
  return fmt::format("{} {}", is_int ? "int" : type(v->dtype), name);
}

// `#line 12 "file.py"`, where another line begins.
void Printer::say_line(const Stmt& s) {
  if (!line_directives || !s->span.file || s.as<Block>() || s.as<Group>()) return;
  std::pair<std::string, int> at{*s->span.file, int(s->span.line)};
  if (at == said_line) return;
  out += fmt::format("#line {} {}\n", at.second, c_string(at.first));
  said_line = std::move(at);
}

void Printer::stmt(const Stmt& s) {
  hoisted_here.clear();
  known.reset();
  say_line(s);
  dispatch(s, overloads{
                  [&](const Store& n) { print_store(n); },
                  [&](const Let& n) { print_let(n); },
                  [&](const For& n) { print_for(n); },
                  [&](const If& n) { print_if(n, ""); },
                  [&](const While& n) {
                    line(fmt::format("while ({}) {{", text(n.cond)));
                    body(n.body);
                    line("}");
                  },
                  [&](const Block& n) {  // names are unique: no braces needed
                    for (auto& x : n.stmts) stmt(x);
                  },
                  [&](const Group& n) { print_group(n); },
                  [&](const Alloc& n) { print_alloc(n); },
                  [&](const Tile& n) {
                    internal_error("a tile operator at level machine: " + std::string(n.op->name));
                  },
                  [&](const Eval& n) {
                    print_eval(n);
                    if (auto* c = n.value.as<Call>(); c && c->intrinsic == &assume_function)
                      facts.assume(c->args[0]);
                  },
              });
}

void Printer::print_store(const Store& n) {
  if (n.value->dtype.lanes > 1) return store_vector(n);
  std::string s = fmt::format("{} = {};", element(n.buffer, n.index), text(n.value));
  line(n.mask ? fmt::format("if ({}) {}", text(n.mask), s) : s);
}

void Printer::print_let(const Let& n) {
  DType t = n.value->dtype;
  if (t.lanes > 1) {
    auto values = lanes(n.value, {});
    bool named =
        lanes_of.contains(values[0].get()) && gathered(values) == lanes_of[values[0].get()].temporary;
    bool all_words = std::ranges::all_of(values, [&](auto& v) { return is_word(v); });
    vectors[n.var.get()] = named ? values : temporary(t, gathered(values), n.var.as<Var>()->hint);
    for (auto& v : vectors[n.var.get()])
      if (all_words) words.insert(v.get());
    return;
  }
  if (t.is_int()) {
    learn(facts, n.var, n.value);
    if (Interval range = range_of(n.value); range != type_range(t)) facts.bind(n.var, range);
  }
  if (is_word(n.value)) words.insert(n.var.get());
  if (auto* b = n.value.as<Binary>(); b && (b->op == BinaryOp::bit_and || b->op == BinaryOp::floormod))
    masked.emplace(n.var.get(), n.value);
  declare(n.var, text(n.value));
}

void Printer::print_for(const For& n) {
  Facts outside = facts;
  Expr min = has_load(n.min) ? hoisted(n.min, "first") : n.min;  // bounds are evaluated once
  Expr extent = has_load(n.extent) ? hoisted(n.extent, "count") : n.extent;
  auto* wide = extent.as<Cast>();  // of an extent in 32 bits: as wide as the variable then is
  bool is_cast = wide && wide->a->dtype == i32 && wide->dtype == i64;
  std::string first = text(min), last = text(!is_int(min, 0) ? simplify(min + extent, facts)
                                             : is_cast       ? wide->a
                                                             : extent,
                                             shift);
  Interval begin = range_of(min), trips = range_of(extent);
  __int128 top = __int128(begin.max) + trips.max;  // the variable itself ends there
  facts.bind(n.var, Interval{begin.min, top <= INT64_MAX ? int64_t(top) - 1 : INT64_MAX});
  names.open();  // the names of the bounds stand before the loop, and last as long as it
  std::string variable = name_index(n.var, begin.min >= INT32_MIN && top <= INT32_MAX);
  int64_t factor = n.attrs.get_int("unroll_factor");
  // Several turns of a software pipeline at once would need the registers of them all.
  if (n.loop == Loop::serial && n.attrs.find("turns")) line("#pragma unroll 1");
  if (n.loop == Loop::unrolled) unrolled.insert(n.var.get());
  if (n.loop == Loop::unrolled) line(factor ? fmt::format("#pragma unroll {}", factor) : "#pragma unroll");
  const std::string& name = vars[n.var.get()];
  line(fmt::format("for ({0} = {2}; {1} < {3}; ++{1}) {{", variable, name, first, last));
  body(n.body);
  line("}");
  names.close();
  facts = std::move(outside);
  known.reset();
}

void Printer::print_if(const If& n, std::string_view lead) {
  line(fmt::format("{}if ({}) {{", lead, text(n.cond)));
  Facts outside = facts;
  facts.assume(n.cond);
  body(n.then_body);
  facts = std::move(outside);
  known.reset();
  if (!n.else_body) return line("}");
  if (auto* chained = n.else_body.as<If>()) return print_if(*chained, "} else ");
  line("} else {");
  body(n.else_body);
  line("}");
}

void Printer::print_group(const Group& n) {
  bool all = n.first == 0 && n.count == threads;
  int64_t last = n.first + n.count;
  line(all               ? "{"
       : n.first == 0    ? fmt::format("if ({} < {}) {{", thread, last)
       : last == threads ? fmt::format("if ({} >= {}) {{", thread, n.first)
                         : fmt::format("if ({0} >= {1} && {0} < {2}) {{", thread, n.first, last));
  body(n.body);
  line("}");
}

void Printer::print_alloc(const Alloc& n) {
  const BufferInfo& b = f[n.buffer];
  std::string name = buffers[n.buffer] = names.unique(b.name), element_type = type(b.dtype);
  if (b.scope == Scope::global) {  // made from an address
    auto* base = n.attrs.find("base");
    internal_check(base && std::get_if<Expr>(base), "a tensor allocated in a kernel: " + b.name);
    return line(
        fmt::format("{0}* const {1} = ({0}*)({2});", element_type, name, text(std::get<Expr>(*base))));
  }
  if (b.scope == Scope::shared) {
    internal_check(b.address >= 0, "a shared buffer without a place: " + b.name);
    return line(fmt::format("{0}* const {1} = ({0}*)(tl_shared + {2});", element_type, name, b.address));
  }
  internal_check(b.elements >= 0, "a buffer without a size: " + b.name);
  if (b.scope == Scope::local && b.shape.empty()) return line(fmt::format("{} {};", element_type, name));
  // Instructions read small elements as whole registers.
  std::string_view align = b.dtype.bits < 32 ? "__align__(16) " : "";
  line(fmt::format("{}{} {}[{}];", align, element_type, name, std::max<int64_t>(b.elements, 1)));
}

// ── kernels ───────────────────────────────────────────────────────────────────────────────────────────
namespace {

struct KernelText {
  Printer& p;
  const Kernel& k;
  const Stmt& body;
  const Program& program;
  const EntrySpec& entry;
  const std::vector<Expr>& integers;

  // What a kernel writes and reads may be another thread's, behind a barrier: __restrict__ would let the
  // device compiler keep the value that it read before.  Nor may it take as fixed what the kernel before
  // still writes.
  bool is_shared(BufferId id, bool is_written) const {
    bool is_read = is_written && contains(body, [&](const Load& n) { return n.buffer == id; });
    return is_read || p.made_tensors || entry.dependent || may_alias(k, id);
  }
  std::string pointer(BufferId id, bool is_written) const {
    std::string name = p.buffers[id] = p.names.unique(p.f[id].name);
    return fmt::format("{}{}*{} {}", is_written ? "" : "const ", p.type(p.f[id].dtype),
                       is_shared(id, is_written) ? "" : " __restrict__", name);
  }
  std::string value(const Expr& v, DType t, std::string_view hint) const {
    return fmt::format("{} {}", p.type(t), p.vars[v.get()] = p.names.unique(hint));
  }

  std::vector<std::string> parameters() const {
    std::set<BufferId> written = written_buffers(body);
    std::vector<std::string> result;
    for (auto& arg : entry.args) {
      size_t i = size_t(arg.index);
      if (arg.from == EntrySpec::Arg::From::workspace) {
        result.push_back(pointer(p.f.workspaces[i], written.contains(p.f.workspaces[i])));
      } else if (arg.from == EntrySpec::Arg::From::integer) {
        result.push_back(value(integers[i], i64, program.integers[i].name));
      } else if (arg.from == EntrySpec::Arg::From::map) {
        p.need("tensor_map");
        result.push_back(fmt::format("{} {}", p.dialect.map_parameter,
                                     p.maps[p.f.maps[i].name] = p.names.unique(p.f.maps[i].name)));
      } else if (const Param& param = p.f.params[i]; param.buffer) {
        result.push_back(pointer(param.buffer, written.contains(param.buffer)));
      } else {
        result.push_back(value(param.var, param.var->dtype, param.name));
      }
    }
    return result;
  }

  // The thread's place in the block as one number.
  std::string linear_thread() const {
    std::string s = "threadIdx.x";
    if (entry.threads[1] == 1 && entry.threads[2] == 1) return s;
    std::string inner = entry.threads[2] == 1
                            ? "threadIdx.y"
                            : fmt::format("(threadIdx.y + {} * threadIdx.z)", entry.threads[1]);
    return fmt::format("{} + {} * {}", s, entry.threads[0], inner);
  }

  void coordinates() const {
    for (size_t d = 0; d < k.grid_vars.size(); d++)
      if (uses(body, k.grid_vars[d]))
        p.line(fmt::format("const {} = blockIdx.{};", p.name_index(k.grid_vars[d], true), "xyz"[d]));
    Expr thread = k.thread ? k.thread : var("tx", i32);
    p.kept.push_back(thread);
    if (uses(body, thread) || has_group(body)) {
      p.line(fmt::format("const {} = {};", p.name_index(thread, true), linear_thread()));
      p.thread = p.vars[thread.get()];
    }
  }

  std::string print() const {
    p.out.clear();
    p.line_directives = k.attrs.get_int("line_directives") != 0;
    p.said_line = {};
    p.names = {};
    p.names.taken.insert(p.outside.begin(), p.outside.end());
    p.facts = facts_of(p.f, k);
    p.threads = int64_t(entry.threads[0]) * entry.threads[1] * entry.threads[2];
    std::vector<std::string> params = parameters();
    p.depth = 1;
    for (auto& comment : comments_of(k)) p.line("// " + comment);
    if (entry.shared_bytes > 0) p.line(p.dialect.shared_memory(entry.shared_bytes));
    coordinates();
    p.depth = 0;
    p.body(body);
    int64_t blocks = std::max<int64_t>(k.attrs.get_int("min_blocks_per_sm"), 0);
    std::string head = fmt::format("extern \"C\" __global__ void {}\n{}(",
                                   p.dialect.bounds(k, p.threads, blocks), entry.name);
    std::string indent = ",\n" + std::string(entry.name.size() + 1, ' ');
    std::string list = fmt::format("{}", fmt::join(params, ", "));
    if (head.size() + list.size() > 140) list = fmt::format("{}", fmt::join(params, indent));
    return fmt::format("{}{}) {{\n{}}}\n", head, list, p.out);
  }
};

}  // namespace
}  // namespace c

Program print_c_like(const Function& f, const Target& target, const Dialect& dialect) {
  Program program = signature_of(f, target);
  std::vector<Expr> integers = integer_vars(f);
  c::Printer printer{.f = f, .target = target, .dialect = dialect};
  c::ForeignText foreign = c::foreign_text(f, !dialect.brings_functions);
  printer.outside = foreign.names;
  for (auto& section : foreign.sections) printer.need(section);
  printer.foreign_half = foreign.half, printer.foreign_bfloat = foreign.bfloat;
  bool ours = false;
  for (auto& k : f.kernels) {
    ours |= !c::is_foreign_kernel(k);
    visit(k.body, [&](const Alloc& n) { printer.made_tensors |= f[n.buffer].scope == Scope::global; });
  }
  if (ours) printer.need("types");
  std::string kernels;
  for (size_t i = 0; i < f.kernels.size(); i++) {
    if (c::is_foreign_kernel(f.kernels[i])) {  // its text is among the sources
      program.entries[i].name = f.kernels[i].attrs.get_string("source_entry");
      continue;
    }
    Stmt body = c::widen_halves(f.kernels[i].body);
    printer.kernel = &f.kernels[i];
    printer.calls_nothing =
        contains(body, [](const Call& call) { return warpgroup_row_of(*call.intrinsic) != nullptr; });
    c::KernelText text{printer, f.kernels[i], body, program, program.entries[i], integers};
    kernels += "\n" + text.print();
  }
  std::string instructions;
  for (auto* intrinsic : printer.instructions)
    instructions += dialect.instruction(*intrinsic, target, printer.constants[intrinsic]);
  for (auto& [name, use] : printer.atomics) instructions += dialect.atomic(use, target);
  for (auto& [values, name] : printer.tables) instructions += c::table_text(values, name);
  program.text =
      fmt::format("// {} for {}, written by tilelang.\n{}{}{}{}", c::c_safe(f.name), target.name,
                  paste_sections(dialect.prelude, printer.sections), foreign.text, instructions, kernels);
  return program;
}

}  // namespace tl
