// Checks beside an access whose indices are not proven to be in range: for a tile, a finding where one is
// not, even if the flattened index names another element of it; for a tensor, a count of what its bounds
// guard drops.
#include <algorithm>

#include "sim/performance_counters.h"
#include "sim/race_detector.h"
#include "sim/translate.h"

namespace tl::sim {
namespace {

// The first dimension whose index, in this lane, does not lie in it; -1 if there is none.
int wrong_dimension(Warp& w, const ClaimSite& c, int lane) {
  for (size_t d = 0; d < c.dims.size(); d++) {
    int64_t first = w.slot(c.dims[d].first)[lane].i, last = w.slot(c.dims[d].last)[lane].i;
    if (std::min(first, last) < 0 || std::max(first, last) >= w.slot(c.dims[d].extent)[lane].i) return int(d);
  }
  return -1;
}

void report_outside(Warp& w, const Operation& o, const ClaimSite& c, int lane, int d) {
  if (w.block->race_detector->again(Finding::Kind::outside, o.site, c.place)) return;
  int64_t extent = w.slot(c.dims[size_t(d)].extent)[lane].i;
  auto wrong = [&](int64_t i) { return i < 0 || i >= extent; };
  std::string all;
  int64_t index = 0;
  for (size_t k = 0; k < c.dims.size(); k++) {
    int64_t first = w.slot(c.dims[k].first)[lane].i, last = w.slot(c.dims[k].last)[lane].i;
    int64_t shown = int(k) == d && !wrong(first) ? last : first;
    if (int(k) == d) index = shown;
    all += fmt::format("{}{}", k ? ", " : "", shown);
  }
  Finding f{.kind = Finding::Kind::outside,
            .text = fmt::format("{}[{}]: index {} of dimension {} is outside [0, {}) in {}; guard the access "
                                "with an if, or make {} larger",
                                c.name, all, index, d, extent, describe_thread(w, lane), c.name)};
  f.buffer = c.name;
  w.block->race_detector->report(w, lane, std::move(f), o.site, -1, c.place);
}

void check_claim(Warp& w, const Operation& o) {
  const ClaimSite& c = w.code->claims[size_t(o.row)];
  LaneMask happens = o.b < 0 ? ~LaneMask(0) : lanes_where(w, o.b);
  if (c.is_tile) {
    w.strayed = {.site = o.site, .place = c.place};
    for_lanes(w.active & happens, [&](int lane) {
      int d = wrong_dimension(w, c, lane);
      if (d < 0) return;
      w.strayed.lanes |= lane_bit(lane);
      report_outside(w, o, c, lane, d);
    });
    return;
  }
  if (!w.block->counters) return;
  LaneMask asked = w.active & ~happens & (c.where < 0 ? ~LaneMask(0) : lanes_where(w, c.where));
  int64_t dropped = 0;
  for_lanes(asked, [&](int lane) { dropped += wrong_dimension(w, c, lane) >= 0; });
  if (dropped)
    w.block->counters->dropped(w.code->places[size_t(c.place)], o.site, c.kind, c.what, dropped * c.elements);
}

}  // namespace

// `happens`: the slots of the access's mask, or -1.
void Translator::claim(const Claim& c, int32_t happens, int place, int elements, const Intrinsic* intrinsic,
                       bool writes) {
  if (!c) return;
  const std::vector<Expr>& shape = f[c.buffer].shape;
  if (c.index.size() != shape.size()) return;
  bool is_tile = f[c.buffer].scope != Scope::global;
  ClaimSite site{.name = name_of(f, c.buffer), .is_tile = is_tile, .place = place, .elements = elements};
  if (!site.is_tile && happens < 0) return;
  site.kind = writes ? Counter::Kind::store : Counter::Kind::load;
  if (intrinsic && intrinsic->atomic != Intrinsic::Atomic::none)
    site.kind = Counter::Kind::atomic, site.what = intrinsic->name;
  std::vector<std::pair<Expr, Expr>> ends;
  bool proven = true, safe = true;
  for (size_t d = 0; d < c.index.size(); d++) {
    int last = c.index[d]->dtype.lanes - 1;
    ends.emplace_back(element(c.index[d], 0), element(c.index[d], last));
    for (const Expr& e : {ends.back().first, ends.back().second}) {
      Expr wide = e->dtype == i64 ? e : cast(i64, e);
      proven = proven && can_prove(both(le(imm(0), wide), lt(wide, shape[d])), facts);
      safe &= is_safe(e);
    }
  }
  if (proven) return;
  quiet = true;
  if (c.where) site.where = spread(value(element(c.where, 0))).slot;
  int32_t under = site.is_tile ? happens : site.where;
  bool apart = !safe && under >= 0;
  size_t narrowed = apart ? begin_narrow(under, code.warp) : 0;
  auto slots = [&](const Expr& e) { return spread(value(e)).slot; };
  for (size_t d = 0; d < ends.size(); d++)
    site.dims.push_back({slots(ends[d].first), slots(ends[d].second), slots(shape[d])});
  code.claims.push_back(std::move(site));
  emit({.run = check_claim, .b = happens, .row = int32_t(code.claims.size()) - 1});
  if (apart) end_narrow(narrowed);
  quiet = false;
}

}  // namespace tl::sim
