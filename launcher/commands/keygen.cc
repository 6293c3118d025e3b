#include <sys/stat.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/keys.h"
#include "base/text/words.h"
#include "launcher/commands/commands.h"
#include "launcher/terminal/json_text.h"

namespace emplace::launcher {
namespace {

class Keygen final : public Command {
 public:
  Keygen()
      : Command{"keygen", "Make a key pair for encrypted links and allow it",
                "emplace keygen keys --role executor --name rack7"} {}
  void declare(Options& options) override {
    options.optional_operand("DIR", folder_, "Folder of the keys: NAME.key, NAME.pub and allowed.toml")
        .option("--name,-n", name_, "Name of the key in logs and the allow-list (default: the role, or head)")
        .option("--role,-r", roles_,
                "Roles of the key: executor, actor, operator (default: none, for a head)")
        .option("-o,--output", output_, "Key file to write (default: DIR/NAME.key)")
        .option("--allow,-a", allow_,
                "Allow-list to add the key to (default: DIR/allowed.toml if a role is given)")
        .option(
            "--head", head_,
            "Public key file (.pub) of the head, stored in the key file (default: DIR/head.pub if it exists "
            "and a role is given)")
        .flag("--force", force_, "Replace an existing key of this name");
  }
  Result<ExitStatus> run(Console& console) override {
    EMPLACE_TRY_ASSIGN(const auto roles, read_roles());
    if (roles.empty() && !allow_.empty())
      return invalid("emplace keygen", "--allow needs a role", "add one, e.g. --role executor");
    KeyPair keys = make_key_pair(!name_.empty() ? name_ : roles_.empty() ? "head" : roles_.front());
    EMPLACE_TRY_ASSIGN(const auto places, choose_places(keys.name, roles));
    EMPLACE_TRY_ASSIGN(keys.head, find_head(roles));
    const AllowedKey entry{keys.name, keys.public_key, roles};
    EMPLACE_TRY(save_key_pair(places.key, keys, force_));
    if (!places.allow.empty()) {
      const auto added = add_to_allow_list(places.allow, entry, force_);
      if (!added && !force_) remove_key_pair(places.key);  // Leave nothing half done.
      if (!added) return added.error();
    }
    print(console, places, entry, keys);
    return ExitStatus::kDone;
  }

 private:
  struct Places {
    std::filesystem::path key, allow;  // An empty `allow`: the key is added to no list.
  };

  Result<Roles> read_roles() const {
    Roles roles;
    for (const std::string& word : roles_) {
      EMPLACE_TRY_ASSIGN(const auto role, parse_role(word));
      roles.add(role);
    }
    return roles;
  }

  Result<Places> choose_places(const std::string& key_name, Roles roles) const {
    const std::filesystem::path folder = folder_.empty() ? "." : folder_;
    std::error_code failure;
    if (!folder_.empty() && std::filesystem::create_directories(folder, failure))
      ::chmod(folder.c_str(), 0700);
    if (failure)
      return Error{Errc::kIo, printable_path(folder) + ": cannot be created (" + failure.message() + ")"};
    Places places{output_.empty() ? folder / (key_name + ".key") : std::filesystem::path{output_}, allow_};
    if (allow_.empty() && !folder_.empty() && !roles.empty()) places.allow = folder / "allowed.toml";
    return places;
  }

  /// Returns the head's public key for a key with roles: from --head, else from head.pub in the same folder;
  /// empty for a head's own key or if there is none.
  Result<std::string> find_head(Roles roles) const {
    if (!head_.empty()) return load_public_key(head_);
    const std::filesystem::path near = std::filesystem::path{folder_} / "head.pub";
    if (roles.empty() || folder_.empty() || !std::filesystem::exists(near)) return std::string{};
    return load_public_key(near);
  }

  static void print(Console& console, const Places& places, const AllowedKey& entry, const KeyPair& keys) {
    std::filesystem::path pub = places.key;
    pub.replace_extension(".pub");
    if (console.json()) {
      Json json{{"name", entry.name},
                {"public", entry.public_key},
                {"roles", to_text(entry.roles)},
                {"key_file", places.key.string()},
                {"public_file", pub.string()}};
      if (places.allow.empty())
        json["allow_list"] = nullptr;
      else
        json["allow_list"] = places.allow.string();
      json["knows_head"] = !keys.head.empty();
      return console.print(json_text(json));
    }
    std::string text = "secret  " + printable_path(places.key) + "  (keep it: mode 0600)\npublic  " +
                       printable_path(pub) + "\n";
    if (!places.allow.empty()) {
      text += "allowed by " + printable_path(places.allow) + " as " + to_text(entry.roles) + "\n";
    } else if (!entry.roles.empty()) {
      text += "To allow this key, add to the head's allow-list:\n\n" + to_toml(entry);
    }
    if (!entry.roles.empty() && keys.head.empty())
      text += "The key file has no head key yet: use --head FILE, or give the head's .pub where it is used\n";
    console.print(text);
  }

  std::string folder_, name_, output_, allow_, head_;
  std::vector<std::string> roles_;
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Command> make_keygen() { return std::make_unique<Keygen>(); }

}  // namespace emplace::launcher
