#pragma once
/// The options of the status port.

#include <memory>
#include <string>
#include <vector>

#include "launcher/status/status_port.h"
#include "launcher/terminal/console.h"
#include "launcher/terminal/options.h"

namespace emplace::launcher {

struct StatusOptions {
  std::string address, token;
  std::vector<std::string> hosts;

  /// `names`, `help`: of the option for the address, e.g. "--status".
  void declare(Options& options, const char* names, const char* help) {
    options.non_empty(names, address, help)
        .non_empty(
            "--status-token", token,
            "File with the token that clients of the status port must send (mode 0600; required unless "
            "ADDRESS is loopback)")
        .option("--status-host", hosts,
                "Further names by which clients reach the status port, e.g. trainer.example.org");
  }
  /// Opens the port; null if no address is given, or with a warning if it cannot be bound. Errors (kInvalid,
  /// kIo): a malformed address; no token beyond loopback; a token file that others can read.
  Result<std::unique_ptr<StatusPort>> open(Console& console) const;
};

}  // namespace emplace::launcher
