// The text that kernels bring with them.
#pragma once
#include <set>
#include <string>

#include "ir/kernel.h"

namespace tl::c {

struct ForeignText {
  std::string text = {};                // each source once; empty if there is none
  std::set<std::string> names = {};     // in it, that local ones must not be
  std::set<std::string> sections = {};  // of the prelude: our types that it names and does not define
  // The type by which it calls elements of 16 bits, those of a CUDA header; empty: it takes ours.
  std::string half = {}, bfloat = {};
};

// headers: whether the language has CUDA's.
ForeignText foreign_text(const Function& f, bool headers);

bool is_foreign_kernel(const Kernel& k);

}  // namespace tl::c
