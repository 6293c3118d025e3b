#include "base/keys.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sodium/core.h>
#include <sodium/crypto_box.h>
#include <sodium/crypto_scalarmult.h>
#include <sodium/utils.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <span>
#include <system_error>

#include "base/file.h"
#include "base/text/toml_reader.h"
#include "base/text/words.h"

namespace emplace {
namespace {

constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kKeyText = 40;
constexpr std::size_t kLongestName = 64;
constexpr std::string_view kZ85 =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
constexpr std::array<std::pair<std::string_view, Role>, 3> kRoles{
    {{"executor", Role::kExecutor}, {"actor", Role::kActor}, {"operator", Role::kOperator}}};
static_assert(crypto_box_PUBLICKEYBYTES == kKeyBytes && crypto_box_SECRETKEYBYTES == kKeyBytes);

using Key = std::array<std::uint8_t, kKeyBytes>;

/// ZeroMQ RFC 32: four big-endian bytes become five base-85 digits.
std::string encode(const Key& key) {
  std::string text;
  for (std::size_t i = 0; i < key.size(); i += 4) {
    std::uint32_t word = 0;
    for (std::size_t b = 0; b < 4; ++b) word = word << 8 | key[i + b];
    char digits[5];
    for (int d = 4; d >= 0; --d, word /= 85) digits[d] = kZ85[word % 85];
    text.append(digits, sizeof digits);
  }
  return text;
}

std::optional<Key> decode(std::string_view text) {
  if (text.size() != kKeyText) return std::nullopt;
  Key key{};
  for (std::size_t i = 0; i < kKeyText / 5; ++i) {
    std::uint64_t word = 0;
    for (const char c : text.substr(5 * i, 5)) {
      const std::size_t digit = kZ85.find(c);
      if (digit == std::string_view::npos) return std::nullopt;
      word = word * 85 + digit;
    }
    if (word > 0xffffffffu) return std::nullopt;
    for (std::size_t b = 0; b < 4; ++b) key[4 * i + b] = static_cast<std::uint8_t>(word >> (24 - 8 * b));
  }
  return key;
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && name.front() != '.' && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                  c == '_' || c == '.';
         });
}

/// Reads a key from a table. Errors never show the value: it may be a secret.
std::string key_of(TomlTable& table, std::string_view field, bool required) {
  const auto text = table.text(field);
  if (text && is_key(*text)) return *text;
  if (text || required)
    table.fail(field, text ? fmt::format("is not a key: expected 40 characters of Z85, not {}", text->size())
                           : std::string{"is missing"});
  return {};
}

std::string name_of(TomlTable& table) {
  std::string name = table.text("name").value_or("");
  if (!is_name(name)) table.fail("name", "must be 1 to 64 of a-z A-Z 0-9 - _ .");
  return name;
}

/// Writes the whole file, created with `mode`; replaces an existing file only with `replace`.
Result<Unit> write_new(const std::filesystem::path& path, std::string_view text, mode_t mode, bool replace) {
  const std::string temporary = fmt::format("{}.part{}", path.string(), ::getpid());
  const auto fail = [&](int code) {
    ::unlink(temporary.c_str());
    return Error{Errc::kIo, printable_path(path) + ": cannot be written (" +
                                std::generic_category().message(code) + ")"};
  };
  ::unlink(temporary.c_str());  // Remove a leftover of an earlier process with the same pid.
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd < 0) return fail(errno);
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       ::fchmod(fd, mode) == 0 && ::fsync(fd) == 0;
  const int code = errno;
  ::close(fd);
  if (!written) return fail(code);
  if (replace) {
    if (::rename(temporary.c_str(), path.c_str()) != 0) return fail(errno);
    return Unit{};
  }
  if (::link(temporary.c_str(), path.c_str()) != 0) {
    if (errno != EEXIST) return fail(errno);
    ::unlink(temporary.c_str());
    return invalid(printable_path(path), "exists already", "choose another name, or --force to replace it");
  }
  ::unlink(temporary.c_str());
  return Unit{};
}

std::filesystem::path public_path(std::filesystem::path path) { return path.replace_extension(".pub"); }

std::string public_toml(const KeyPair& keys) {
  return "# Public half of an emplace key: not a secret.\nname = \"" + keys.name + "\"\npublic = \"" +
         keys.public_key + "\"\n";
}

}  // namespace

Result<Role> parse_role(std::string_view word) {
  for (const auto& [name, role] : kRoles)
    if (word == name) return role;
  return invalid("role '" + printable(word, 40) + "'", "is unknown", "roles: executor, actor, operator");
}

std::string to_text(Roles roles) {
  std::string text;
  for (const auto& [name, role] : kRoles)
    if (roles.has(role)) text.append(text.empty() ? "" : ", ").append(name);
  return text;
}

bool is_key(std::string_view text) { return decode(text).has_value(); }

KeyPair make_key_pair(std::string name) {
  EMPLACE_CHECK(sodium_init() >= 0, "cannot initialise libsodium");
  Key public_key{};
  Key secret_key{};
  crypto_box_keypair(public_key.data(), secret_key.data());
  KeyPair keys{std::move(name), encode(public_key), encode(secret_key), {}};
  sodium_memzero(secret_key.data(), secret_key.size());
  return keys;
}

