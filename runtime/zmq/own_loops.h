#pragma once
/// The loops of a node that have a thread each.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/zmq/own_loop.h"

namespace emplace::runtime {

/// Thread: the I/O loop.
class OwnLoops {
 public:
  OwnLoop& add(std::shared_ptr<OwnLoop> loop);
  /// Starts every thread. The error is the first of those that the machine had no thread for: these count as
  /// ended, so that the others can end in order before what they use does.
  std::optional<Error> start();
  /// Waits for the threads that have said their last word; one that hangs in a handler keeps what it uses and
  /// ends with the process. The error (kDeadline) names the first of those.
  std::optional<Error> join();

  void add_to(Waiter& waiter);
  void flush();
  void announce(const std::string& actor, bool reachable);
  void stop_actors();  ///< Each answers LoopDone.
  void finish();       ///< Each answers LoopDone with `finish`.
  bool stopped() const;
  bool finished() const;
  /// A loop whose handler has run for longer than `limit`; null: none.
  const OwnLoop* hung(Nanos now, Nanos limit) const;

  const std::vector<std::shared_ptr<OwnLoop>>& all() const { return loops_; }

 private:
  std::vector<std::shared_ptr<OwnLoop>> loops_;
};

}  // namespace emplace::runtime
