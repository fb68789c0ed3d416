// The operands of matrix instructions as Fragments: element -> (lane, register), from the rows' digits, which
// say (lane, register) -> element.
#pragma once
#include "layout/fragment.h"
#include "target/instr.h"

namespace tl {

// CompileError naming the elements if two registers hold one element, or an element is not held.
Fragment operand_fragment(const OperandFragment& operand, int warp);

// The fragments of matrix instructions by name, "mma_m16n8k16_f16_f32", 'a', 'b' or 'c': those that targets
// list and those that are known by their operands alone (target/instr.h, MatrixShape).
Fragment matrix_fragment(std::string_view instr, char operand);
std::vector<std::string> matrix_fragment_names();

// An instruction as PTX text names it, and the 32-bit registers of its operands in the order of the text:
// those of the result first.  A move between memory and registers has an address for its second.
struct InstrText {
  std::string name, ptx;
  std::vector<int> registers;
  DType result;  // of a register: f32, or the bits of whatever it is
};
std::vector<InstrText> instruction_texts();

}  // namespace tl
