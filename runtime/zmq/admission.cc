#include "runtime/zmq/admission.h"

#include <algorithm>
#include <string_view>

#include "base/text/words.h"
#include "runtime/zmq/sockets/sockets.h"

namespace emplace::runtime {
namespace {

constexpr std::size_t kMaxPeers = 4'096;
constexpr std::size_t kMaxNameBytes = 128;

}  // namespace

Roles Admission::roles(const std::string& key) const {
  return keys_ != nullptr ? keys_->roles(key).value_or(Roles{}) : Roles{};
}

std::string Admission::key_name(const std::string& key) const {
  return keys_ != nullptr ? keys_->name(key) : "no key";
}

Admission::Frame Admission::check_frame(const std::string& key, const Peer* peer, std::size_t plane,
                                        std::size_t bytes) const {
  if (keys_ != nullptr && !key.empty() && !keys_->contains(key)) return Frame::kKeyRevoked;
  if (peer == nullptr) return Frame::kRead;
  if (peer->key != key) return Frame::kTakenOver;
  return plane == 0 && bytes > kMaxControlBytes ? Frame::kOversized : Frame::kRead;
}

std::optional<Admission::Refusal> Admission::refuse_hello(const Hello& hello, const std::string& key,
                                                          const Peer* known, std::size_t num_peers) const {
  if (const auto spoken = messages::check_wire_version(hello.wire, hello.oldest_wire); !spoken)
    return Refusal{spoken.error().context, true};
  const auto refusal = [&](std::string reason) {
    return Refusal{std::move(reason), !roles_allow(hello, key)};
  };
  if (hello.node.empty() || hello.node.size() > kMaxNameBytes || hello.actors.size() > kMaxActors)
    return refusal("name empty or too long, or too many actors");
  if (known == nullptr && num_peers >= kMaxPeers) return refusal("too many nodes");
  if (known != nullptr && known->key != key && (!key.empty() || known->session.epoch() == hello.epoch))
    return refusal("its name belongs to another key");
  const Roles of_key = roles(key);
  if (!key.empty() && !may_take_node_name(hello.node, of_key))
    return refusal("no node called '" + printable(hello.node, 80) + "' may come from " + key_name(key) +
                   " (" + to_text(of_key) + ")");
  for (const std::string& actor : hello.actors)
    if (!may_take_actor_name(known, key, of_key, hello.node, actor))
      return refusal("no actor called '" + printable(actor, 80) + "' may come from " +
                     (key.empty() ? "it" : key_name(key) + " (" + to_text(of_key) + ")"));
  return std::nullopt;
}

bool Admission::may_announce(const Peer& peer, const std::string& actor) const {
  return peer.actors.size() < kMaxActors &&
         may_take_actor_name(&peer, peer.key, peer.roles, peer.node, actor);
}

bool Admission::may_send(const Peer& peer, const messages::Envelope& envelope) const {
  const Route* const to = routes_.find(envelope.to);
  return peer.announced.contains(envelope.from) &&
         options_.rules.may_send(peer.roles, envelope.type,
                                 to == nullptr ? std::string_view{} : std::string_view{to->name});
}

std::optional<std::string> Admission::revoked(const Peer& peer) const {
  if (keys_ == nullptr || peer.key.empty()) return std::nullopt;
  const auto now = keys_->roles(peer.key);
  if (!now) return "its key was removed";
  if (!(*now == peer.roles)) return "the roles of its key changed";
  return std::nullopt;
}

/// Planned names require a key of their role; our own name is never free.
bool Admission::may_take_node_name(const std::string& node, Roles of_key) const {
  const auto planned = options_.planned_nodes.find(node);
  return node != options_.name && (planned == options_.planned_nodes.end() || of_key.has(planned->second));
}

bool Admission::may_take_actor_name(const Peer* known, const std::string& key, Roles of_key,
                                    const std::string& node, const std::string& actor) const {
  if (actor.empty() || actor.size() > kMaxNameBytes) return false;
  if (key.empty()) return true;  // Over ipc the peer runs as our user and may take any name.
  if (!options_.rules.may_announce(of_key, node, actor)) return false;
  const Route* const taken = routes_.find(actor_id(actor));
  if (taken == nullptr || (known != nullptr && taken->peer == known)) return true;
  return taken->peer != nullptr && taken->peer->key == key;
}

/// Whether the roles of the key can ever allow this node name and these actors.
bool Admission::roles_allow(const Hello& hello, const std::string& key) const {
  if (key.empty()) return true;
  const Roles of_key = roles(key);
  return may_take_node_name(hello.node, of_key) &&
         std::all_of(hello.actors.begin(), hello.actors.end(), [&](const std::string& actor) {
           return options_.rules.may_announce(of_key, hello.node, actor);
         });
}

}  // namespace emplace::runtime
