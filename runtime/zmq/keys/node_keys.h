#pragma once
/// The keys that a node loads from its files before it binds or dials.

#include <optional>
#include <string>

#include "base/keys.h"
#include "base/result.h"
#include "runtime/node.h"

namespace emplace::runtime {

struct NodeKeys {
  std::optional<KeyPair> own;  ///< Empty: tcp is not encrypted.
  std::string head;            ///< The head's public key; empty: unknown.
};

/// Errors: kInvalid, files that do not belong together, a tcp port without an allow-list; kUnsupported: this
/// libzmq has no CURVE; kIo and kInvalid of the key files.
Result<NodeKeys> load_node_keys(const NodeOptions& options);

/// True if the node listens on an encrypted tcp port, and so needs an Authenticator.
bool needs_authenticator(const NodeOptions& options, const NodeKeys& keys);

}  // namespace emplace::runtime
