#pragma once
/// Who takes part, and how it goes: what `emplace ps` shows.

#include <cstdint>
#include <string>
#include <vector>

#include "messages/codec.h"
#include "messages/run_control.h"
#include "messages/type_ids.h"

namespace emplace::messages {

struct ActorStatus {
  std::string name;
  std::uint64_t handled = 0;   ///< Messages.
  std::uint64_t waiting = 0;   ///< In its queue.
  std::uint32_t restarts = 0;  ///< After it threw.
  std::string last_error;      ///< What it threw last; empty: nothing.
  EMPLACE_FIELDS(name, handled, waiting, restarts, last_error)
};

/// node -> view, every second.
struct NodeReported {
  static constexpr std::uint16_t kType = number(Type::kNodeReported);
  std::string node;
  std::string host;
  std::string version;
  std::uint64_t pid = 0;
  double uptime_s = 0;
  std::vector<ActorStatus> actors;
  std::uint64_t sent = 0, received = 0;    ///< Messages to and from other nodes.
  std::uint64_t refused = 0, dropped = 0;  ///< By full queues; malformed, unknown or without a receiver.
  std::uint64_t peers_lost = 0;
  std::uint32_t restarts =
      0;  ///< Lives of its process before this one, as its launcher knows; 0: it has none.
  EMPLACE_FIELDS(node, host, version, pid, uptime_s, actors, sent, received, refused, dropped, peers_lost,
                 restarts)
};

/// operator -> view.
struct StatusRequested {
  static constexpr std::uint16_t kType = number(Type::kStatusRequested);
  std::uint64_t request = 0;  ///< Echoed.
  EMPLACE_FIELDS(request)
};

struct NodeStatus {
  NodeReported report;
  double age_s = 0;              ///< Since its last report.
  std::uint32_t restarts = 0;    ///< Lives of its process before this one, as far as they reported.
  std::uint32_t executors = 0;   ///< Of it, that have joined;
  std::uint64_t placements = 0;  ///< what they measured that counted,
  std::uint32_t in_flight = 0;   ///< what they have in hand,
  std::uint64_t credit = 0;      ///< and how much more they would take.
  double utilisation = 0;        ///< 0..1, their mean.
  double evaluations_per_s = 0;  ///< Over the last seconds.
  EMPLACE_FIELDS(report, age_s, restarts, executors, placements, in_flight, utilisation, evaluations_per_s,
                 credit)
};

/// view -> operator.
struct StatusDelivered {
  static constexpr std::uint16_t kType = number(Type::kStatusDelivered);
  std::uint64_t request = 0;
  std::string run;     ///< Its directory, at the head.
  std::string start;   ///< Of which start.
  std::string graph;   ///< The first one's name.
  std::string method;  ///< Of the policy.
  RunProgress progress;
  double evaluations_per_s = 0;  ///< Over the last seconds.
  std::vector<NodeStatus> nodes;
  bool more_starts = false;  ///< When this start ends, another begins at the same address.
  EMPLACE_FIELDS(request, run, start, graph, method, progress, evaluations_per_s, nodes, more_starts)
};

}  // namespace emplace::messages
