#pragma once
/// Who may join a node, under which names, and what each may send. The keys themselves are checked in
/// runtime/zmq/keys/authenticator.h, before a byte of a connection is read.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/core/allowed_keys.h"
#include "runtime/node.h"
#include "runtime/zmq/peer.h"
#include "runtime/zmq/routes.h"
#include "runtime/zmq/session_messages.h"

namespace emplace::runtime {

/// Pure; one thread. What it is made of must outlive it.
class Admission {
 public:
  enum class Frame : std::uint8_t {
    kRead,
    kKeyRevoked,  ///< The key is not in the list any more.
    kTakenOver,   ///< Another key than the one that opened the session.
    kOversized,   ///< More than a control connection may carry at once.
  };
  struct Refusal {
    std::string reason;
    bool final = false;  ///< It would be refused again, so it need not ask again.
  };

  /// `keys`: null where no keys are asked for.
  Admission(const NodeOptions& options, const Routes& routes, const AllowedKeys* keys)
      : options_{options}, routes_{routes}, keys_{keys} {}

  /// Whether a frame may be decoded. `key`: the one that its connection proved; empty: none.
  /// `peer`: null for a connection that has no session. Cheap: called once per frame.
  Frame check_frame(const std::string& key, const Peer* peer, std::size_t plane, std::size_t bytes) const;
  /// Why a node may not join; empty if it may. `known`: the peer of its name, null if there is none;
  /// `num_peers`: how many there are.
  std::optional<Refusal> refuse_hello(const Hello& hello, const std::string& key, const Peer* known,
                                      std::size_t num_peers) const;
  /// Whether a peer that has joined may announce one more actor.
  bool may_announce(const Peer& peer, const std::string& actor) const;
  /// Whether a peer with a key may send this.
  bool may_send(const Peer& peer, const messages::Envelope& envelope) const;
  /// Why a session must end after the list of keys has changed; empty if it goes on.
  std::optional<std::string> revoked(const Peer& peer) const;

  /// None for a key that is not in the list, and where no keys are asked for.
  Roles roles(const std::string& key) const;
  /// The key's name in the list, for people.
  std::string key_name(const std::string& key) const;
  bool contains(const std::string& key) const { return keys_ != nullptr && keys_->contains(key); }

 private:
  bool may_take_node_name(const std::string& node, Roles roles) const;
  bool may_take_actor_name(const Peer* known, const std::string& key, Roles roles, const std::string& node,
                           const std::string& actor) const;
  bool roles_allow(const Hello& hello, const std::string& key) const;

  const NodeOptions& options_;
  const Routes& routes_;
  const AllowedKeys* keys_;
};

}  // namespace emplace::runtime
