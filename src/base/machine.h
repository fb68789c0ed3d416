// This machine.
#pragma once
#include <cstdint>

namespace tl {

int64_t machine_memory();  // bytes of RAM; INT64_MAX where the system does not say

}  // namespace tl
