#pragma once
/// Routing table of one node: where each actor runs.

#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/actor.h"

namespace emplace::runtime {

class OwnLoop;
struct Peer;

/// Location of an actor: the I/O loop (both null), an own loop, or another node.
struct Route {
  OwnLoop* loop = nullptr;
  Peer* peer = nullptr;
  std::string name;
};

/// Stores the pointers without using them. Pure; one thread.
class Routes {
 public:
  /// Adds an actor of this node; `loop`: null for the I/O loop. Returns false if the name is taken.
  bool add_local(const std::string& actor, OwnLoop* loop);
  /// Routes the actor to `peer`, replacing any other peer. Returns false if an actor of this node has the
  /// name.
  bool add_remote(const std::string& actor, Peer& peer);
  /// Returns false if the route is not through `peer`.
  bool remove_remote(const std::string& actor, const Peer& peer);

  /// Route of an actor; null if unknown.
  const Route* find(ActorId actor) const {
    const auto found = routes_.find(actor);
    return found == routes_.end() ? nullptr : &found->second;
  }
  bool is_local(ActorId actor) const {
    const Route* const route = find(actor);
    return route != nullptr && route->peer == nullptr;
  }
  /// Actors of this node, in the order of add_local().
  const std::vector<std::string>& local_actors() const { return local_actors_; }

 private:
  std::unordered_map<ActorId, Route> routes_;
  std::vector<std::string> local_actors_;
};

}  // namespace emplace::runtime
