// Two shapes, or types, of one storage: the layout of the one determines that of the other.
#pragma once
#include "ops/op.h"

namespace tl {

// Where the elements of a buffer of another shape or type live that has this layout's storage: byte by byte,
// both in row-major order.  An error where the elements of `from` that make up one of a wider type are apart.
Layout reshaped(const Layout& l, const Function& f, BufferId from, BufferId to);
// Could all that share the buffer's storage be seen if it lay so?
bool fits_others(const Layout& l, const Function& f, BufferId buffer);
// The fragment of `to` in the registers of `from`, which lies as given; an error where a thread cannot see it
// so.
Fragment reshaped_fragment(const Fragment& given, const Function& f, BufferId from, BufferId to);

}  // namespace tl
