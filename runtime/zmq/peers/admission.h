#pragma once
/// Admission: which nodes may join under which names, and what each may send. The keys themselves are checked
/// before a byte of a connection is read (runtime/zmq/keys/authenticator.h).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/core/allowed_keys.h"
#include "runtime/node.h"
#include "runtime/zmq/links/session_messages.h"
#include "runtime/zmq/peers/peer.h"
#include "runtime/zmq/peers/routes.h"

namespace emplace::runtime {

/// Pure; one thread. The constructor's arguments must outlive it.
class Admission {
 public:
  enum class Frame : std::uint8_t {
    kRead,
    kKeyRevoked,  ///< The key was removed from the list.
    kTakenOver,   ///< Another key than that of the session.
    kOversized,   ///< Above the limit of a control connection.
  };
  struct Refusal {
    std::string reason;
    bool final = false;  ///< A retry would be refused, too.
  };

  /// `keys`: null if no keys are required.
  Admission(const NodeOptions& options, const Routes& routes, const AllowedKeys* keys)
      : options_{options}, routes_{routes}, keys_{keys} {}

  /// Whether a frame may be decoded. `key`: proven by the connection, or empty. `peer`: null without a
  /// session. Called once per frame, so it must be cheap.
  Frame check_frame(const std::string& key, const Peer* peer, std::size_t plane, std::size_t bytes) const;
  /// Why a node may not join; empty if it may. `known`: current peer of that name, or null; `num_peers`:
  /// number of peers.
  std::optional<Refusal> refuse_hello(const Hello& hello, const std::string& key, const Peer* known,
                                      std::size_t num_peers) const;
  /// Whether a joined peer may announce one more actor.
  bool may_announce(const Peer& peer, const std::string& actor) const;
  /// Whether a peer with a key may send this message.
  bool may_send(const Peer& peer, const messages::Envelope& envelope) const;
  /// Why a session must end after a change of the key list; empty if it continues.
  std::optional<std::string> revoked(const Peer& peer) const;

  /// Roles of a key; empty for an unlisted key, or if no keys are required.
  Roles roles(const std::string& key) const;
  /// Name of the key in the list, for display.
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
