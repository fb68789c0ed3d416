#include "sim/performance_counters.h"

#include <algorithm>

#include "layout/banks.h"

namespace tl::sim {

void PerformanceCounters::access(const Place& p, const std::vector<int64_t>& addresses, int64_t bytes,
                                 int32_t site, Counter::Kind kind, std::string_view what) {
  auto lanes = std::ranges::count_if(addresses, [](int64_t a) { return a >= 0; });
  if (lanes == 0) return;
  Counter& c = counted[{site, p.number, what}];
  c.kind = kind;
  c.executed++;
  c.bytes += lanes * bytes;
  // How often a bank is asked again for updates of one word is nowhere documented: not counted.
  if (kind == Counter::Kind::atomic && p.scope == Scope::shared) return;
  // A wider access than the hardware's is several, each with all lanes.
  int64_t widest = code.vector_bytes,
          at_once = bytes & (bytes - 1) ? p.type.bytes() : std::min(bytes, widest);
  std::vector<int64_t> part(addresses.size());
  for (int64_t done = 0; done < bytes; done += at_once) {
    for (size_t i = 0; i < addresses.size(); i++) part[i] = addresses[i] < 0 ? -1 : addresses[i] + done;
    WarpCost cost = p.scope == Scope::shared
                        ? shared_bank_cycles(part, int(at_once), code.banks, kind == Counter::Kind::store)
                        : global_sectors(part, int(at_once));
    c.requests += cost.count;
    c.least += cost.least;
  }
}

void PerformanceCounters::dropped(const Place& p, int32_t site, Counter::Kind kind, std::string_view what,
                                  int64_t elements) {
  Counter& c = counted[{site, p.number, what.empty() ? name_of(kind) : what}];
  c.kind = kind;
  c.dropped += elements;
}

void PerformanceCounters::instruction(int32_t site, Counter::Kind kind, std::string_view what,
                                      int64_t flops) {
  Counter& c = counted[{site, -1, what}];
  c.kind = kind;
  c.executed++;
  c.flops += flops;
}

void PerformanceCounters::waited(int32_t site, std::string_view barrier, int64_t operations) {
  counted[{site, -1, barrier}].waited += operations;
}

void PerformanceCounters::Addresses::count(const Warp& w, const Place& p, int64_t bytes, int32_t site,
                                           Counter::Kind kind, std::string_view what) {
  if (!counters) return;
  const std::byte* begin = nullptr;
  constexpr int64_t far = int64_t(1) << 40;  // a view may reach below its first element
  if (p.scope == Scope::shared)              // a bank is a matter of the address within the block
    begin = w.block->shared;
  else if (p.made_at < 0)  // a GPU's allocations begin at a sector
    begin = w.block->tensors[p.id].data;
  for (int64_t& a : at) a = a < 0 ? a : a - int64_t(reinterpret_cast<uintptr_t>(begin)) + far;
  counters->access(p, at, bytes, site, kind, what.empty() ? name_of(kind) : what);
}

std::vector<Counter> PerformanceCounters::rows() const {
  std::vector<Counter> out;
  for (auto& [key, counter] : counted) {
    Counter c = counter;
    c.span = code.sites[size_t(key.site)].span;
    c.what = key.what;
    if (key.place >= 0) {
      const Place& p = code.places[size_t(key.place)];
      c.buffer = p.name;
      c.level = p.scope == Scope::shared ? "shared" : "global";
      if (c.what == name_of(c.kind)) c.what = c.level + " " + c.what;
    }
    auto same = [&](const Counter& o) {
      return o.span == c.span && o.what == c.what && o.buffer == c.buffer;
    };
    auto it = std::ranges::find_if(out, same);
    if (it == out.end()) {
      out.push_back(std::move(c));
      continue;
    }
    it->executed += c.executed;
    it->bytes += c.bytes;
    it->requests += c.requests;
    it->least += c.least;
    it->flops += c.flops;
    it->dropped += c.dropped;
    it->waited += c.waited;
  }
  return out;
}

}  // namespace tl::sim
