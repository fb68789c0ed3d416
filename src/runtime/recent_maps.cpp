#include "runtime/recent_maps.h"

#include <algorithm>

namespace tl {
namespace {

bool same(const RecentMaps::Key& a, const RecentMaps::Key& b) {
  return a.function == b.function && a.count == b.count &&
         std::equal(a.words.begin(), a.words.begin() + int64_t(a.count), b.words.begin());
}

}  // namespace

RecentMaps& RecentMaps::of_this_thread() {
  thread_local RecentMaps recent;
  return recent;
}

const std::vector<EncodedTensorMap>* RecentMaps::find(const Key& key) const {
  for (auto& e : entries)
    if (same(e.key, key)) return &e.maps;
  return nullptr;
}

const std::vector<EncodedTensorMap>& RecentMaps::keep(const Key& key, std::vector<EncodedTensorMap> maps) {
  Entry& e = entries[next++ % entries.size()];
  e = {key, std::move(maps)};
  return e.maps;
}

}  // namespace tl
