// Products of warpgroups in flight: what each warp has begun and not yet waited for.
//
// Each warp of a warpgroup computes its 16 rows by itself, at the moment at which it begins the product: any
// use of the registers, and any write to the tiles, until the wait is a finding, so that no other moment
// could give another result unseen.  What the four warps must agree upon is compared when the block has
// ended.
#pragma once
#include "sim/instr.h"

namespace tl::sim {

// Registers of a warp that a product reads or writes; bytes of a lane's memory.
struct HeldRegisters {
  int64_t begin = 0, end = 0;
  bool writes = false;
  uint32_t group = 0;
  int64_t n = 0;  // of the product
  const void* row = nullptr;
  int32_t site = 0;
};

// What a warp does together with the others of its warpgroup.
struct WarpgroupStep {
  const Intrinsic* intrinsic = nullptr;
  int32_t site = 0;
  int64_t a = -1, b = -1;  // where its tiles begin, in the block's memory
  bool operator==(const WarpgroupStep&) const = default;
};

struct Products {
  uint32_t group = 1;                    // that is open
  std::vector<uint32_t> committed = {};  // in flight
  std::vector<HeldRegisters> held = {};
  std::vector<WarpgroupStep> steps = {};
  std::vector<bool> touched = {};  // by unit of registers: by threads, since the last fence
  bool is_fenced = false;          // some fence was executed
  int64_t registers = 0;           // of each thread, once the warp has changed that
};

// A thread touches its registers by itself: bytes of its memory.
void touch_held(Warp& w, const Place& p, int64_t begin, int64_t end, LaneMask lanes, bool writes,
                int32_t site);
Semantics warpgroup_semantics(AsyncInstr::AsyncKind does);  // null: it is none of these
void begin_product(const Execution& x);
// The block has ended.
void check_products(RaceDetector& detector, std::vector<Warp>& warps);

}  // namespace tl::sim
