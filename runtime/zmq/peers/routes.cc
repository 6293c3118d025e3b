#include "runtime/zmq/peers/routes.h"

namespace emplace::runtime {

bool Routes::add_local(const std::string& actor, OwnLoop* loop) {
  if (!routes_.emplace(actor_id(actor), Route{.loop = loop, .name = actor}).second) return false;
  local_actors_.push_back(actor);
  return true;
}

bool Routes::add_remote(const std::string& actor, Peer& peer) {
  const ActorId id = actor_id(actor);
  if (is_local(id)) return false;
  routes_.insert_or_assign(id, Route{.peer = &peer, .name = actor});
  return true;
}

bool Routes::remove_remote(const std::string& actor, const Peer& peer) {
  const auto found = routes_.find(actor_id(actor));
  if (found == routes_.end() || found->second.peer != &peer) return false;
  routes_.erase(found);
  return true;
}

}  // namespace emplace::runtime
