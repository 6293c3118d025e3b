#include "launcher/cluster/endpoint.h"

#include "base/text/words.h"

namespace emplace::launcher {

bool has_port(std::string_view endpoint, bool any) {
  const std::string_view port = endpoint.substr(endpoint.rfind(':') + 1);
  if (port == "*") return any;
  const bool digits =
      !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string_view::npos;
  const int number = digits ? std::stoi(std::string{port}) : 0;
  return number >= 1 && number <= 65'535;
}

std::filesystem::path socket_of(const std::string& endpoint) {
  return endpoint.starts_with("ipc://") ? std::filesystem::path{endpoint.substr(6)} : std::filesystem::path{};
}

Result<std::string> head_endpoint(const std::string& address) {
  const Error refused = invalid("'" + printable(address, 80) + "'", "is not the address of a head",
                                "use tcp://HOST:PORT, or the directory of a run on this machine");
  if (address.starts_with("ipc://")) return address;
  if (address.starts_with("tcp://")) return has_port(address, false) ? Result<std::string>{address} : refused;
  std::error_code ignored;
  if (std::filesystem::is_directory(address, ignored)) {
    for (const char* name : {kHeadSocket, kPrivateSocket}) {
      const std::filesystem::path socket = std::filesystem::absolute(address).lexically_normal() / name;
      if (std::filesystem::exists(socket, ignored)) return "ipc://" + socket.string();
    }
    return invalid(printable(address),
                   "no run is in progress there, it is still at its heuristics, or it has no socket",
                   "use the head's tcp://HOST:PORT, or the directory of a run in progress");
  }
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || !has_port(address, false)) return refused;
  return "tcp://" + address;
}

}  // namespace emplace::launcher
