#pragma once
/// How `join`, `ps` and `down` name the head and prove who they are.

#include <filesystem>
#include <string>

#include "base/keys.h"
#include "launcher/cluster/operator.h"
#include "launcher/command.h"
#include "launcher/options.h"

namespace emplace::launcher {

/// The operand ADDRESS with --key and --insecure, as they were typed.
struct AccessOptions {
  std::string address, key;
  bool insecure = false;

  void declare(Options& options) {
    options
        .operand("ADDRESS", address, "The head's tcp://HOST:PORT, or the directory of a run on this machine")
        .option("--key,-k", key, "Your key file (emplace keygen), for an encrypted head")
        .flag("--insecure", insecure, "Talk in the open; the head must allow it too");
  }
  /// Errors (kInvalid): no address; tcp with neither of the two; both.
  Result<HeadAccess> access() const {
    EMPLACE_TRY_ASSIGN(auto endpoint, head_endpoint(address));
    if (!key.empty() && insecure) return invalid("--insecure", "and --key are both given", "leave one out");
    if (endpoint.starts_with("tcp://") && key.empty() && !insecure)
      return invalid(endpoint, "neither --key nor --insecure is given",
                     "name your key file (emplace keygen makes one), or allow the open");
    if (key.empty()) return HeadAccess{std::move(endpoint), {}, insecure};
    EMPLACE_TRY_ASSIGN(const auto pair, load_key_pair(key));
    // One key for everybody, the head's: then it is its own.
    const std::filesystem::path pub = std::filesystem::path{key}.replace_extension(".pub");
    const bool shared = pair.head.empty() && std::filesystem::exists(pub);
    return HeadAccess{std::move(endpoint), {key, shared ? pub.string() : "", {}}, insecure};
  }
};

/// 0, or 129 / 130 / 143 after a clean end by a signal.
inline ExitStatus after_signal(int signal) {
  return signal == 0 ? ExitStatus::kDone : static_cast<ExitStatus>(128 + signal);
}

}  // namespace emplace::launcher
