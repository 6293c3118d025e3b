#include "launcher/status/gate.h"

#include <arpa/inet.h>
#include <sodium/utils.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/file.h"
#include "base/hash.h"
#include "base/text/case.h"
#include "base/text/words.h"

namespace emplace::launcher {
namespace {

constexpr std::string_view kCookie = "emplace";
constexpr std::size_t kShortestToken = 16, kLongestToken = 256;

std::optional<std::uint16_t> port_of(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (text.empty() || failure != std::errc{} || end != text.data() + text.size()) return {};
  return port;
}

bool is_ip(const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> parsed{};
  return ::inet_pton(AF_INET, text.c_str(), parsed.data()) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), parsed.data()) == 1;
}

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

std::vector<std::string> lower_all(std::vector<std::string> texts) {
  for (std::string& text : texts) text = lower_case(text);
  return texts;
}

/// Splits "host:port", "[v6]:port" or "host".
std::pair<std::string, std::string> host_and_port(std::string_view text) {
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return {};
    const std::string_view rest = text.substr(end + 1);
    if (!rest.empty() && rest.front() != ':') return {};
    return {std::string{text.substr(1, end - 1)}, std::string{rest.empty() ? rest : rest.substr(1)}};
  }
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {std::string{text}, {}};
  return {std::string{text.substr(0, colon)}, std::string{text.substr(colon + 1)}};
}

std::string digest_of(const std::string& text) { return sha256_hex(std::as_bytes(std::span{text})); }

}  // namespace

Result<StatusAddress> parse_status_address(const std::string& text) {
  auto [host, port] = host_and_port(text);
  const auto number = port_of(port);
  if (host.empty() && text.starts_with(':')) host = "127.0.0.1";
  if (host == "localhost") host = "127.0.0.1";
  if (!number || !is_ip(host))
    return invalid("'" + printable(text, 60) + "'", "is not ADDRESS:PORT with an IP address",
                   "use e.g. 127.0.0.1:9090, or 0.0.0.0:9090 for every network of this machine");
  return StatusAddress{host, *number, is_loopback(host)};
}

Result<std::string> load_status_token(const std::filesystem::path& file) {
  EMPLACE_TRY(check_private(file));
  EMPLACE_TRY_ASSIGN(const Bytes bytes, read_file(file, 4'096));
  std::string token;
  for (const std::byte byte : bytes) token += static_cast<char>(byte);
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  const bool printable_token =
      std::all_of(token.begin(), token.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; });
  if (!printable_token || token.size() < kShortestToken || token.size() > kLongestToken)
    return invalid(printable_path(file), "is not one line of 16 to 256 printable characters without spaces",
                   "make one with: (umask 077; openssl rand -hex 24 > FILE)");
  return token;
}

Gate::Gate(std::string token, std::vector<std::string> hosts)
    : token_{std::move(token)},
      hosts_{lower_all(std::move(hosts))},
      cookie_{token_.empty() ? std::string{} : digest_of("emplace cookie " + token_)} {}

bool Gate::known_host(std::string_view text) const {
  const auto [host, port] = host_and_port(text);
  if (host.empty() || (!port.empty() && !port_of(port))) return false;
  const std::string name = lower_case(host);
  return name == "localhost" || is_ip(name) || std::find(hosts_.begin(), hosts_.end(), name) != hosts_.end();
}

/// Compares digests, so that the time does not depend on lengths either.
bool Gate::same(std::string_view a, std::string_view b) const {
  const Sha256Digest one = sha256(std::as_bytes(std::span{a})), other = sha256(std::as_bytes(std::span{b}));
  return ::sodium_memcmp(one.data(), other.data(), one.size()) == 0;
}

Gate::Answer Gate::check(const HttpRequest& request) const {
  if (!known_host(request.host)) return Answer::kUnknownHost;
  if (token_.empty()) return Answer::kOpen;
  constexpr std::string_view kBearer = "bearer ";
  const std::string_view given = request.authorization;
  if (given.size() > kBearer.size() && lower_case(given.substr(0, kBearer.size())) == kBearer &&
      same(given.substr(kBearer.size()), token_))
    return Answer::kOpen;
  std::string_view cookies = request.cookie;
  while (!cookies.empty()) {
    std::string_view one = cookies.substr(0, cookies.find(';'));
    cookies.remove_prefix(std::min(cookies.size(), one.size() + 1));
    while (one.starts_with(' ')) one.remove_prefix(1);
    if (one.starts_with(kCookie) && one.substr(kCookie.size()).starts_with('=') &&
        same(one.substr(kCookie.size() + 1), cookie_))
      return Answer::kOpen;
  }
  return Answer::kNoToken;
}

std::string Gate::login(std::string_view token) const {
  if (token_.empty() || !same(token, token_)) return {};
  return std::string{kCookie} + "=" + cookie_ + "; Path=/; HttpOnly; SameSite=Strict";
}

}  // namespace emplace::launcher
