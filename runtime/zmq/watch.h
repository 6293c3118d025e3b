#pragma once
/// Waiting for sockets with one system call. zmq_poll looks twice and asks every socket both times; between a
/// message and its answer that is what a round trip pays. ZMQ_FD is edge-triggered, and both send and recv
/// eat its edges: a socket that was used since it was last asked must be asked (ZMQ_EVENTS) before its
/// descriptor is trusted.

#include <poll.h>

#include <chrono>
#include <vector>

#include <zmq.hpp>

namespace emplace::runtime {

/// What a loop knows about one of its sockets.
struct Watch {
  bool used = true;       ///< Sent to or received from since it was last asked.
  bool blocked = false;   ///< Something waits to be sent.
  bool readable = false;  ///< Try to receive: set by wait().
};

/// Thread: the loop that owns the sockets.
class Waiter {
 public:
  void clear() {
    polls_.clear();
    watches_.clear();
    pending_ = false;
  }
  /// A plain descriptor; its readability is the return value of wait(). At most one, first.
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
  /// Returns when something may be done, at the latest after `longest`.
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
