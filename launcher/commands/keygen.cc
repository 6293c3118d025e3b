#include <sys/stat.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/keys.h"
#include "base/text/words.h"
#include "launcher/commands/commands.h"
#include "launcher/settings/json_text.h"

namespace emplace::launcher {
namespace {

class Keygen final : public Command {
 public:
  std::string_view name() const override { return "keygen"; }
  std::string_view summary() const override { return "Makes a key pair for encrypted links, and lets it in"; }
  void declare(Options& options) override {
    options.optional_operand("DIR", folder_, "Where keys are kept: NAME.key and NAME.pub, allowed.toml")
        .option("--name,-n", name_, "What logs and the allow-list call it; default: the role, or head")
        .option("--role,-r", roles_, "executor, actor, operator; none for a head")
        .option("-o,--output", output_, "The key file; default DIR/NAME.key")
        .option("--allow,-a", allow_,
                "Allow-list to add it to; default DIR/allowed.toml where a role is given")
        .option("--head", head_, "The head's .pub, written into the key so that it finds its head")
        .flag("--force", force_, "Replace a key of that name");
  }
  Result<ExitStatus> run(Console& console) override {
    EMPLACE_TRY_ASSIGN(const auto roles, read_roles());
    if (roles.empty() && !allow_.empty())
      return invalid("emplace keygen", "a key without a role opens nothing", "give one: --role executor");
    KeyPair keys = make_key_pair(!name_.empty() ? name_ : roles_.empty() ? "head" : roles_.front());
    EMPLACE_TRY_ASSIGN(const auto places, choose_places(keys.name, roles));
    EMPLACE_TRY_ASSIGN(keys.head, find_head(roles));
    const AllowedKey entry{keys.name, keys.public_key, roles};
    EMPLACE_TRY(save_key_pair(places.key, keys, force_));
    if (!places.allow.empty()) {
      const auto added = add_to_allow_list(places.allow, entry, force_);
      if (!added && !force_) remove_key_pair(places.key);  // All of it or nothing.
      if (!added) return added.error();
    }
    say(console, places, entry, keys);
    return ExitStatus::kDone;
  }

 private:
  struct Places {
    std::filesystem::path key, allow;  // No `allow`: to no list.
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
      return Error{Errc::kIo, printable_path(folder) + ": cannot be made (" + failure.message() + ")"};
    Places places{output_.empty() ? folder / (key_name + ".key") : std::filesystem::path{output_}, allow_};
    if (allow_.empty() && !folder_.empty() && !roles.empty()) places.allow = folder / "allowed.toml";
    return places;
  }

  /// A head has none; the others take the one that is asked for, or that lies in the same folder.
  Result<std::string> find_head(Roles roles) const {
    if (!head_.empty()) return load_public_key(head_);
    const std::filesystem::path near = std::filesystem::path{folder_} / "head.pub";
    if (roles.empty() || folder_.empty() || !std::filesystem::exists(near)) return std::string{};
    return load_public_key(near);
  }

  static void say(Console& console, const Places& places, const AllowedKey& entry, const KeyPair& keys) {
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
      text += "let in  by " + printable_path(places.allow) + " as " + to_text(entry.roles) + "\n";
    } else if (!entry.roles.empty()) {
      text += "To let it in, add to the head's allow-list:\n\n" + to_toml(entry);
    }
    if (!entry.roles.empty() && keys.head.empty())
      text += "It knows no head yet: --head FILE, or give the head's .pub where it is used\n";
    console.print(text);
  }

  std::string folder_, name_, output_, allow_, head_;
  std::vector<std::string> roles_;
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Command> make_keygen() { return std::make_unique<Keygen>(); }

}  // namespace emplace::launcher
