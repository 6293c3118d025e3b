#pragma once
/// What a node keeps about another one that it has connections with.

#include <array>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/keys.h"
#include "runtime/core/session.h"
#include "runtime/zmq/link.h"
#include "runtime/zmq/session_messages.h"

namespace emplace::runtime {

inline constexpr std::size_t kMaxActors = 4'096;  ///< On one node.

/// Thread: the I/O loop.
struct Peer {
  Peer(std::string name, Link::Limits limits, Nanos patience, LiveCounters& counters)
      : node{std::move(name)},
        session{patience},
        links{Link{limits, /*numbered=*/true, counters}, Link{limits, /*numbered=*/true, counters}} {}

  /// True when both connections of the current epoch were greeted.
  bool connected() const { return greeted[0] && greeted[1]; }
  /// True when each connection has said, or acknowledged, the last word.
  bool parted() const { return (bye_seen[0] && bye_seen[1]) || (bye_acked[0] && bye_acked[1]); }
  /// A new epoch begins on fresh connections. Messages that wait in the links stay there.
  void begin_epoch() {
    greeted = bye_seen = bye_acked = {};
    speakers.clear();
  }

  std::string node;
  std::string key;  ///< The public key that it proved; empty: it came over ipc, or no keys are asked for.
  Roles roles;      ///< Those of the key.
  Session session;
  std::array<Link, kPlanes> links;
  std::array<std::string, kPlanes> routing_id;  ///< At the head; empty where the connection is not greeted.
  std::array<bool, kPlanes> greeted{};
  std::array<bool, kPlanes> bye_seen{};   ///< It said Bye.
  std::array<bool, kPlanes> bye_acked{};  ///< It has everything that we sent.
  std::set<std::string> actors;  ///< Actors that run there (at a dialling node: that the head can reach).
  std::unordered_set<ActorId> speakers;   ///< Actors that it announced in this epoch, and may send for.
  std::vector<std::string> joined, left;  ///< Actors to name in the next Beat.
  std::optional<Nanos> away_since;        ///< When it was lost; messages for it wait for a while.
};

}  // namespace emplace::runtime
