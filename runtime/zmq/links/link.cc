#include "runtime/zmq/links/link.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "runtime/frame.h"
#include "runtime/zmq/sockets/handover.h"

namespace emplace::runtime {
namespace {

constexpr std::size_t kCopyBelow = 4096;  // A smaller batch is cheaper to copy than to pass by reference.

/// Buffer of a batch in flight; returns to the pool when freed.
struct Block {
  Block(messages::Bytes block, std::shared_ptr<BlockPool> from)
      : bytes{std::move(block)}, pool{std::move(from)} {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { pool->give(std::move(bytes)); }
  messages::Bytes bytes;
  std::shared_ptr<BlockPool> pool;
};

/// ZeroMQ message over memory kept alive by `Owner`, which is freed by the last thread.
template <class Owner>
zmq::message_t lend(Owner owner, std::span<const std::byte> bytes) {
  auto* kept = new Owner{std::move(owner)};
  hand_over(kept);
  return {const_cast<std::byte*>(bytes.data()), bytes.size(),
          [](void*, void* hint) {
            take_over(hint);
            delete static_cast<Owner*>(hint);
          },
          kept};
}

}  // namespace

messages::Bytes BlockPool::take(std::size_t capacity) {
  messages::Bytes block;
  {
    const MutexLock lock{mutex_};
    if (!blocks_.empty()) {
      block = std::move(blocks_.back());
      blocks_.pop_back();
    }
  }
  block.clear();
  block.reserve(capacity);
  return block;
}

void BlockPool::give(messages::Bytes block) {
  const MutexLock lock{mutex_};
  if (blocks_.size() < kKept) blocks_.push_back(std::move(block));
}

bool Link::push(messages::Envelope envelope, std::span<const std::byte> body,
                const messages::SharedBytes& bulk) {
  if (messages::keeps_latest_only(envelope.type)) return keep_latest(envelope, body, bulk);
  // An empty queue accepts any message, so that one above the limit can still be sent.
  const std::size_t size = body.size() + bulk.size();
  if (items_ >= limits_.items || (items_ > 0 && bytes_ + size > limits_.bytes)) {
    count(counters_->refused);
    return false;
  }
  append(envelope, body, bulk);
  return true;
}

bool Link::keep_latest(const messages::Envelope& envelope, std::span<const std::byte> body,
                       const messages::SharedBytes& bulk) {
  Latest next{envelope, messages::Bytes(body.begin(), body.end()), bulk};
  const auto older = std::find_if(latest_.begin(), latest_.end(), [&](const Latest& l) {
    return l.envelope.type == envelope.type && l.envelope.from == envelope.from &&
           l.envelope.to == envelope.to;
  });
  if (older != latest_.end()) {
    *older = std::move(next);
    count(counters_->replaced);
    return true;
  }
  if (latest_.size() >= limits_.items) {
    count(counters_->refused);
    return false;
  }
  latest_.push_back(std::move(next));
  return true;
}

void Link::append(messages::Envelope envelope, std::span<const std::byte> body,
                  const messages::SharedBytes& bulk) {
  envelope.seq = 0;
  const bool between_nodes_only = envelope.type >= messages::kFirstRuntimeType;
  if (!between_nodes_only) {
    if (numbered_) envelope.seq = next_seq_;
    ++next_seq_;
    ++items_;
  }
  bytes_ += body.size() + bulk.size();
  if (bulk.size() >= kZeroCopyBytes || body.size() >= kZeroCopyBytes)
    return append_large(envelope, body, bulk);
  const std::size_t record = kRecordHeaderBytes + messages::kMaxEnvelopeBytes + body.size() + bulk.size();
  if (open_messages_ > 0 && open_.size() + record > limits_.batch_bytes) seal();
  append_record(envelope, body, bulk.bytes(), open_);
  ++open_messages_;
  open_numbered_ += between_nodes_only ? 0 : 1;
  open_payload_ += body.size() + bulk.size();
}

void Link::append_large(const messages::Envelope& envelope, std::span<const std::byte> body,
                        const messages::SharedBytes& bulk) {
  if (open_messages_ > 0) seal();
  std::array<std::byte, messages::kMaxEnvelopeBytes> head;
  const std::size_t head_bytes = messages::encode_envelope(envelope, head.data());
  Sealed& sealed = queue_.emplace_back();
  sealed.parts[0] = zmq::message_t{head.data(), head_bytes};
  sealed.parts[1] = zmq::message_t{body.data(), body.size()};
  sealed.parts[2] = bulk.empty() ? zmq::message_t{} : lend(bulk, bulk.bytes());
  sealed.num_parts = 3;
  sealed.messages = envelope.type < messages::kFirstRuntimeType ? 1 : 0;  // Same rule as in append().
  sealed.bytes = body.size() + bulk.size();
}

void Link::seal() {
  Sealed& sealed = queue_.emplace_back();
  if (open_.size() < kCopyBelow) {
    sealed.parts[0] = zmq::message_t{open_.data(), open_.size()};
    open_.clear();
  } else {
    auto block = std::make_unique<Block>(std::move(open_), pool_);
    const std::span<const std::byte> bytes{block->bytes};
    sealed.parts[0] = lend(std::move(block), bytes);
    open_ = pool_->take(limits_.batch_bytes);
  }
  sealed.num_parts = 1;
  sealed.messages = std::exchange(open_numbered_, 0);
  sealed.bytes = std::exchange(open_payload_, 0);
  open_messages_ = 0;
}

Link::Flush Link::flush(zmq::socket_t& socket, std::string_view routing_id) {
  while (true) {
    if (queue_.empty()) {
      if (open_messages_ == 0) {
        for (const Latest& latest : std::exchange(latest_, {}))
          append(latest.envelope, latest.body, latest.bulk);
      }
      if (open_messages_ > 0) seal();
      if (queue_.empty()) return Flush::kDone;
    }
    const Flush outcome = send(socket, routing_id, queue_.front());
    if (outcome != Flush::kDone) return outcome;
    count(counters_->frames_sent);
    count(counters_->sent, queue_.front().messages);
    items_ -= queue_.front().messages;
    bytes_ -= queue_.front().bytes;
    queue_.pop_front();
  }
}

Link::Flush Link::send(zmq::socket_t& socket, std::string_view routing_id, Sealed& sealed) {
  void* const handle = socket.handle();
  const auto refused = [] { return zmq_errno() == EAGAIN ? Flush::kBlocked : Flush::kUnreachable; };
  if (!routing_id.empty() &&
      zmq_send(handle, routing_id.data(), routing_id.size(), ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0)
    return refused();
  for (std::size_t i = 0; i < sealed.num_parts; ++i) {
    hand_over(sealed.parts[i].data());
    const int more = i + 1 < sealed.num_parts ? ZMQ_SNDMORE : 0;
    // After the first part ZeroMQ accepts the rest, unless the peer vanishes: then the whole message is void.
    if (zmq_msg_send(sealed.parts[i].handle(), handle, ZMQ_DONTWAIT | more) < 0)
      return i == 0 && routing_id.empty() ? refused() : Flush::kUnreachable;
  }
  return Flush::kDone;
}

std::size_t Link::clear() {
  const std::size_t dropped = waiting();
  queue_.clear();
  latest_.clear();
  open_.clear();
  open_messages_ = open_numbered_ = open_payload_ = items_ = bytes_ = 0;
  return dropped;
}

bool receive(zmq::socket_t& socket, std::string* routing_id, Received& received) {
  received.num_parts = 0;
  zmq::message_t part;
  if (zmq_msg_recv(part.handle(), socket.handle(), ZMQ_DONTWAIT) < 0) return false;
  if (routing_id != nullptr) {
    routing_id->assign(part.data<char>(), part.size());
    if (!part.more()) return true;
    if (zmq_msg_recv(part.handle(), socket.handle(), ZMQ_DONTWAIT) < 0) return true;
  }
  while (true) {
    const bool more = part.more();
    take_over(part.data());
    if (received.num_parts < received.parts.size()) received.parts[received.num_parts] = std::move(part);
    ++received.num_parts;  // Parts beyond the third are read and dropped.
    if (!more) return true;
    part.rebuild();  // NOLINT(bugprone-use-after-move): makes a new message.
    if (zmq_msg_recv(part.handle(), socket.handle(), ZMQ_DONTWAIT) < 0) return true;
  }
}

}  // namespace emplace::runtime

#if defined(__SANITIZE_THREAD__)
/// Read by the thread sanitizer at start. libzmq is not instrumented, so its internal libc calls would look
/// like races. Memory that passes between libzmq and us is annotated and still checked.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions() {
  return "called_from_lib:libzmq.so";
}
#endif
