#include "ir/line.h"

#include "ir/build.h"

namespace tl {

std::optional<Line> line_of(const Expr& e) {
  if (!e || !e->dtype.is_int()) return std::nullopt;
  if (e.as<Var>()) return Line{e};
  if (auto* c = e.as<Cast>()) return line_of(c->a);
  auto* n = e.as<Binary>();
  if (!n) return std::nullopt;
  auto a = as_int(n->a), b = as_int(n->b);
  bool commutes = n->op == BinaryOp::add || n->op == BinaryOp::mul;
  if (!b && !(a && commutes)) return std::nullopt;
  auto line = line_of(b ? n->a : n->b);
  int64_t by = b ? *b : *a;
  if (!line) return std::nullopt;
  if (n->op == BinaryOp::add)
    line->offset += by;
  else if (n->op == BinaryOp::sub)
    line->offset -= by;
  else if (n->op == BinaryOp::mul && by > 0)
    line->factor *= by, line->offset *= by;
  else
    return std::nullopt;
  return line;
}

}  // namespace tl
