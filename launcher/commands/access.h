#pragma once
/// How `join`, `ps` and `down` address the head and authenticate.

#include <filesystem>
#include <string>

#include "base/keys.h"
#include "launcher/cluster/endpoint.h"
#include "launcher/cluster/operator/operator.h"
#include "launcher/terminal/command.h"
#include "launcher/terminal/options.h"

namespace emplace::launcher {

/// The operand ADDRESS with --key and --insecure, as given on the command line.
struct AccessOptions {
  std::string address, key;
  bool insecure = false;

  void declare(Options& options) {
    options
        .operand("ADDRESS", address,
                 "Address of the head, tcp://HOST:PORT, or the directory of a run on this machine")
        .option("--key,-k", key, "Your key file, for an encrypted head; emplace keygen makes one")
        .flag("--insecure", insecure, "Connect without encryption; the head must allow it too");
  }
  /// Errors (kInvalid): no address; a tcp address with neither --key nor --insecure; both options.
  Result<HeadAccess> access() const {
    EMPLACE_TRY_ASSIGN(auto endpoint, head_endpoint(address));
    if (!key.empty() && insecure) return invalid("--insecure", "conflicts with --key", "remove one of them");
    if (endpoint.starts_with("tcp://") && key.empty() && !insecure)
      return invalid(endpoint, "neither --key nor --insecure is given",
                     "give your key file (emplace keygen makes one), or --insecure");
    if (key.empty()) return HeadAccess{std::move(endpoint), {}, insecure};
    EMPLACE_TRY_ASSIGN(const auto pair, load_key_pair(key));
    // Without a head key in the pair, `key` is the head's own, shared by all: its .pub is beside it.
    const std::filesystem::path pub = std::filesystem::path{key}.replace_extension(".pub");
    const bool shared = pair.head.empty() && std::filesystem::exists(pub);
    return HeadAccess{std::move(endpoint), {key, shared ? pub.string() : "", {}}, insecure};
  }
};

/// Returns 0, or 129 / 130 / 143 after a clean stop by a signal.
inline ExitStatus after_signal(int signal) {
  return signal == 0 ? ExitStatus::kDone : static_cast<ExitStatus>(128 + signal);
}

}  // namespace emplace::launcher
