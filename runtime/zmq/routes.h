#pragma once
/// Which actor runs where, as one node knows it.

#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/actor.h"

namespace emplace::runtime {

class OwnLoop;
struct Peer;

/// Where an actor runs: in the I/O loop (both null), on a loop of its own, or on another node.
struct Route {
  OwnLoop* loop = nullptr;
  Peer* peer = nullptr;
  std::string name;
};

/// The pointers are kept, never followed. Pure; one thread.
class Routes {
 public:
  /// An actor of this node; `loop`: null in the I/O loop. False: the name is taken.
  bool add_local(const std::string& actor, OwnLoop* loop);
  void remove_local(const std::string& actor);
  /// `peer` reaches the actor from now on, whoever did before. False: an actor of this node has the name, and
  /// keeps it.
  bool add_remote(const std::string& actor, Peer& peer);
  /// False: it is not `peer` who reaches the actor.
  bool remove_remote(const std::string& actor, const Peer& peer);

  /// Null: nobody here knows the actor.
  const Route* find(ActorId actor) const {
    const auto found = routes_.find(actor);
    return found == routes_.end() ? nullptr : &found->second;
  }
  bool is_local(ActorId actor) const {
    const Route* const route = find(actor);
    return route != nullptr && route->peer == nullptr;
  }
  /// The actors of this node, as they were added.
  const std::vector<std::string>& local_actors() const { return local_actors_; }

 private:
  std::unordered_map<ActorId, Route> routes_;
  std::vector<std::string> local_actors_;
};

}  // namespace emplace::runtime
