// Instructions that a chip does not have where it has, or needs, something else in their place.
#pragma once
#include "target/target.h"

namespace tl {

// A row that does the same takes the place of a missing one: mbarrier_test_wait of mbarrier_try_wait.  Fences
// in front of the asynchronous proxy are nothing on a chip without one.
Stmt with_earlier_rows(const Stmt& body, const Target& target);

}  // namespace tl
