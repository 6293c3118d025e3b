#pragma once
/// Messages by which executors join, grant credit, report that they are alive, and leave.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "messages/codec.h"
#include "messages/type_ids.h"

namespace emplace::messages {

/// executor -> dispatcher, with the first credit. Sent at start, and again when the dispatcher does not
/// know the executor.
struct ExecutorJoined {
  static constexpr std::uint16_t kType = number(Type::kExecutorJoined);
  std::string name;  ///< Actor name.
  std::string host;
  std::string kind;          ///< "sim", "cpu", …
  std::string graph_sha256;  ///< Hash of the loaded graph.
  std::uint32_t devices = 0;
  std::uint64_t epoch = 0;         ///< Incarnation of the executor; a higher one replaces it.
  std::uint32_t placements = 0;    ///< Credit [placements].
  std::uint64_t bytes = 0;         ///< Credit [bytes].
  std::string node;                ///< Name of its process (node).
  std::uint32_t cores = 0;         ///< Processors visible on its machine; 0: unknown.
  std::uint64_t memory_bytes = 0;  ///< Memory of its machine [bytes]; 0: unknown.
  std::string version;             ///< Program version; empty: unknown.
  std::string measuring;           ///< Hash of all that decides its measurements; empty: unknown.
  EMPLACE_FIELDS(name, host, kind, graph_sha256, devices, epoch, placements, bytes, node, cores, memory_bytes,
                 version, measuring)
};

/// executor -> dispatcher: grants additional credit.
struct CreditGranted {
  static constexpr std::uint16_t kType = number(Type::kCreditGranted);
  std::string executor;
  std::uint64_t epoch = 0;
  std::uint32_t placements = 0;  ///< Credit [placements].
  std::uint64_t bytes = 0;
  EMPLACE_FIELDS(executor, epoch, placements, bytes)
};

/// executor -> dispatcher. Renews the listed leases.
struct Heartbeat {
  static constexpr std::uint16_t kType = number(Type::kHeartbeat);
  std::string executor;
  std::uint64_t epoch = 0;
  std::vector<std::uint64_t> leases;  ///< Epochs of the leases that it holds.
  double busy_s = 0;  ///< Time spent measuring since it joined [s]; its rate is the utilisation.
  /// Highest lease epoch received; later leases are in flight. Default: nothing is known to be in flight.
  std::uint64_t seen = std::numeric_limits<std::uint64_t>::max();
  EMPLACE_FIELDS(executor, epoch, leases, busy_s, seen)
};

/// executor -> dispatcher. The executor accepts no more work. It returns the listed leases and those that
/// it has not received. All other leases are answered; their results may still be in flight.
struct ExecutorLeft {
  static constexpr std::uint16_t kType = number(Type::kExecutorLeft);
  std::string executor;
  std::uint64_t epoch = 0;
  std::string reason;
  std::vector<std::uint64_t> leases;  ///< Epochs of the leases that it returns unfinished.
  std::uint64_t seen = 0;             ///< Highest lease epoch received; if missing, all leases are returned.
  EMPLACE_FIELDS(executor, epoch, reason, leases, seen)
};

}  // namespace emplace::messages
