#include "runtime/zmq/peers/parking.h"

namespace emplace::runtime {

bool Parking::add(const messages::Envelope& envelope, std::span<const std::byte> body,
                  const messages::SharedBytes& bulk, Nanos now) {
  const std::size_t size = body.size() + bulk.size();
  if (messages_.size() >= kMaxMessages || (!messages_.empty() && bytes_ + size > max_bytes_)) return false;
  bytes_ += size;
  messages_.push_back({now + timeout_, envelope, messages::Bytes(body.begin(), body.end()), bulk});
  return true;
}

Parking::Due Parking::take_due(const Routes& routes, Nanos now) {
  Due due;
  bytes_ = 0;
  for (Message& message : std::exchange(messages_, {})) {
    if (routes.find(message.envelope.to) != nullptr) {
      due.routable.push_back(std::move(message));
    } else if (now < message.until) {
      bytes_ += message.body.size() + message.bulk.size();
      messages_.push_back(std::move(message));
    } else {
      ++due.expired;
    }
  }
  return due;
}

}  // namespace emplace::runtime
