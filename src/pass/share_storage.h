// Two shapes, or types, of one storage: the layout of the one says that of the other.
#pragma once
#include "ops/op.h"

namespace tl {

// Where the elements of a buffer of another shape live that has this layout's storage, row-major element by element.
Layout reshaped(const Layout& l, const Function& f, BufferId from, BufferId to);
// The fragment of `to` in the registers of `from`, which lies as given; an error where a thread cannot see it so.
Fragment reshaped_fragment(const Fragment& given, const Function& f, BufferId from, BufferId to);

}  // namespace tl
