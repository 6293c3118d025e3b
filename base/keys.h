#pragma once
/// Keys of encrypted links (CURVE: Curve25519 in Z85, 40 characters) and the allow-list of a run. Both are
/// TOML files. A secret key is stored only in its owner's file, with mode 0600.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace emplace {

/// Roles of a key holder; messages/roles.h defines what each may do.
enum class Role : std::uint8_t { kExecutor = 1, kActor = 2, kOperator = 4 };

/// A set of roles. Thread: a plain value.
class Roles {
 public:
  Roles() = default;
  Roles(std::initializer_list<Role> roles) {
    for (const Role role : roles) add(role);
  }
  void add(Role role) { bits_ |= static_cast<std::uint8_t>(role); }
  bool has(Role role) const { return (bits_ & static_cast<std::uint8_t>(role)) != 0; }
  bool empty() const { return bits_ == 0; }
  bool operator==(const Roles&) const = default;

 private:
  std::uint8_t bits_ = 0;
};

/// Parses "executor", "actor" or "operator". Errors (kInvalid): any other word.
Result<Role> parse_role(std::string_view word);
/// Formats as "executor, actor".
std::string to_text(Roles roles);

/// Returns whether `text` is 40 characters of Z85 that encode 32 bytes.
bool is_key(std::string_view text);

struct KeyPair {
  std::string name;        ///< Display name in logs and in the allow-list.
  std::string public_key;  ///< Z85.
  std::string secret_key;  ///< Z85.
  std::string head;        ///< Public key of the head to connect to; may be empty.
};

/// Generates a pair from the system's random numbers.
KeyPair make_key_pair(std::string name);

/// Writes `path` with mode 0600 and the public half beside it (same name, ".pub"). Each file appears whole or
/// not at all. Errors: kInvalid if `path` exists and `replace` is false; kIo.
Result<Unit> save_key_pair(const std::filesystem::path& path, const KeyPair& keys, bool replace);
/// Removes both files if they exist.
void remove_key_pair(const std::filesystem::path& path);
/// Errors: kIo; kInvalid if other users can read the file, or its secret and public keys do not match.
Result<KeyPair> load_key_pair(const std::filesystem::path& path);
/// Reads the public key of a ".pub" or of a key file. Errors: kIo, kInvalid.
Result<std::string> load_public_key(const std::filesystem::path& path);

/// One entry of the allow-list.
struct AllowedKey {
  std::string name;
  std::string public_key;
  Roles roles;
};

/// Errors: kIo; kInvalid if other users can write the file, or (with file and line) for a malformed key, an
/// unknown role or TOML key, or a duplicate name or key.
Result<std::vector<AllowedKey>> load_allow_list(const std::filesystem::path& path);
Result<std::vector<AllowedKey>> parse_allow_list(std::string_view toml, std::string_view where);
/// Formats an entry of the list.
std::string to_toml(const AllowedKey& key);
/// Adds an entry to the file, creating it if it is missing. Existing text is kept. An entry of the same name
/// is an error; with `replace` it is replaced, and comments in the file are lost. Errors: kIo, kInvalid.
Result<Unit> add_to_allow_list(const std::filesystem::path& path, const AllowedKey& key, bool replace);

}  // namespace emplace