Result<Unit> save_key_pair(const std::filesystem::path& path, const KeyPair& keys, bool replace) {
  if (!is_name(keys.name))
    return invalid("name '" + printable(keys.name, 80) + "'", "must be 1 to 64 of a-z A-Z 0-9 - _ .");
  if (public_path(path) == path)
    return invalid(printable_path(path), "the suffix .pub is reserved for public keys", "use .key");
  std::string text = "# An emplace key with its secret half: keep it private (mode 0600).\nname = \"" +
                     keys.name + "\"\npublic = \"" + keys.public_key + "\"\nsecret = \"" + keys.secret_key +
                     "\"\n";
  if (!keys.head.empty()) text += "head = \"" + keys.head + "\"\n";
  auto written = write_new(path, text, 0600, replace);
  sodium_memzero(text.data(), text.size());
  if (!written) return written;
  return write_new(public_path(path), public_toml(keys), 0644, /*replace=*/true);
}

void remove_key_pair(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  std::filesystem::remove(public_path(path), ignored);
}

Result<KeyPair> load_key_pair(const std::filesystem::path& path) {
  if (const auto secret = check_private(path); !secret)
    return secret.error().code == Errc::kInvalid
               ? secret.error()
               : Error{Errc::kIo, secret.error().context + "; create one with 'emplace keygen'"};
  EMPLACE_TRY_ASSIGN(auto document, TomlDocument::load(path));
  TomlTable root = document.root();
  KeyPair keys{name_of(root), key_of(root, "public", true), key_of(root, "secret", true),
               key_of(root, "head", false)};
  EMPLACE_TRY(document.finish());
  Key derived{};
  crypto_scalarmult_base(derived.data(), decode(keys.secret_key)->data());
  if (encode(derived) != keys.public_key)
    return invalid(printable_path(path), "its secret and public keys do not match",
                   "create a new one with 'emplace keygen'");
  return keys;
}

Result<std::string> load_public_key(const std::filesystem::path& path) {
  EMPLACE_TRY_ASSIGN(auto document, TomlDocument::load(path));
  TomlTable root = document.root();
  (void)name_of(root);
  const std::string key = key_of(root, "public", true);
  (void)root.text("secret");
  (void)root.text("head");
  EMPLACE_TRY(document.finish());
  return key;
}

Result<std::vector<AllowedKey>> parse_allow_list(std::string_view toml, std::string_view where) {
  EMPLACE_TRY_ASSIGN(auto document, TomlDocument::parse(toml, where));
  std::vector<AllowedKey> list;
  for (TomlTable& table : document.root().tables("key")) {
    AllowedKey one{name_of(table), key_of(table, "public", true), {}};
    for (const std::string& word : table.texts("roles").value_or(std::vector<std::string>{})) {
      const auto role = parse_role(word);
      if (role)
        one.roles.add(*role);
      else
        table.fail("roles", role.error().context);
    }
    if (one.roles.empty()) table.fail("roles", "is empty", "roles: executor, actor, operator");
    for (const AllowedKey& other : list) {
      if (other.name == one.name) table.fail("name", "is a duplicate");
      if (other.public_key == one.public_key) table.fail("public", "is a duplicate");
    }
    list.push_back(std::move(one));
  }
  EMPLACE_TRY(document.finish());
  return list;
}

Result<std::vector<AllowedKey>> load_allow_list(const std::filesystem::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && (info.st_mode & 022) != 0)
    return invalid(printable_path(path), "other users can write it and grant themselves access",
                   "chmod go-w " + printable_path(path));
  EMPLACE_TRY_ASSIGN(const auto bytes, read_file(path, std::size_t{16} << 20));
  return parse_allow_list({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, printable_path(path));
}

std::string to_toml(const AllowedKey& key) {
  std::string roles;
  for (const auto& [word, role] : kRoles)
    if (key.roles.has(role)) roles.append(roles.empty() ? "\"" : ", \"").append(word).append("\"");
  return "[[key]]\nname = \"" + key.name + "\"\npublic = \"" + key.public_key + "\"\nroles = [" + roles +
         "]\n";
}

Result<Unit> add_to_allow_list(const std::filesystem::path& path, const AllowedKey& key, bool replace) {
  std::string text = "# Keys with access to this run. Removing a key ends its sessions within 5 s.\n";
  if (std::filesystem::exists(path)) {
    EMPLACE_TRY_ASSIGN(const auto bytes, read_file(path, std::size_t{16} << 20));
    std::string old{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    EMPLACE_TRY_ASSIGN(auto list, parse_allow_list(old, printable_path(path)));
    const auto same =
        std::find_if(list.begin(), list.end(), [&](const AllowedKey& o) { return o.name == key.name; });
    if (same == list.end()) {
      text = std::move(old);
    } else if (!replace) {
      return invalid(printable_path(path), "already has a key named '" + key.name + "'",
                     "choose another name, or --force to replace it");
    } else {
      list.erase(same);
      for (const AllowedKey& other : list) text += "\n" + to_toml(other);
    }
  }
  if (text.back() != '\n') text += '\n';
  text += "\n" + to_toml(key);
  return write_new(path, text, 0644, /*replace=*/true);
}

}  // namespace emplace
