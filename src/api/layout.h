// Layouts for the fronts: the functions of layout/ and target/ for users, and maps that users write.
#pragma once
#include "api/values.h"
#include "base/error.h"
#include "layout/access.h"
#include "layout/algebra.h"
#include "layout/draw.h"
#include "layout/swizzle.h"
#include "target/fragments.h"

namespace tl {

// The layout of the extents `shape` that `outputs` over `vars` say; every output an integer.
Layout make_layout(const std::vector<int64_t>& shape, const std::vector<Expr>& vars,
                   const std::vector<Value>& outputs, Span span);
// vars: one per dimension and, last, the replica's.  A null register numbers the elements of each thread in
// row-major order.
Fragment make_fragment(const std::vector<int64_t>& shape, int64_t replicas, const std::vector<Expr>& vars,
                       const Value& thread, const std::optional<Value>& reg, Span span);

// Runs a question; an answer that is an error without a place gets this one.
template <class F>
auto located(Span span, F question) {
  try {
    return question();
  } catch (const CompileError& e) {
    if (e.span || !span) throw;
    throw CompileError(span, e.text);
  }
}

}  // namespace tl
