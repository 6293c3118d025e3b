#include "launcher/cluster/hosts/elastic_nodes.h"

#include <algorithm>

#include "launcher/cluster/roles.h"

namespace emplace::launcher {

ElasticNodes::ElasticNodes(std::span<const std::vector<NodePlan>> members) {
  for (std::size_t i = 0; i < members.size(); ++i) {
    for (const NodePlan& plan : members[i]) {
      elsewhere_ +=
          static_cast<std::uint32_t>(std::count_if(plan.actors.begin(), plan.actors.end(), is_executor));
      if (plan.max_processes == 0) continue;
      const ThrottleOptions options{.max_tasks = plan.max_processes,
                                    .executors_per_task = plan.executors_each};
      nodes_.emplace(i, Node{ArrayThrottle{options}, plan.max_processes * plan.executors_each});
    }
  }
}

std::map<std::size_t, std::string> ElasticNodes::orders(std::uint32_t executors_wanted, Nanos now) {
  std::map<std::size_t, std::string> lines;
  std::uint32_t left = executors_wanted - std::min(executors_wanted, elsewhere_);
  for (auto& [member, node] : nodes_) {
    const std::uint32_t here = std::min(left, node.most);
    left -= here;
    if (const auto tasks = node.throttle.change(here, now))
      lines[member] = "tasks " + std::to_string(*tasks) + "\n";
  }
  return lines;
}

void ElasticNodes::on_restart(std::size_t member) {
  if (const auto node = nodes_.find(member); node != nodes_.end()) node->second.throttle.restart();
}

}  // namespace emplace::launcher
