// A chip that no target string names: as an A100, but with warps of 64 threads, and without the instructions
// that 32 lanes execute together.
#pragma once
#include "target/target.h"

namespace tl {

inline const Target& wide_chip() {
  static const Target chip = [] {
    Target t = *find_target("sm_80");
    t.name = "wide";
    t.warp = 64;
    t.matrix.clear();
    t.copies.clear();
    t.async = {};
    return t;
  }();
  return chip;
}

}  // namespace tl
