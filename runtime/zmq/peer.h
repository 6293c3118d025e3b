#pragma once
/// Another node, as the switch sees it.

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

inline constexpr std::size_t kMaxActors = 4'096;  ///< Of one node.

/// Thread: the I/O loop.
struct Peer {
  Peer(std::string name, Link::Limits limits, Nanos patience, LiveCounters& counters)
      : node{std::move(name)},
        session{patience},
        links{Link{limits, /*numbered=*/true, counters}, Link{limits, /*numbered=*/true, counters}} {}

  /// True when both connections of the current life were greeted.
  bool connected() const { return greeted[0] && greeted[1]; }
  /// True when each connection has said, or acknowledged, the last word.
  bool parted() const { return (bye_seen[0] && bye_seen[1]) || (bye_acked[0] && bye_acked[1]); }
  /// A new life begins on fresh connections. What waits in the links stays.
  void begin_life() {
    greeted = bye_seen = bye_acked = {};
    speakers.clear();
  }

  std::string node;
  std::string key;  ///< The public key that it proved; empty: it came over ipc, or nobody here asks for keys.
  Roles roles;      ///< Of the key.
  Session session;
  std::array<Link, kPlanes> links;
  std::array<std::string, kPlanes> routing_id;  ///< At the head; empty when it dialled us not.
  std::array<bool, kPlanes> greeted{};
  std::array<bool, kPlanes> bye_seen{};   ///< It said Bye.
  std::array<bool, kPlanes> bye_acked{};  ///< It has all that we sent.
  std::set<std::string> actors;  ///< That live there (or, at a dialling node, that the head can reach).
  std::unordered_set<ActorId> speakers;   ///< Those that ever lived there in this life: who it may speak for.
  std::vector<std::string> joined, left;  ///< To be told in the next beat.
  std::optional<Nanos> away_since;        ///< Lost; what is for it waits a while.
};

}  // namespace emplace::runtime
