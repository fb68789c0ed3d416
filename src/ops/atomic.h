// The result of an atomic update of an element: for the executors and for checks.
#pragma once
#include "ops/op.h"

namespace tl {

// The element after the update by `value`, of which the old one is given; load leaves it as it is.
double combine(Intrinsic::Atomic op, double old, double value, DType type);
int64_t combine(Intrinsic::Atomic op, int64_t old, int64_t value, DType type);
// CompileError at `span` where no chip has such an update.
void check_atomic_type(std::string_view name, Intrinsic::Atomic op, DType type, Span span);

// Each element of `with` becomes that update of it by `old`'s; both have one type and size.
void combine_with(const Intrinsic& update, const Array& old, Array& with);

}  // namespace tl
