#pragma once
/// Nodes and actors of a run and their state, as shown by `emplace ps`.

#include <cstdint>
#include <string>
#include <vector>

#include "messages/codec.h"
#include "messages/run_control.h"
#include "messages/type_ids.h"

namespace emplace::messages {

struct ActorStatus {
  std::string name;
  std::uint64_t handled = 0;   ///< Messages handled.
  std::uint64_t waiting = 0;   ///< Messages in its queue.
  std::uint32_t restarts = 0;  ///< Restarts after an exception.
  std::string last_error;      ///< Its latest exception; empty: none.
  EMPLACE_FIELDS(name, handled, waiting, restarts, last_error)
};

/// node -> view, every second: state of the node and its actors.
struct NodeReported {
  static constexpr std::uint16_t kType = number(Type::kNodeReported);
  std::string node;
  std::string host;
  std::string version;
  std::uint64_t pid = 0;
  double uptime_s = 0;
  std::vector<ActorStatus> actors;
  std::uint64_t sent = 0, received = 0;  ///< Messages to and from other nodes.
  std::uint64_t refused = 0,
                dropped = 0;  ///< Refused: by full queues. Dropped: malformed, unknown or without a receiver.
  std::uint64_t peers_lost = 0;
  /// Earlier incarnations of its process, counted by its launcher; 0: no launcher.
  std::uint32_t restarts = 0;
  EMPLACE_FIELDS(node, host, version, pid, uptime_s, actors, sent, received, refused, dropped, peers_lost,
                 restarts)
};

/// operator -> view: requests the state of the run.
struct StatusRequested {
  static constexpr std::uint16_t kType = number(Type::kStatusRequested);
  std::uint64_t request = 0;  ///< Request number, echoed in the answer.
  EMPLACE_FIELDS(request)
};

struct NodeStatus {
  NodeReported report;
  double age_s = 0;              ///< Time since its last report [s].
  std::uint32_t restarts = 0;    ///< Earlier incarnations of its process, as far as they reported.
  std::uint32_t executors = 0;   ///< Joined executors of the node.
  std::uint64_t placements = 0;  ///< Placements that its executors measured and that counted.
  std::uint32_t in_flight = 0;   ///< Placements leased to its executors.
  std::uint64_t credit = 0;      ///< Further placements that its executors accept.
  double utilisation = 0;        ///< Mean utilisation of its executors, 0..1.
  double evaluations_per_s = 0;  ///< Evaluations per second, over the last seconds.
  EMPLACE_FIELDS(report, age_s, restarts, executors, placements, in_flight, utilisation, evaluations_per_s,
                 credit)
};

/// view -> operator: answer to StatusRequested.
struct StatusDelivered {
  static constexpr std::uint16_t kType = number(Type::kStatusDelivered);
  std::uint64_t request = 0;
  std::string run;     ///< Run directory on the head.
  std::string start;   ///< Name of the start that is running.
  std::string graph;   ///< Name of the first graph.
  std::string method;  ///< Method of the policy.
  RunProgress progress;
  double evaluations_per_s = 0;  ///< Evaluations per second, over the last seconds.
  std::vector<NodeStatus> nodes;
  bool more_starts = false;  ///< True: another start follows at the same address when this one ends.
  EMPLACE_FIELDS(request, run, start, graph, method, progress, evaluations_per_s, nodes, more_starts)
};

}  // namespace emplace::messages
