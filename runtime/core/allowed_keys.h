#pragma once
/// The public keys that may connect to a node, and the roles of each.

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
  /// Takes the place of the list so far. True: a key of that list is gone or has other roles, so that its
  /// sessions must end.
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
  /// Empty: the key may not connect, or no longer.
  std::optional<Roles> roles(std::string_view key) const {
    const auto found = keys_.find(key);
    return found == keys_.end() ? std::nullopt : std::optional{found->second.roles};
  }
  /// The key's name in the list, for people.
  std::string name(std::string_view key) const {
    const auto found = keys_.find(key);
    return found == keys_.end() ? "a key that was taken out" : found->second.name;
  }

 private:
  std::map<std::string, AllowedKey, std::less<>> keys_;  // By public key.
};

}  // namespace emplace::runtime
