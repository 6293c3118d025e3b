#pragma once
/// Public keys that may connect to a node, and the roles of each.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/keys.h"

namespace emplace::runtime {

/// Pure; one thread.
class AllowedKeys {
 public:
  /// Replaces the list. Returns true if a key was removed or its roles changed: its sessions must end.
  bool replace(std::vector<AllowedKey> list) {
    std::map<std::string, AllowedKey, std::less<>> next;
    for (AllowedKey& key : list) next.emplace(key.public_key, std::move(key));
    bool revoked = false;
    for (const auto& [key, allowed] : keys_) {
      const auto found = next.find(key);
      revoked |= found == next.end() || !(found->second.roles == allowed.roles);
    }
    keys_ = std::move(next);
    return revoked;
  }
  bool contains(std::string_view key) const { return keys_.contains(key); }
  /// Roles of a key; empty if it may not connect (any more).
  std::optional<Roles> roles(std::string_view key) const {
    const auto found = keys_.find(key);
    return found == keys_.end() ? std::nullopt : std::optional{found->second.roles};
  }
  /// Name of the key in the list, for display.
  std::string name(std::string_view key) const {
    const auto found = keys_.find(key);
    return found == keys_.end() ? "a removed key" : found->second.name;
  }

 private:
  std::map<std::string, AllowedKey, std::less<>> keys_;  // Keyed by public key.
};

}  // namespace emplace::runtime
