#include "runtime/zmq/keys/node_keys.h"

#include <zmq.h>

#include <algorithm>
#include <utility>

#include "runtime/zmq/sockets/sockets.h"

namespace emplace::runtime {

bool needs_authenticator(const NodeOptions& options, const NodeKeys& keys) {
  return keys.own && std::any_of(options.listen.begin(), options.listen.end(),
                                 [](const std::string& endpoint) { return is_tcp(endpoint); });
}

Result<NodeKeys> load_node_keys(const NodeOptions& options) {
  const KeyFiles& files = options.keys;
  NodeKeys keys;
  if (files.own.empty()) {
    if (files.allowed.empty() && files.head.empty()) return keys;
    return invalid("keys", "an allow-list or a head's key, but no key of this node",
                   "emplace keygen makes one");
  }
  if (zmq_has("curve") == 0)
    return Error{Errc::kUnsupported, "keys: this libzmq has no CURVE; install one built with libsodium"};
  EMPLACE_TRY_ASSIGN(keys.own, load_key_pair(files.own));
  keys.head = keys.own->head;
  if (!files.head.empty()) {
    EMPLACE_TRY_ASSIGN(keys.head, load_public_key(files.head));
  }
  if (!needs_authenticator(options, keys)) return keys;
  if (files.allowed.empty())
    return invalid("keys", "an encrypted port without an allow-list",
                   "emplace keygen --allow FILE makes one");
  EMPLACE_CHECK(options.rules.may_announce != nullptr && options.rules.may_send != nullptr,
                "keys without rules for them");
  return keys;
}

}  // namespace emplace::runtime
