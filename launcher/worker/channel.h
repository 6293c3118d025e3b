#pragma once
/// Messages over a stream socket between a parent and its executor process. Each is a record as nodes have it
/// (runtime/zmq/frame.h): [u32 envelope, u32 body, u32 bulk sizes] envelope body bulk, little-endian.

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "messages/codec.h"
#include "messages/envelope.h"

namespace emplace::launcher {

/// Thread: one that sends and one that takes, which may be two.
class Channel {
 public:
  struct Received {
    std::uint16_t type = 0;
    messages::Bytes body;
    messages::Bytes bulk;

    /// Errors (kInvalid): another type, or no such message.
    template <messages::HasFields M>
    Result<M> as() const {
      if (type != M::kType) return invalid("message", "type " + std::to_string(type) + " was not expected");
      return messages::decode_body<M>(body);
    }
  };

  /// Takes over a connected socket, which becomes non-blocking.
  explicit Channel(int fd);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  template <messages::HasFields M>
  void send(const M& message, std::span<const std::byte> bulk = {}) {
    queue(M::kType, messages::encode_body(message), bulk);
  }
  /// Writes what can be written without waiting. False: the other side is gone.
  bool flush();
  bool flushed() const { return written_ == out_.size(); }
  /// The next message, if one is whole. Errors: kPeerLost, the other side is gone and nothing is left;
  /// kInvalid, what came is no message.
  Result<std::optional<Received>> take();
  int fd() const { return fd_; }

 private:
  void queue(std::uint16_t type, const messages::Bytes& body, std::span<const std::byte> bulk);
  Result<std::optional<Received>> next();

  const int fd_;
  messages::Bytes out_, in_;
  std::size_t written_ = 0, taken_ = 0;
  bool ended_ = false;
};

}  // namespace emplace::launcher
