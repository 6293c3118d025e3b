#pragma once
/// Keys of encrypted links (CURVE: Curve25519 in Z85, 40 characters) and the list of those that are let in.
/// They live in TOML files; a secret stands in none but its owner's, of mode 0600.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace emplace {

/// What the holder of a key may be; messages/roles.h says what that allows.
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

/// "executor", "actor", "operator". Errors (kInvalid): another word.
Result<Role> parse_role(std::string_view word);
/// "executor, actor".
std::string to_text(Roles roles);

/// True for 40 characters of Z85 that stand for 32 bytes.
bool is_key(std::string_view text);

struct KeyPair {
  std::string name;        ///< For people: in logs and in the allow-list.
  std::string public_key;  ///< Z85.
  std::string secret_key;  ///< Z85.
  std::string head;        ///< Public key of the head that this one dials; may be empty.
};

/// From the system's random numbers.
KeyPair make_key_pair(std::string name);

/// Writes KEY with mode 0600 and the public half beside it (same name, ".pub"); both appear whole or not at
/// all. Errors: kInvalid if `path` exists and not `replace`; kIo.
Result<Unit> save_key_pair(const std::filesystem::path& path, const KeyPair& keys, bool replace);
/// Removes both halves, if they are there.
void remove_key_pair(const std::filesystem::path& path);
/// Errors: kIo; kInvalid if others may read the file, or it holds no pair that belongs together.
Result<KeyPair> load_key_pair(const std::filesystem::path& path);
/// The public key of a ".pub" or of a key file. Errors: kIo, kInvalid.
Result<std::string> load_public_key(const std::filesystem::path& path);

/// One key that is let in.
struct AllowedKey {
  std::string name;
  std::string public_key;
  Roles roles;
};

/// Errors: kIo; kInvalid with file and line: no key, an unknown role or key of the file, a name or key twice;
/// or if others may write the file.
Result<std::vector<AllowedKey>> load_allow_list(const std::filesystem::path& path);
Result<std::vector<AllowedKey>> parse_allow_list(std::string_view toml, std::string_view where);
/// The entry as the list has it.
std::string to_toml(const AllowedKey& key);
/// Adds an entry, making the file if there is none (and keeping what people wrote into it if there is); an
/// entry of the same name is an error, or with `replace` gives way (comments are lost then). Errors: kIo,
/// kInvalid.
Result<Unit> add_to_allow_list(const std::filesystem::path& path, const AllowedKey& key, bool replace);

}  // namespace emplace
