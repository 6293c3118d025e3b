#pragma once
/// Executors come, grant credit, show that they live, and go.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "messages/codec.h"
#include "messages/type_ids.h"

namespace emplace::messages {

/// executor -> dispatcher. Sent at start, and again when the dispatcher does not know it; with the first
/// credit.
struct ExecutorJoined {
  static constexpr std::uint16_t kType = number(Type::kExecutorJoined);
  std::string name;  ///< Actor name.
  std::string host;
  std::string kind;          ///< "sim", "cpu", …
  std::string graph_sha256;  ///< The graph it has loaded.
  std::uint32_t devices = 0;
  std::uint64_t epoch = 0;         ///< Of this life of the executor; a higher one replaces it.
  std::uint32_t placements = 0;    ///< Credit: items,
  std::uint64_t bytes = 0;         ///< and bytes.
  std::string node;                ///< The process it lives in,
  std::uint32_t cores = 0;         ///< the processors that its machine shows it,
  std::uint64_t memory_bytes = 0;  ///< its memory,
  std::string version;             ///< and the program's version. 0, empty: not said.
  EMPLACE_FIELDS(name, host, kind, graph_sha256, devices, epoch, placements, bytes, node, cores, memory_bytes,
                 version)
};

/// executor -> dispatcher. May send this much more.
struct CreditGranted {
  static constexpr std::uint16_t kType = number(Type::kCreditGranted);
  std::string executor;
  std::uint64_t epoch = 0;
  std::uint32_t placements = 0;  ///< Items.
  std::uint64_t bytes = 0;
  EMPLACE_FIELDS(executor, epoch, placements, bytes)
};

/// executor -> dispatcher. Renews the leases it names.
struct Heartbeat {
  static constexpr std::uint16_t kType = number(Type::kHeartbeat);
  std::string executor;
  std::uint64_t epoch = 0;
  std::vector<std::uint64_t> leases;  ///< Lease epochs held.
  double busy_s = 0;                  ///< Measuring, since it joined; utilisation is the rate of this.
  /// The highest lease epoch that came: later ones are on their way. Where it is not said, nothing is.
  std::uint64_t seen = std::numeric_limits<std::uint64_t>::max();
  EMPLACE_FIELDS(executor, epoch, leases, busy_s, seen)
};

/// executor -> dispatcher. Takes no more work. It gives back the leases that it names and those that it has
/// not seen; the others it has answered, and the results may still be on their way.
struct ExecutorLeft {
  static constexpr std::uint16_t kType = number(Type::kExecutorLeft);
  std::string executor;
  std::uint64_t epoch = 0;
  std::string reason;
  std::vector<std::uint64_t> leases;  ///< Lease epochs held, undone.
  std::uint64_t seen = 0;  ///< The highest lease epoch that came. Where it is not said, all are given back.
  EMPLACE_FIELDS(executor, epoch, reason, leases, seen)
};

}  // namespace emplace::messages
