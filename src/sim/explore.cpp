#include "sim/explore.h"

namespace tl::sim {

size_t Explorer::choose(size_t ways, const std::function<std::string()>& state) {
  if (depth < path.size()) return ways == 1 ? 0 : path[depth++].taken;
  known = !states.insert(std::hash<std::string>{}(state())).second;
  if (known || ways == 1) return 0;
  path.push_back({0, ways});
  depth++;
  return 0;
}

bool Explorer::next() {
  while (!path.empty() && path.back().taken + 1 == path.back().ways) path.pop_back();
  depth = 0;
  known = false;
  if (path.empty()) return false;
  path.back().taken++;
  return true;
}

}  // namespace tl::sim
