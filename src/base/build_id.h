// Which build of the compiler this is: a hash of its sources, made by the build; a part of every cache key.
#pragma once

namespace tl {

extern const char* const build_id;

}  // namespace tl
