#pragma once
/// State that a node keeps about a connected node.

#include <array>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/keys.h"
#include "runtime/core/session.h"
#include "runtime/zmq/links/link.h"
#include "runtime/zmq/links/session_messages.h"

namespace emplace::runtime {

inline constexpr std::size_t kMaxActors = 4'096;  ///< Limit per node.

/// Thread: the I/O loop.
struct Peer {
  Peer(std::string name, Link::Limits limits, Nanos timeout, NodeCounters& counters)
      : node{std::move(name)},
        session{timeout},
        links{Link{limits, /*numbered=*/true, counters}, Link{limits, /*numbered=*/true, counters}} {}

  /// Whether both connections of the current epoch are welcomed.
  bool connected() const { return welcomed[0] && welcomed[1]; }
  /// Whether both connections are done: their Bye was received, or ours was acknowledged.
  bool parted() const { return (bye_seen[0] && bye_seen[1]) || (bye_acked[0] && bye_acked[1]); }
  /// Starts a new epoch on new connections. Messages queued in the links stay.
  void start_epoch() {
    welcomed = bye_seen = bye_acked = {};
    announced.clear();
  }

  std::string node;
  std::string key;  ///< Public key it has proven; empty over ipc, or if no keys are required.
  Roles roles;      ///< Roles of the key.
  Session session;
  std::array<Link, kPlanes> links;
  std::array<std::string, kPlanes> routing_id;  ///< Routing ids at the head; empty before the welcome.
  std::array<bool, kPlanes> welcomed{};
  std::array<bool, kPlanes> bye_seen{};   ///< Bye received.
  std::array<bool, kPlanes> bye_acked{};  ///< Our Bye acknowledged: everything sent has arrived.
  std::set<std::string> actors;  ///< Actors that run there; at a dialling node: that the head can reach.
  std::unordered_set<ActorId> announced;  ///< Actors announced in this epoch, for which it may send.
  std::vector<std::string> joined, left;  ///< Changes to report in the next Beat.
  std::optional<Nanos> away_since;        ///< Time at which it was lost; its messages wait for a while.
};

}  // namespace emplace::runtime
