#include "ir/affine_form.h"

#include "ir/build.h"

namespace tl {

std::optional<AffineForm> affine_form_of(const Expr& e) {
  if (!e || !e->dtype.is_int()) return std::nullopt;
  if (e.as<Var>()) return AffineForm{e};
  if (auto* c = e.as<Cast>()) return affine_form_of(c->a);
  auto* n = e.as<Binary>();
  if (!n) return std::nullopt;
  auto a = as_int(n->a), b = as_int(n->b);
  bool commutes = n->op == BinaryOp::add || n->op == BinaryOp::mul;
  if (!b && !(a && commutes)) return std::nullopt;
  auto form = affine_form_of(b ? n->a : n->b);
  int64_t by = b ? *b : *a;
  if (!form) return std::nullopt;
  if (n->op == BinaryOp::add)
    form->offset += by;
  else if (n->op == BinaryOp::sub)
    form->offset -= by;
  else if (n->op == BinaryOp::mul && by > 0)
    form->factor *= by, form->offset *= by;
  else
    return std::nullopt;
  return form;
}

}  // namespace tl
