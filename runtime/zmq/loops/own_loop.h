#pragma once
/// Thread with an actor of its own, connected to the I/O loop by an inproc pair.

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <zmq.hpp>

#include "base/clock.h"
#include "runtime/node.h"
#include "runtime/zmq/links/link.h"
#include "runtime/zmq/links/link_messages.h"
#include "runtime/zmq/loops/actor_host.h"
#include "runtime/zmq/loops/shared.h"
#include "runtime/zmq/sockets/watch.h"

namespace emplace::runtime {

/// Thread: the I/O loop, except run().
class OwnLoop {
 public:
  OwnLoop(std::shared_ptr<Shared> shared, std::size_t index, std::string name, ActorFactory factory,
          std::shared_ptr<ActorTelemetry> telemetry);

  /// Traces its actor. Call before start().
  void trace_to(std::unique_ptr<TraceRing> ring) { host_.trace_to(std::move(ring)); }
  /// Starts the thread, which keeps `self` alive.
  static void start(const std::shared_ptr<OwnLoop>& self);
  /// Joins the thread; no effect if it was never started.
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  /// Abandons a thread that is stuck.
  void detach() { thread_.detach(); }

  /// Sends queued messages to the loop.
  void flush() {
    watch.used |= !link_.empty();
    watch.blocked = link_.flush(io_side_, {}) == Link::Flush::kBlocked;
  }

  zmq::socket_t& socket() { return io_side_; }
  Link& link() { return link_; }
  const std::string& name() const { return name_; }
  ActorTelemetry& telemetry() { return *telemetry_; }
  Nanos handler_started() const { return host_.handler_started(); }

  bool stopped = false;   ///< Its actors are stopped, and everything they sent has arrived.
  bool finished = false;  ///< Its thread is ending.
  Watch watch;            ///< Watch of the I/O loop's end of the pair.
  Intake intake;          ///< Intake of messages to the I/O loop.

 private:
  void run();
  void on_message(const Incoming& incoming);
  void report();
  template <class M>
  void notify(const M& message);

  std::shared_ptr<Shared> shared_;
  std::string name_;
  std::shared_ptr<ActorTelemetry> telemetry_;
  std::string endpoint_;
  zmq::socket_t io_side_;
  Link link_;  // Queue of messages to the loop.

  // State of the thread. The socket is closed after join(), so that its final messages are read.
  zmq::socket_t loop_side_;
  Link up_;
  ActorHost host_;
  bool ending_ = false;
  bool failure_reported_ = false;
  std::thread thread_;
};

/// The loops of a node that have a thread each.
using OwnLoops = std::vector<std::shared_ptr<OwnLoop>>;
/// Starts every thread. Returns the first error if the machine refused a thread; such loops count as ended,
/// so that the others can still end in order. Thread: the I/O loop.
std::optional<Error> start(const OwnLoops& loops);
/// Joins the threads that have finished. A thread stuck in a handler is detached and keeps its resources
/// until the process ends; the error (kDeadline) names the first such thread. Thread: the I/O loop.
std::optional<Error> join(const OwnLoops& loops);

/// Poll timeout: 0 if `busy`, else the time until `next` (rounded up to 1 ms), at most `longest`.
std::chrono::milliseconds poll_timeout(Nanos now, bool busy, std::optional<Nanos> next,
                                       std::chrono::milliseconds longest);

}  // namespace emplace::runtime
