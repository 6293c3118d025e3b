#include "launcher/worker/channel.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace emplace::launcher {
namespace {

constexpr std::size_t kHead = 12;
constexpr std::uint64_t kMaxBytes = std::uint64_t{2} << 30;  // Largest message.
constexpr std::size_t kReadBytes = std::size_t{256} << 10;

}  // namespace

Channel::Channel(int fd) : fd_{fd} { ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) | O_NONBLOCK); }
Channel::~Channel() { ::close(fd_); }

void Channel::queue(std::uint16_t type, const messages::Bytes& body, std::span<const std::byte> bulk) {
  std::array<std::byte, kHead + messages::kMaxEnvelopeBytes> head;
  const std::size_t envelope = messages::encode_envelope({.type = type}, head.data() + kHead);
  const std::array sizes{static_cast<std::uint32_t>(envelope), static_cast<std::uint32_t>(body.size()),
                         static_cast<std::uint32_t>(bulk.size())};
  std::memcpy(head.data(), sizes.data(), kHead);
  out_.insert(out_.end(), head.begin(), head.begin() + static_cast<std::ptrdiff_t>(kHead + envelope));
  out_.insert(out_.end(), body.begin(), body.end());
  out_.insert(out_.end(), bulk.begin(), bulk.end());
}

bool Channel::flush() {
  while (!flushed()) {
    const ssize_t sent = ::send(fd_, out_.data() + written_, out_.size() - written_, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    written_ += static_cast<std::size_t>(sent);
  }
  out_.clear();
  written_ = 0;
  return true;
}

Result<std::optional<Channel::Received>> Channel::take() {
  while (true) {
    auto message = next();
    if (!message || *message) return message;
    if (ended_) return Error{Errc::kPeerLost, "the other side is gone"};
    in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(std::exchange(taken_, 0)));
    const std::size_t had = in_.size();
    in_.resize(had + kReadBytes);
    const ssize_t got = ::recv(fd_, in_.data() + had, kReadBytes, 0);
    in_.resize(had + (got > 0 ? static_cast<std::size_t>(got) : 0));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::optional<Received>{};
    if (got <= 0) ended_ = true;
  }
}

/// Returns the next complete message of the receive buffer.
Result<std::optional<Channel::Received>> Channel::next() {
  const auto rest = std::span{in_}.subspan(taken_);
  if (rest.size() < kHead) return std::optional<Received>{};
  std::array<std::uint32_t, 3> sizes;
  std::memcpy(sizes.data(), rest.data(), kHead);
  const std::uint64_t total = std::uint64_t{sizes[0]} + sizes[1] + sizes[2];
  if (total > kMaxBytes || sizes[0] > messages::kMaxEnvelopeBytes)
    return invalid("executor process", "sent malformed data");
  if (rest.size() - kHead < total) return std::optional<Received>{};
  const auto envelope = messages::decode_envelope(rest.subspan(kHead, sizes[0]));
  if (!envelope) return envelope.error();
  const auto body = rest.subspan(kHead + sizes[0], sizes[1]),
             bulk = rest.subspan(kHead + sizes[0] + sizes[1], sizes[2]);
  taken_ += kHead + total;
  return std::optional{Received{envelope->type, {body.begin(), body.end()}, {bulk.begin(), bulk.end()}}};
}

}  // namespace emplace::launcher
