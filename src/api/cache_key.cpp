// The key of a compiled kernel in the disk cache: everything that affects its binary and its messages.
#include "api/kernel.h"
#include "base/build_id.h"
#include "base/hash.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "target/user_rows.h"

namespace tl {
namespace {

// On the CPU a division by 0 is reported at its line, which is in the binary but not in the function's text:
// a kernel that moved within its file, or to another one, is another kernel.  `divides`: it is in any case.
std::string lines_of_divisions(const Function& f, bool divides) {
  std::string lines;
  Span last;
  auto look = [&](const Node& n) {
    if (n.span.file && (n.span.file != last.file || n.span.line != last.line)) {
      lines += fmt::format("{}:{}\n", *n.span.file, n.span.line);
      last = n.span;
    }
    if (n.kind != Binary::KIND) return;
    auto& b = static_cast<const Binary&>(n);
    bool is_division = b.op == BinaryOp::floordiv || b.op == BinaryOp::floormod ||
                       b.op == BinaryOp::truncdiv || b.op == BinaryOp::truncmod;
    divides |= is_division && b.dtype.is_int() && !as_int(b.b);
  };
  for (auto& k : f.kernels) visit_nodes(k.body, look);
  return divides ? lines : "";
}

}  // namespace

std::string CompiledKernel::key_of(const Function& f, const Target& chip, std::string_view edited) const {
  std::vector<DType> types;
  for (auto& b : f.buffers) types.push_back(b.dtype);
  std::vector<std::string> parts{print(f),
                                 report.target,
                                 build_id,
                                 fingerprint(settings.options),
                                 toolchain_id(std::string(target.chip->language->name)),
                                 user_rows_text(chip, types)};
  bool lines = settings.options.line_directives;
  if (target.chip->language->tells_lines || lines) parts.push_back(lines_of_divisions(f, lines));
  if (!edited.empty()) parts.emplace_back(edited);
  std::string text;
  for (auto& part : parts) text += fmt::format("{}\n{}\n", part.size(), part);
  return sha256_hex(text);
}

}  // namespace tl
