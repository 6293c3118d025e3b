#pragma once
/// Messages over a stream socket between a parent and its executor process. Each message is a record in the
/// format that nodes use (runtime/frame.h): [u32 envelope, u32 body, u32 bulk sizes] envelope body
/// bulk, little-endian.

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "messages/codec.h"
#include "messages/envelope.h"

namespace emplace::launcher {

/// Threads: one that sends and one that receives; they may differ.
class Channel {
 public:
  struct Received {
    std::uint16_t type = 0;
    messages::Bytes body;
    messages::Bytes bulk;

    /// Decodes the message. Errors (kInvalid): another type, or a malformed body.
    template <messages::HasFields M>
    Result<M> as() const {
      if (type != M::kType) return invalid("message", "type " + std::to_string(type) + " was not expected");
      return messages::decode_body<M>(body);
    }
  };

  /// Takes ownership of a connected socket and makes it non-blocking.
  explicit Channel(int fd);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  template <messages::HasFields M>
  void send(const M& message, std::span<const std::byte> bulk = {}) {
    queue(M::kType, messages::encode_body(message), bulk);
  }
  /// Writes what it can without blocking. Returns false if the peer is gone.
  bool flush();
  bool flushed() const { return written_ == out_.size(); }
  /// Returns the next complete message, if there is one. Errors: kPeerLost if the peer is gone and nothing is
  /// left to read; kInvalid for malformed data.
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
