#pragma once
/// Nodes whose number of processes follows the demand of the run: the orders for the processes that represent
/// them.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "launcher/cluster/cluster.h"
#include "launcher/cluster/hosts/array_throttle.h"

namespace emplace::launcher {

/// The elastic nodes of a topology. Pure; one thread.
class ElasticNodes {
 public:
  /// `members`: those of a Topology.
  explicit ElasticNodes(std::span<const std::vector<NodePlan>> members);

  /// Takes the executors that the run wants, and returns a line for each member that needs one, by its index:
  /// "tasks 3\n". Executors of other nodes come first; the rest goes to elastic nodes in their order.
  std::map<std::size_t, std::string> orders(std::uint32_t executors_wanted, Nanos now);
  /// Call when the process of a member is restarted.
  void on_restart(std::size_t member);

 private:
  struct Node {
    ArrayThrottle throttle;
    std::uint32_t most = 0;  ///< Executors of all its tasks.
  };
  std::map<std::size_t, Node> nodes_;  // Keyed by member.
  std::uint32_t elsewhere_ = 0;        // Executors of the nodes that are not elastic.
};

}  // namespace emplace::launcher
