#pragma once
/// Atomic version of NodeCounters.

#include <atomic>
#include <cstdint>

#include "runtime/node.h"

namespace emplace::runtime {

/// Thread: any.
struct LiveCounters {
  using Count = std::atomic<std::uint64_t>;
  Count sent{0}, received{0}, frames_sent{0}, refused{0}, replaced{0}, unroutable{0}, malformed{0},
      oversized{0}, unauthenticated{0}, refused_role{0}, revoked{0}, unknown{0}, gaps{0}, duplicates{0},
      peers_lost{0}, restarts{0};

  NodeCounters snapshot() const {
    return {.sent = sent,
            .received = received,
            .frames_sent = frames_sent,
            .refused = refused,
            .replaced = replaced,
            .unroutable = unroutable,
            .malformed = malformed,
            .oversized = oversized,
            .unauthenticated = unauthenticated,
            .refused_role = refused_role,
            .revoked = revoked,
            .unknown = unknown,
            .gaps = gaps,
            .duplicates = duplicates,
            .peers_lost = peers_lost,
            .restarts = restarts};
  }
};

inline void count(LiveCounters::Count& counter, std::uint64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

}  // namespace emplace::runtime
