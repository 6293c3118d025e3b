#include "launcher/commands/status_options.h"

namespace emplace::launcher {

Result<std::unique_ptr<StatusPort>> StatusOptions::open(Console& console) const {
  if (address.empty()) {
    if (!token.empty() || !hosts.empty())
      return invalid(token.empty() ? "--status-host" : "--status-token", "is only for a status port",
                     "add e.g. --status 127.0.0.1:9090");
    return std::unique_ptr<StatusPort>{};
  }
  StatusPortOptions options;
  EMPLACE_TRY_ASSIGN(options.address, parse_status_address(address));
  if (!token.empty()) {
    EMPLACE_TRY_ASSIGN(options.token, load_status_token(token));
  }
  if (token.empty() && !options.address.loopback)
    return invalid(address, "other machines can reach it", "give --status-token FILE, or use 127.0.0.1");
  options.hosts = hosts;
  auto port = StatusPort::open(options);
  if (!port) {
    // A run is worth more than its page.
    console.warn("no status port: " + port.error().context);
    return std::unique_ptr<StatusPort>{};
  }
  console.note("status " + (*port)->url());
  return port;
}

}  // namespace emplace::launcher
