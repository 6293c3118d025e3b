#pragma once
/// Loops of a node that have a thread each.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/zmq/loops/own_loop.h"

namespace emplace::runtime {

/// Thread: the I/O loop.
class OwnLoops {
 public:
  OwnLoop& add(std::shared_ptr<OwnLoop> loop);
  /// Starts every thread. Returns the first error if the machine refused a thread; such loops count as ended,
  /// so that the others can still end in order.
  std::optional<Error> start();
  /// Joins the threads that have finished. A thread stuck in a handler is detached and keeps its resources
  /// until the process ends; the error (kDeadline) names the first such thread.
  std::optional<Error> join();

  void add_to(Waiter& waiter);
  void flush();
  void announce(const std::string& actor, bool reachable);
  void stop_actors();  ///< Each answers LoopDone.
  void finish();       ///< Each answers LoopDone with `finish`.
  bool stopped() const;
  bool finished() const;
  /// Loop whose handler has run for longer than `limit`; null if none.
  const OwnLoop* hung(Nanos now, Nanos limit) const;

  const std::vector<std::shared_ptr<OwnLoop>>& all() const { return loops_; }

 private:
  std::vector<std::shared_ptr<OwnLoop>> loops_;
};

}  // namespace emplace::runtime
