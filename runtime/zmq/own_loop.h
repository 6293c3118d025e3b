#pragma once
/// A thread with an actor of its own, joined to the I/O loop by an inproc pair.

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <zmq.hpp>

#include "base/clock.h"
#include "runtime/node.h"
#include "runtime/zmq/actor_host.h"
#include "runtime/zmq/counters.h"
#include "runtime/zmq/link.h"
#include "runtime/zmq/link_messages.h"
#include "runtime/zmq/shared.h"
#include "runtime/zmq/watch.h"

namespace emplace::runtime {

/// Thread: the I/O loop, but for run(), which is the thread's own.
class OwnLoop {
 public:
  OwnLoop(std::shared_ptr<Shared> shared, std::size_t index, std::string name, ActorFactory factory,
          std::shared_ptr<ActorTelemetry> telemetry);

  /// Before start(): what its actor does is noted.
  void trace_to(std::unique_ptr<TraceRing> ring) { host_.trace_to(std::move(ring)); }
  /// Starts the thread. It keeps `self` alive.
  static void start(const std::shared_ptr<OwnLoop>& self);
  /// Nothing if it was never started.
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  /// Gives up on a thread that hangs.
  void detach() { thread_.detach(); }

  zmq::socket_t& socket() { return io_side_; }
  Link& link() { return link_; }
  const std::string& name() const { return name_; }
  ActorTelemetry& telemetry() { return *telemetry_; }
  Nanos handler_began() const { return host_.handler_began(); }

  bool stopped = false;   ///< Its actors have been told to stop, and all they said then is here.
  bool finished = false;  ///< Its thread ends.
  Watch watch;            ///< Of its socket here.
  Intake intake;          ///< Of its messages to the I/O loop.

 private:
  void run();
  void on_message(const Incoming& incoming);
  void report();
  template <class M>
  void tell(const M& message);

  std::shared_ptr<Shared> shared_;
  std::string name_;
  std::shared_ptr<ActorTelemetry> telemetry_;
  std::string endpoint_;
  zmq::socket_t io_side_;
  Link link_;  // Towards the loop.

  // The thread's own; the socket is closed after join(), so that its last words are read.
  zmq::socket_t loop_side_;
  Link up_;
  ActorHost host_;
  bool ending_ = false;
  bool failure_told_ = false;
  std::thread thread_;
};

/// How long a poll may wait: 0 if `busy`, else until `next` (rounded up to 1 ms), at most `longest`.
std::chrono::milliseconds poll_timeout(Nanos now, bool busy, std::optional<Nanos> next,
                                       std::chrono::milliseconds longest);

}  // namespace emplace::runtime
