// What a warp shows at a breakpoint: see stop.h.
#include "sim/instr.h"

namespace tl::sim {
namespace {

std::vector<Stop::Array> arrays_of(const Warp& w) {
  std::vector<Stop::Array> all;
  for (const Place& p : w.code->places) {
    if (p.scope == Scope::global) continue;
    bool is_shared = p.scope == Scope::shared;
    all.push_back({.name = p.name,
                   .scope = p.scope,
                   .type = p.type,
                   .elements = p.elements,
                   .data = (is_shared ? w.block->shared : w.lanes.data()) + p.address,
                   .lane_bytes = is_shared ? 0 : w.code->lane_bytes});
  }
  return all;
}

std::vector<Stop::Barrier> barriers_of(const Warp& w) {
  std::vector<Stop::Barrier> all;
  for (auto& [number, b] : w.block->barriers) all.push_back({number, b.arrived, b.expected, b.phase});
  return all;
}

}  // namespace

void stop_here(const Execution& x) {
  const Warp& w = x.warp;
  if (!w.block->stop || !x.lanes) return;
  (*w.block->stop)({.span = x.site.span,
                    .where = w.block->where,
                    .block = w.block->number,
                    .thread = w.first,
                    .warp = w.lane_count(),
                    .active = x.lanes,
                    .arrays = [&] { return arrays_of(w); },
                    .barriers = [&] { return barriers_of(w); }});
}

}  // namespace tl::sim
