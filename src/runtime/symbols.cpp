// What generated CPU code may call.  Conversions of 16-bit floats are ours, because LLVM asks for them by
// libgcc's names and libgcc before 13 lacks some; everything else is the C library's.
#include <dlfcn.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "runtime/half.h"
#include "runtime/messages.h"
#include "runtime/object.h"
#include "runtime/pool.h"

namespace tl {
namespace {

// A 16-bit float is passed and returned in a vector register; _Float16 is the type that says so.
using Half = _Float16;

Half half_of_float(float value) { return std::bit_cast<Half>(half_from_double(value)); }
Half half_of_double(double value) { return std::bit_cast<Half>(half_from_double(value)); }
Half bfloat_of_float(float value) { return std::bit_cast<Half>(bfloat_from_double(value)); }
Half bfloat_of_double(double value) { return std::bit_cast<Half>(bfloat_from_double(value)); }
float float_of_half(Half value) { return float(half_to_double(std::bit_cast<uint16_t>(value))); }
double double_of_half(Half value) { return half_to_double(std::bit_cast<uint16_t>(value)); }

template <class F>
void* address(F* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

void* resolve_symbol(const char* name) {
  static const struct {
    const char* name;
    void* address;
  } own[] = {{"__truncsfhf2", address(half_of_float)},
             {"__truncdfhf2", address(half_of_double)},
             {"__truncsfbf2", address(bfloat_of_float)},
             {"__truncdfbf2", address(bfloat_of_double)},
             {"__extendhfsf2", address(float_of_half)},
             {"__extendhfdf2", address(double_of_half)},
             {"__gnu_h2f_ieee", address(float_of_half)},
             {"__gnu_f2h_ieee", address(half_of_float)},
             {"tl_print", address(print_line)},
             {"tl_fail", address(note_failure)},
             {"tl_poll", address(poll_block)}};
  for (const auto& row : own)
    if (std::strcmp(row.name, name) == 0) return row.address;
  static void* const libraries[] = {dlopen("libm.so.6", RTLD_LAZY | RTLD_LOCAL),
                                    dlopen("libmvec.so.1", RTLD_LAZY | RTLD_LOCAL),
                                    dlopen("libc.so.6", RTLD_LAZY | RTLD_LOCAL)};
  for (void* library : libraries)
    if (library)
      if (void* found = dlsym(library, name)) return found;
  return nullptr;
}

}  // namespace tl
