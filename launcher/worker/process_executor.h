#pragma once
/// The parent's side: an executor that runs in a child process, so that a crash cannot take the parent down.

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>

#include "base/clock.h"
#include "executor/polled_executor.h"
#include "executor/real_executor.h"
#include "graph/op_graph.h"
#include "launcher/worker/gpu_lease.h"
#include "launcher/worker/helper_process.h"
#include "messages/executor_process.h"
#include "placement/machine/device.h"
#include "runtime/core/child_supervisor.h"

namespace emplace::launcher {

struct ProcessExecutorOptions {
  std::string kind;  ///< "cpu"
  HelperCommand command;
  std::shared_ptr<GpuLease> gpus;  ///< Taken before the first start, and kept; null: leases no GPU.
  RealOptions real;
  runtime::ChildSupervisorOptions supervision;
  /// Polled while a call blocks; true ends the call with kRunFailed. May be empty.
  std::function<bool()> interrupted;
  /// Receives one line for every process that fails. May be empty.
  std::function<void(const std::string&)> note;
};

/// Starts its process on first use, and restarts it by the rules of runtime/core/child_supervisor.h. An
/// evaluation that crashed its process is retried once; then it becomes an invalid measurement with the
/// cause, which is remembered for later requests of the same placement. Errors of all calls: kPeerLost after
/// too many restarts; the error with which the process refused the graph. Thread: one.
class ProcessExecutor final : public RealExecutor, public PolledExecutor {
 public:
  /// `graph` and `devices` must outlive the executor.
  ProcessExecutor(const OpGraph& graph, const DeviceSet& devices, ProcessExecutorOptions options,
                  const Clock& clock);

  std::string_view kind() const override { return options_.kind; }
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override;
  Result<Unit> trace(std::span<const DeviceId> placement, Measurement& out, Schedule& schedule) override;
  Result<Verification> verify(std::span<const DeviceId> placement) override;
  Result<ExecutorProfile> profile() override;
  /// Returns the synthetic types that the last ready process reported.
  std::vector<std::string> synthetic_types() const override { return synthetic_types_; }

  /// Returns the notes of all its processes so far, each once.
  std::vector<std::string> notes() const override { return notes_; }
  /// "cpu": every device of another kind; "torch": those that the last ready process reported.
  std::vector<DeviceId> stand_ins() const override;

  /// A process that is restarted gets no `next`: it might be what crashed it.
  void start(std::span<const DeviceId> placement, std::span<const DeviceId> next) override;
  Result<bool> poll(Measurement& out) override;
  bool broken() const override { return supervisor_.gave_up(); }

  int restarts() const { return supervisor_.restarts(); }
  /// Returns the pid of the current process; 0 if there is none.
  pid_t pid() const { return process_ ? process_->pid() : 0; }

 private:
  using Supervisor = runtime::ChildSupervisor;
  /// The answer to a task, one type for each kind.
  using Answer = std::variant<messages::PlacementRan, messages::PlacementTraced, messages::PlacementVerified,
                              messages::ExecutorProfiled>;
  using Outcome = Result<Answer>;

  void ask(messages::PlacementTask task, std::span<const DeviceId> placement,
           std::span<const DeviceId> next = {});
  Outcome wait();
  /// Requests a task and waits for its answer.
  template <class A>
  Result<A> answer_to(messages::PlacementTask task, std::span<const DeviceId> placement);
  template <class A>
  void on_answer(const Channel::Received& received);
  void on_failed(const messages::TaskFailed& failed);
  void settle(Outcome outcome, bool ran);
  void add_notes(const std::vector<std::string>& notes);
  bool is_whole(const Measurement& measurement) const;
  void turn();
  void take_messages();
  void on_message(const Channel::Received& received);
  void handle(Supervisor::Event event);
  void act(const Supervisor::Launch& start);
  void act(const Supervisor::Send& send);
  void act(const Supervisor::Terminate& terminate);
  void act(const Supervisor::Kill& kill);
  void act(const Supervisor::Fail& fail);
  void act(const Supervisor::GiveUp& gave_up);
  std::string key() const;

  const OpGraph& graph_;
  const DeviceSet& devices_;
  const ProcessExecutorOptions options_;
  const Clock& clock_;
  messages::PrepareExecutor prepare_;
  messages::Bytes graph_bytes_;  // The graph, in the bulk section that prepare_ refers to.
  Supervisor supervisor_;
  std::deque<Supervisor::Event> events_;  // Not yet handled; actions may add events.
  bool handling_ = false;                 // Whether handle() is on the stack.
  std::unique_ptr<HelperProcess> process_;
  std::uint64_t ids_ = 0;
  messages::RunPlacement request_;
  messages::Bytes placement_;  // The placement of request_.
  messages::Bytes next_;       // The one that is announced with it; empty: none.
  std::optional<Outcome> outcome_;
  std::optional<Error> refused_;
  std::vector<std::string> synthetic_types_, stand_ins_, notes_;
  std::unordered_map<std::string, Measurement> failed_;  // Measurements that crashed all tries, by placement.
};

}  // namespace emplace::launcher
