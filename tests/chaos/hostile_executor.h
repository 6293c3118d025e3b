#pragma once
/// Hostile executors, as anyone with an executor's key may run them. They join a real head over tcp with such
/// a key and send messages that no honest executor sends.

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "messages/executor_control.h"
#include "messages/placement_measured.h"
#include "messages/placement_proposed.h"
#include "runtime/context.h"
#include "runtime/node.h"

namespace emplace::testing {

class HostileExecutor;

/// One hostile behaviour. Members that are not set act as an honest executor.
struct Misbehaviour {
  std::string name;
  /// Changes its ExecutorJoined.
  std::function<void(messages::ExecutorJoined&)> join = nullptr;
  /// Answers a lease; `honest` is the answer of a slow and honest executor.
  std::function<void(HostileExecutor&, runtime::Context&, const messages::LeaseGranted&,
                     messages::PlacementMeasured honest)>
      answer = nullptr;
  /// Replaces a heartbeat, five times a second.
  std::function<void(HostileExecutor&, runtime::Context&)> beat = nullptr;
  bool is_given_work = true;  ///< False: the dispatcher never gives it work.
};

/// All misbehaviours.
const std::vector<Misbehaviour>& misbehaviours();

/// Joins, sends heartbeats and answers; `acts` counts its actions. Thread: as every actor.
class HostileExecutor final : public runtime::Actor {
 public:
  HostileExecutor(const Misbehaviour* how, std::string graph_sha256, std::atomic<std::uint64_t>* acts)
      : how_{how}, graph_{std::move(graph_sha256)}, acts_{acts} {}
  void on_start(runtime::Context& context) override;
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;

  void join(runtime::Context& context, std::uint64_t epoch);
  void beat(runtime::Context& context, std::vector<std::uint64_t> leases);
  std::uint64_t epoch() const { return epoch_; }
  const std::vector<std::uint64_t>& held() const { return held_; }

 private:
  void tick(runtime::Context& context);
  void work(runtime::Context& context);

  const Misbehaviour* const how_;
  const std::string graph_;
  std::atomic<std::uint64_t>* const acts_;
  std::uint64_t epoch_ = 0;
  std::vector<std::uint64_t> held_;             ///< All leases that it ever got.
  std::deque<messages::LeaseGranted> waiting_;  ///< Leases that wait; it works on one at a time.
};

/// A node on its own thread, with one executor per misbehaviour. Thread: one.
class HostileNode {
 public:
  /// Dials the head with this key file. `number`: the number in the name of its first executor.
  HostileNode(const std::string& head, const std::string& key_file, const std::string& graph_sha256,
              std::vector<const Misbehaviour*> ways, std::uint64_t number);
  ~HostileNode();
  HostileNode(const HostileNode&) = delete;
  HostileNode& operator=(const HostileNode&) = delete;

  /// The names of executors that have not acted yet.
  std::vector<std::string> idle() const;

 private:
  const std::vector<const Misbehaviour*> ways_;
  std::vector<std::atomic<std::uint64_t>> acts_;
  SystemClock clock_;
  std::unique_ptr<runtime::Node> node_;
  std::thread thread_;
};

}  // namespace emplace::testing
