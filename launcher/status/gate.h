#pragma once
/// Access to the status port.

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/status/http.h"

namespace emplace::launcher {

/// ADDRESS:PORT of the status port.
struct StatusAddress {
  std::string address;  ///< An IP address, as a number.
  std::uint16_t port = 0;
  bool loopback = true;  ///< Only this machine can reach it.
};

/// Parses "127.0.0.1:9090", "localhost:9090", "[::1]:9090", ":9090" (loopback) or "0.0.0.0:0". Errors
/// (kInvalid): it is no IP address with a port.
Result<StatusAddress> parse_status_address(const std::string& text);

/// Reads the token of the port from a file: one line of 16 to 256 printable characters without spaces.
/// Errors: kIo; kInvalid if other users can read the file, or the token is malformed. No error shows the
/// token.
Result<std::string> load_status_token(const std::filesystem::path& file);

/// Decides about each request, from the token and the names that the port is known by. Pure; any thread.
///  - The Host header must be an IP address, localhost or one of `hosts`: a page of another site that points
///  its
///    own name at this machine (DNS rebinding) is refused.
///  - With a token, the request must carry it: `Authorization: Bearer TOKEN`, or the cookie that login()
///  gives a
///    browser. Comparisons take the same time for every input.
class Gate {
 public:
  enum class Answer : std::uint8_t { kOpen, kUnknownHost, kNoToken };

  /// `token`: empty if none is needed.
  Gate(std::string token, std::vector<std::string> hosts);

  Answer check(const HttpRequest& request) const;
  /// Returns the Set-Cookie header of a browser that has sent this token; empty if it is wrong.
  std::string login(std::string_view token) const;

 private:
  bool known_host(std::string_view host) const;
  bool same(std::string_view a, std::string_view b) const;

  const std::string token_;
  const std::vector<std::string> hosts_;
  const std::string cookie_;  ///< Value of the cookie, made from the token; it does not reveal the token.
};

}  // namespace emplace::launcher
