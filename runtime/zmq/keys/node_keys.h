#pragma once
/// Keys that a node loads from its files before it binds or dials.

#include <optional>
#include <string>

#include "base/keys.h"
#include "base/result.h"
#include "runtime/node.h"

namespace emplace::runtime {

struct NodeKeys {
  std::optional<KeyPair> own;  ///< Empty: tcp is not encrypted.
  std::string head;            ///< Public key of the head; empty: unknown.
};

/// Loads the keys. Errors: kInvalid, inconsistent files or a tcp port without an allow-list; kUnsupported,
/// libzmq without CURVE; kIo and kInvalid from reading the files.
Result<NodeKeys> load_node_keys(const NodeOptions& options);

/// Whether the node listens on an encrypted tcp port and so needs an Authenticator.
bool needs_authenticator(const NodeOptions& options, const NodeKeys& keys);

}  // namespace emplace::runtime
