// Extents from which a number can be computed: n from [n + 1] or [2*n].
#pragma once
#include <optional>

#include "ir/node.h"

namespace tl {

// factor*var + offset, with a factor above 0.
struct AffineForm {
  Expr var;
  int64_t factor = 1, offset = 0;
};
// Through + - * by constants and casts of integers.
std::optional<AffineForm> affine_form_of(const Expr& e);

}  // namespace tl
