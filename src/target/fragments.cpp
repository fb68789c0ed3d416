#include "target/fragments.h"

#include "base/error.h"
#include "layout/algebra.h"
#include "target/nvidia.h"

namespace tl {
namespace {

struct Found {
  std::string_view name;
  const OperandFragment *a, *b, *c;
};

std::vector<Found> known_fragments() {
  std::vector<Found> all;
  for (auto* row : nvidia_matrix_rows()) all.push_back({row->intrinsic.name, &row->a, &row->b, &row->c});
  for (auto& shape : nvidia_matrix_shapes()) all.push_back({shape.name, &shape.a, &shape.b, &shape.c});
  return all;
}

}  // namespace

Fragment operand_fragment(const OperandFragment& operand, int warp) {
  std::vector<Term> terms;
  for (auto& d : operand.digits) {
    Digit digit{d.from == FragmentDigit::From::lane ? 0 : 1, d.divisor, d.radix};
    if (d.row) terms.push_back({.output = 0, .stride = d.row, .digit = digit});
    if (d.col) terms.push_back({.output = 1, .stride = d.col, .digit = digit});
  }
  Layout back = inverse(from_terms({warp, operand.registers}, 2, std::move(terms)));
  if (back.extents != std::vector<int64_t>{operand.rows, operand.cols})
    fail({}, "the fragment covers a tile of {}, not of {}", tuple_text(back.extents),
         tuple_text({operand.rows, operand.cols}));
  internal_check(back.terms.has_value(), "a fragment of an instruction without digits");
  return make_fragment({operand.rows, operand.cols}, 1, *back.terms);
}

Fragment matrix_fragment(std::string_view instr, char operand) {
  for (auto& row : known_fragments()) {
    if (row.name != instr) continue;
    if (operand != 'a' && operand != 'b' && operand != 'c')
      fail({}, "{} has the operands a, b and c, not {}", instr, operand);
    const OperandFragment& f = operand == 'a' ? *row.a : operand == 'b' ? *row.b : *row.c;
    return operand_fragment(f, f.rows * f.cols / f.registers);
  }
  fail({}, "there is no matrix instruction '{}'; known: {}", instr, fmt::join(matrix_fragment_names(), ", "));
}

std::vector<std::string> matrix_fragment_names() {
  std::vector<std::string> names;
  for (auto& row : known_fragments()) names.emplace_back(row.name);
  return names;
}

std::vector<InstrText> instruction_texts() {
  std::vector<InstrText> all;
  auto words = [](const OperandFragment& f, DType type) { return f.registers * type.bits / 32; };
  for (auto* row : nvidia_matrix_rows()) {
    int d = words(row->c, row->c_type);
    all.push_back({.name = std::string(row->intrinsic.name),
                   .ptx = std::string(row->ptx),
                   .registers = {d, words(row->a, row->a_type), words(row->b, row->b_type), d},
                   .result = row->c_type == f32 ? f32 : u32});
  }
  for (auto* row : nvidia_copies(newest))
    if (row->intrinsic.access == "wr")
      all.push_back({.name = std::string(row->intrinsic.name),
                     .ptx = std::string(row->ptx),
                     .registers = {row->matrices},
                     .result = u32});
  return all;
}

}  // namespace tl
