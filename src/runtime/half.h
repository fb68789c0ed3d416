// 16-bit floats, exactly: rounded once, from the double, to nearest even.
#pragma once
#include <cstdint>

namespace tl {

uint16_t half_from_double(double value);
uint16_t bfloat_from_double(double value);
double half_to_double(uint16_t bits);

}  // namespace tl
