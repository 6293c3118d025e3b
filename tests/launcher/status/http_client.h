#pragma once
/// A client of the status port, over a real socket and without an HTTP library.

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>

namespace emplace::launcher {

/// Reads wait up to kPatience for the server; it answers at once, so only a failure takes that long.
class HttpClient {
 public:
  static constexpr std::chrono::seconds kPatience{20};

  /// `endpoint`: "127.0.0.1:9090".
  explicit HttpClient(const std::string& endpoint, int receive_buffer = 0)
      : fd_{::socket(AF_INET, SOCK_STREAM, 0)} {
    const std::size_t colon = endpoint.find(':');
    if (receive_buffer > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(colon + 1))));
    ::inet_pton(AF_INET, endpoint.substr(0, colon).c_str(), &to.sin_addr);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  ~HttpClient() { ::close(fd_); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  bool connected() const { return connected_; }

  bool send(const std::string& text) {
    return ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  /// Reads until `text` has arrived, and returns everything up to its end; what follows stays.
  /// Returns all that was received if the server closes first.
  std::string read_until(const std::string& text) {
    std::size_t at = 0;
    while ((at = seen_.find(text)) == std::string::npos)
      if (!more()) return std::exchange(seen_, {});
    std::string found = seen_.substr(0, at + text.size());
    seen_.erase(0, at + text.size());
    return found;
  }
  std::string read_to_end() {
    while (more()) {
    }
    return std::exchange(seen_, {});
  }
  /// Reads one reply with a Content-Length: its head and its body.
  std::pair<std::string, std::string> read_reply() {
    std::string head = read_until("\r\n\r\n");
    const std::size_t at = head.find("Content-Length: ");
    const std::size_t size = at == std::string::npos ? 0 : std::stoul(head.substr(at + 16));
    while (seen_.size() < size && more()) {
    }
    std::string body = seen_.substr(0, size);
    seen_.erase(0, body.size());
    return {std::move(head), std::move(body)};
  }
  std::pair<std::string, std::string> get(const std::string& path, const std::string& headers = "") {
    send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
    return read_reply();
  }
  /// Whether the server has closed the connection; waits for it.
  bool closed() {
    while (more()) {
    }
    return ended_;
  }

 private:
  bool more() {
    if (ended_) return false;
    pollfd waiting{fd_, POLLIN, 0};
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(kPatience).count();
    if (::poll(&waiting, 1, static_cast<int>(ms)) <= 0) return false;
    char piece[16'384];
    const ssize_t size = ::recv(fd_, piece, sizeof piece, 0);
    if (size <= 0) {
      ended_ = true;
      return false;
    }
    seen_.append(piece, static_cast<std::size_t>(size));
    return true;
  }

  const int fd_;
  bool connected_ = false, ended_ = false;
  std::string seen_;
};

}  // namespace emplace::launcher
