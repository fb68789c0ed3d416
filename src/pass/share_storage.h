// Two shapes, or types, of one storage: the layout of the one determines that of the other.
#pragma once
#include "ops/op.h"

namespace tl {

// The layout of a view of another shape or type of the storage with this layout: byte by byte, both in
// row-major order. An error where the elements of `from` that make up one of a wider type are apart.
Layout reshaped(const Layout& l, const Function& f, BufferId from, BufferId to);
// Would this layout allow all views of the buffer's storage?
bool fits_others(const Layout& l, const Function& f, BufferId buffer);
// The fragment of `to` in the registers of `from`, which has the given layout; an error where a thread cannot
// view it so.
Fragment reshaped_fragment(const Fragment& given, const Function& f, BufferId from, BufferId to);

}  // namespace tl
