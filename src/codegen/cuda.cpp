// CUDA C++ for NVRTC, without one header: the shared printer, our prelude, and a small function around each
// instruction that a kernel uses, made from the instruction's row.
#include <algorithm>

#include "codegen/c_like.h"
#include "target/effects.h"

namespace tl {
namespace {

constexpr std::string_view prelude =
#include "codegen/prelude/cuda.inc"
    ;

// How an operand of a matrix instruction sits in registers: as whole floats and doubles, else packed in 32
// bits.
struct Registers {
  int count;
  std::string_view type;  // of the C++ array that they are read from
  char constraint;
};

Registers registers_of(DType element, int elements, bool is_accumulator) {
  if (element == f64) return {elements, "double", 'd'};
  if (element == f32 && is_accumulator) return {elements, "float", 'f'};
  if (element == i32 && is_accumulator) return {elements, "int", 'r'};
  internal_check(elements * element.bits % 32 == 0, "an operand that does not fill its registers");
  return {elements * element.bits / 32, "u32", 'r'};
}

// "{%4, %5}": the holes first, first + 1, … of an asm statement.
std::string holes(int first, int count) {
  std::vector<std::string> list;
  for (int i = 0; i < count; i++) list.push_back(fmt::format("%{}", first + i));
  return fmt::format("{{{}}}", fmt::join(list, ", "));
}

// "+f"(d[0]), "+f"(d[1]), …
std::string operands(const Registers& r, std::string_view mode, char array) {
  std::vector<std::string> list;
  for (int i = 0; i < r.count; i++)
    list.push_back(fmt::format("\"{}{}\"({}[{}])", mode, r.constraint, array, i));
  return fmt::format("{}", fmt::join(list, ", "));
}

std::string matrix_function(const MatrixInstr& row) {
  Registers d = registers_of(row.c_type, row.c.registers, true);
  Registers a = registers_of(row.a_type, row.a.registers, false);
  Registers b = registers_of(row.b_type, row.b.registers, false);
  std::string d_holes = holes(0, d.count);
  return fmt::format(
      "\n// d += a · b over a warp, {}×{}×{}.\n"
      "TL_DEVICE void tl_{}(void* d_, const void* a_, const void* b_) {{\n"
      "  {}* d = ({}*)d_;\n"
      "  const {}* a = (const {}*)a_;\n"
      "  const {}* b = (const {}*)b_;\n"
      "  asm volatile(\"{} {}, {}, {}, {};\"\n"
      "               : {}\n"
      "               : {},\n"
      "                 {});\n"
      "}}\n",
      row.m, row.n, row.k, row.intrinsic.name, d.type, d.type, a.type, a.type, b.type, b.type, row.ptx,
      d_holes, holes(d.count, a.count), holes(d.count + a.count, b.count), d_holes, operands(d, "+", 'd'),
      operands(a, "", 'a'), operands(b, "", 'b'));
}

// One asm statement for each n that is used: its operands are as many registers.
std::string product_statement(const WarpgroupInstr& row, int64_t n) {
  Registers d = registers_of(row.c_type, int(n / 2), true);
  Registers a = registers_of(row.a_type, row.k / 2, false);
  int next = d.count;
  std::string from = row.a_in_registers ? operands(a, "", 'a') + ", "
                                        : "\"l\"(tl_tile<a_swizzle, a_leading, a_stride>(a_, a_step)), ";
  std::string text = fmt::format("wgmma.mma_async.sync.aligned.m{}n{}k{}.{} {}, ", WarpgroupInstr::m, n,
                                 row.k, row.types, holes(0, d.count));
  text += row.a_in_registers ? holes(next, a.count) : fmt::format("%{}", next);
  next += row.a_in_registers ? a.count : 1;
  text += fmt::format(", %{}, p", next);
  if (row.c_type.is_float()) text += ", 1, 1";  // neither operand is negated
  std::string turns;
  if (row.may_turn) {
    text +=
        row.a_in_registers ? fmt::format(", %{}", next + 2) : fmt::format(", %{}, %{}", next + 2, next + 3);
    turns = row.a_in_registers ? ", \"n\"(b_turned)" : ", \"n\"(a_turned), \"n\"(b_turned)";
  }
  return fmt::format(
      "  if constexpr (n == {})\n"
      "    asm volatile(\"{{ .reg .pred p; setp.ne.b32 p, %{}, 0; {}; }}\"\n"
      "                 : {}\n"
      "                 : {}\"l\"(tl_tile<b_swizzle, b_leading, b_stride>(b_, b_step)), "
      "\"r\"(int(!clear)){}\n"
      "                 : \"memory\");\n",
      n, next + 1, text, operands(d, "+", 'd'), from, turns);
}

std::string product_function(const WarpgroupInstr& row, const std::set<int64_t>& ns) {
  Registers d = registers_of(row.c_type, 8, true), a = registers_of(row.a_type, row.k / 2, false);
  std::string modes = row.a_in_registers ? "" : "int a_swizzle, int a_leading, int a_stride, int a_turned, ";
  std::string text = fmt::format(
      "\n// d = a · b, or d += a · b, over a warpgroup, {}×n×{}; begun here.\n"
      "template <int n, {}int b_swizzle, int b_leading, int b_stride, int b_turned>\n"
      "TL_DEVICE void tl_{}(void* d_, const void* a_{}, const void* b_, int b_step, bool clear) {{\n"
      "  {}* d = ({}*)d_;\n",
      WarpgroupInstr::m, row.k, modes, row.intrinsic.name, row.a_in_registers ? "" : ", int a_step", d.type,
      d.type);
  if (row.a_in_registers) text += fmt::format("  const {}* a = (const {}*)a_;\n", a.type, a.type);
  for (int64_t n : ns) text += product_statement(row, n);
  return text + "}\n";
}

std::string copy_function(const CopyInstr& row) {
  Registers r{row.matrices, "u32", 'r'};
  bool loads = row.intrinsic.access.starts_with('w');  // to the registers, or from them
  internal_check(loads || row.intrinsic.access.starts_with('r'),
                 "the direction of " + std::string(row.intrinsic.name));
  std::string regs = holes(loads ? 0 : 1, r.count), address = fmt::format("[%{}]", loads ? r.count : 0);
  return fmt::format(
      "\n// {} 8×8 blocks of 16 bits between shared memory and a warp's registers; p is this lane's row.\n"
      "TL_DEVICE void tl_{}({}void* r_, {}void* p) {{\n"
      "  {}u32* r = ({}u32*)r_;\n"
      "  asm volatile(\"{} {}, {};\"\n"
      "               : {}\n"
      "               : \"r\"(u32(__cvta_generic_to_shared(p))){}\n"
      "               : \"memory\");\n"
      "}}\n",
      row.matrices, row.intrinsic.name, loads ? "" : "const ", loads ? "const " : "", loads ? "" : "const ",
      loads ? "" : "const ", row.ptx, loads ? regs : address, loads ? address : regs,
      loads ? operands(r, "=", 'r') : "", loads ? "" : ", " + operands(r, "", 'r'));
}

// How an operand of an asynchronous row becomes one of an asm statement, by its letter in
// AsyncInstr::operands.
struct AsmOperand {
  char letter;
  std::string_view type;   // of the function's parameter; "" for a template argument
  std::string_view input;  // the constraint, and the value of the parameter that it is for
};
constexpr AsmOperand asm_operands[] = {
    {'s', "void*", "\"r\"(u32(__cvta_generic_to_shared({})))"},
    {'g', "void*", "\"l\"(__cvta_generic_to_global({}))"},
    {'m', "const tensor_map*", "\"l\"({})"},
    {'r', "u32", "\"r\"({})"},
    {'q', "u64", "\"l\"({})"},
    {'n', "", "\"n\"({})"},
};

// What an asynchronous row gives, and the register from which its statement takes that.
struct AsmResult {
  std::string_view type, output, before, behind;
};
AsmResult asm_result(const AsyncInstr& row) {
  if (row.gives_word()) return {"u64", "\"=l\"(out)", "{ .reg .b64 state; ", " mov.b64 %0, state; }"};
  if (row.intrinsic.result == Intrinsic::Result::boolean)
    return {"bool", "\"=r\"(out)", "{ .reg .pred p; ", " selp.u32 %0, 1, 0, p; }"};
  return {"void", "", "", ""};
}

// One asm statement.  The tensor of a map, 't', is no operand of it.
std::string async_function(const AsyncInstr& row) {
  AsmResult result = asm_result(row);
  bool gives = !result.output.empty();
  std::vector<std::string> params, constants, from, holes;
  for (size_t i = 0; i < row.operands.size(); i++) {
    holes.push_back(fmt::format("%{}", from.size() + gives));
    if (row.operands[i] == 't') continue;
    auto kind = std::find_if(std::begin(asm_operands), std::end(asm_operands),
                             [&](auto& o) { return o.letter == row.operands[i]; });
    internal_check(kind != std::end(asm_operands), "the kind of an operand");
    char name = char('a' + i);
    bool reads = kind->type == "void*" && row.intrinsic.access[i] == 'r';
    if (kind->type.empty())
      constants.push_back(fmt::format("int {}", name));
    else
      params.push_back(fmt::format("{}{} {}", reads ? "const " : "", kind->type, name));
    from.push_back(fmt::format(fmt::runtime(kind->input), name));
  }
  std::string statement;
  for (size_t i = 0; i < row.ptx.size(); i++) {
    bool hole = row.ptx[i] == '{' && i + 2 < row.ptx.size() && row.ptx[i + 2] == '}';
    statement += hole ? holes[size_t(row.ptx[i + 1] - '0')] : std::string(1, row.ptx[i]);
    i += hole ? 2 : 0;
  }
  std::string head = constants.empty() ? "" : fmt::format("template <{}> ", fmt::join(constants, ", "));
  return fmt::format(
      "\n{}TL_DEVICE {} tl_{}({}) {{\n{}  asm volatile(\"{}{}{}\" : {} : {} : \"memory\");\n{}}}\n", head,
      result.type, row.intrinsic.name, fmt::join(params, ", "),
      gives ? fmt::format("  {} out;\n", row.gives_word() ? "u64" : "u32") : "", result.before, statement,
      result.behind, result.output, fmt::join(from, ", "), gives ? "  return out;\n" : "");
}

std::string instruction(const Intrinsic& intrinsic, const Target& target,
                        const std::set<int64_t>& constants) {
  for (auto* row : target.matrix)
    if (row->intrinsic.name == intrinsic.name) return matrix_function(*row);
  for (auto* row : target.copies)
    if (row->intrinsic.name == intrinsic.name) return copy_function(*row);
  for (auto& row : target.async)
    if (row.intrinsic.name == intrinsic.name) return row.ptx.empty() ? "" : async_function(row);
  for (auto& row : target.warpgroup)
    if (row.intrinsic.name == intrinsic.name) return product_function(row, constants);
  internal_error(fmt::format("{} has no instruction {}", target.name, intrinsic.name));
}

std::string dynamic_memory(int64_t) { return "extern __shared__ __align__(1024) unsigned char tl_shared[];"; }

// Do warpgroups hand registers to each other?
bool moves_registers(const Kernel& kernel) {
  bool moves = false;
  visit(kernel.body, [&](const Call& n) {
    const AsyncInstr* row = n.intrinsic ? async_row_of(*n.intrinsic) : nullptr;
    moves |= row && (row->does == AsyncInstr::AsyncKind::more_registers ||
                     row->does == AsyncInstr::AsyncKind::fewer_registers);
  });
  return moves;
}

// Does a block send to another's shared memory, or its own? That is an illegal instruction in a kernel that
// is launched without clusters, also where one block would be a cluster (seen on an H200).
bool sends_in_cluster(const Kernel& kernel) {
  return contains(kernel.body, [](const Call& n) {
    const AsyncInstr* row = n.intrinsic ? async_row_of(*n.intrinsic) : nullptr;
    return row && row->does == AsyncInstr::AsyncKind::bulk_push;
  });
}

// ptxas lets registers be handed over only where it knows how many a thread has at launch, which a least
// number of blocks says (C7508).
std::string launch_bounds(const Kernel& kernel, int64_t threads, int64_t blocks) {
  if (!blocks && moves_registers(kernel)) blocks = 1;
  std::string cluster = cluster_size(kernel) > 1
                            ? fmt::format("__cluster_dims__({}) ", fmt::join(kernel.cluster, ", "))
                        : sends_in_cluster(kernel) ? "__cluster_dims__(1, 1, 1) "
                                                   : "";
  return blocks ? fmt::format("{}__launch_bounds__({}, {})", cluster, threads, blocks)
                : fmt::format("{}__launch_bounds__({})", cluster, threads);
}

}  // namespace

std::string cuda_atomic(const AtomicUse& use, const Target& target);  // cuda_atomic.cpp
std::string ptx_statement(c::Printer& printer, const Call& call);     // cuda_ptx.cpp

Program print_cuda(const Function& f, const Target& target) {
  static constexpr Dialect cuda{.prelude = prelude,
                                .instruction = instruction,
                                .atomic = cuda_atomic,
                                .assembly = ptx_statement,
                                .shared_memory = dynamic_memory,
                                .bounds = launch_bounds,
                                .map_parameter = "const __grid_constant__ tensor_map",
                                .three_input_logic = true};
  return print_c_like(f, target, cuda);
}

}  // namespace tl
