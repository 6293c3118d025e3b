#pragma once
/// Waits for sockets with one system call. zmq_poll polls twice and queries every socket both times, which
/// costs a round trip its latency. ZMQ_FD is edge-triggered, and both send and recv consume edges: after
/// using a socket, query ZMQ_EVENTS before relying on its descriptor.

#include <poll.h>

#include <chrono>
#include <vector>

#include <zmq.hpp>

namespace emplace::runtime {

/// Poll state of a socket.
struct Watch {
  bool used = true;       ///< Used since ZMQ_EVENTS was last queried.
  bool blocked = false;   ///< Messages wait to be sent.
  bool readable = false;  ///< Set by wait(): try to receive.
};

/// Thread: the loop that owns the sockets.
class Waiter {
 public:
  void clear() {
    polls_.clear();
    watches_.clear();
    pending_ = false;
  }
  /// Plain descriptor, reported by the return value of wait(). At most one, added first.
  void add(int descriptor) { polls_.push_back({descriptor, POLLIN, 0}); }
  void add(zmq::socket_t& socket, Watch& watch) {
    watch.readable = false;
    if (watch.used) {
      const int events = socket.get(zmq::sockopt::events);
      watch.readable = (events & ZMQ_POLLIN) != 0 || (watch.blocked && (events & ZMQ_POLLOUT) != 0);
      watch.used = watch.readable;
      pending_ |= watch.readable;
    }
    polls_.push_back({socket.get(zmq::sockopt::fd), POLLIN, 0});
    watches_.push_back(&watch);
  }
  /// Waits until something is ready, at most `longest`. Returns whether the plain descriptor is readable.
  bool wait(std::chrono::milliseconds longest) {
    ::poll(polls_.data(), polls_.size(), pending_ ? 0 : static_cast<int>(longest.count()));
    const std::size_t plain = polls_.size() - watches_.size();
    for (std::size_t i = 0; i < watches_.size(); ++i)
      if ((polls_[plain + i].revents & POLLIN) != 0) watches_[i]->readable = watches_[i]->used = true;
    return plain > 0 && (polls_[0].revents & POLLIN) != 0;
  }

 private:
  std::vector<pollfd> polls_;
  std::vector<Watch*> watches_;
  bool pending_ = false;
};

}  // namespace emplace::runtime
