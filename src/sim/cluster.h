// The barrier of all threads of a cluster's blocks.
#pragma once
#include <functional>

#include "sim/machine.h"
#include "sim/report.h"

namespace tl::sim {

// Where all threads have come that have not ended, those that wait go on.  `each` visits the cluster's warps.
bool release_cluster(Cluster& cluster, const std::function<void(const std::function<void(Warp&)>&)>& each);

// A warp waits for ever at the cluster's barrier: how many threads have not come, and one of them.
Finding cluster_finding(const Warp& waiting, const Cluster& cluster,
                        const std::function<void(const std::function<void(Warp&)>&)>& each);

}  // namespace tl::sim
