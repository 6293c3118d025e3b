#pragma once
/// The parent's side: an executor whose devices are driven by another process, which may die of them.

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
#include "launcher/worker/helper_process.h"
#include "messages/executor_process.h"
#include "placement/machine/device.h"
#include "runtime/core/child_supervisor.h"

namespace emplace::launcher {

struct ProcessExecutorOptions {
  std::string kind;  ///< "cpu"
  HelperCommand command;
  RealOptions real;
  runtime::ChildSupervisorOptions supervision;
  /// Asked while a call waits; true ends it with kRunFailed. Empty: nobody interrupts.
  std::function<bool()> interrupted;
  /// Is told, in a line, what processes die of. Empty: nobody wants to know.
  std::function<void(const std::string&)> note;
};

/// Starts its process when it is first needed, and again after each death, by the rules of
/// runtime/core/child_supervisor.h. An evaluation that its process did not survive is tried once more; then
/// it is a measurement that is not valid and says why, also when it is asked for again. Errors of all calls:
/// kPeerLost, processes die again and again; what the process refused with. Thread: one.
class ProcessExecutor final : public RealExecutor, public PolledExecutor {
 public:
  /// `graph` and `devices` must outlive it.
  ProcessExecutor(const OpGraph& graph, const DeviceSet& devices, ProcessExecutorOptions options,
                  const Clock& clock);

  std::string_view kind() const override { return options_.kind; }
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override;
  Result<Unit> trace(std::span<const DeviceId> placement, Measurement& out, Schedule& schedule) override;
  Result<Verification> verify(std::span<const DeviceId> placement) override;
  Result<ExecutorProfile> profile() override;
  /// Of the process that was ready last.
  std::vector<std::string> synthetic_types() const override { return synthetic_types_; }

  void begin(std::span<const DeviceId> placement) override;
  Result<bool> poll(Measurement& out) override;
  bool broken() const override { return supervisor_.gave_up(); }

  int restarts() const { return supervisor_.restarts(); }
  /// Of the process at hand; 0: there is none.
  pid_t pid() const { return life_ ? life_->pid() : 0; }

 private:
  using Supervisor = runtime::ChildSupervisor;
  /// The answer to a task, one type for each kind.
  using Answer = std::variant<messages::PlacementRan, messages::PlacementTraced, messages::PlacementVerified,
                              messages::ExecutorProfiled>;
  using Outcome = Result<Answer>;

  void ask(messages::PlacementTask task, std::span<const DeviceId> placement);
  Outcome wait();
  /// Asks for a task, and waits for its answer.
  template <class A>
  Result<A> answer_to(messages::PlacementTask task, std::span<const DeviceId> placement);
  template <class A>
  void on_answer(const Channel::Received& received);
  void on_failed(const messages::TaskFailed& failed);
  void settle(Outcome outcome, bool ran);
  bool is_whole(const Measurement& measurement) const;
  void turn();
  void take_messages();
  void on_message(const Channel::Received& received);
  void tell(Supervisor::Event event);
  void act(const Supervisor::Start& start);
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
  messages::Bytes graph_bytes_;  // As prepare_ names them.
  Supervisor supervisor_;
  std::deque<Supervisor::Event> events_;  // Not yet told: actions make new ones.
  bool telling_ = false;
  std::unique_ptr<HelperProcess> life_;
  std::uint64_t ids_ = 0;
  messages::RunPlacement request_;
  messages::Bytes placement_;  // Of the request.
  std::optional<Outcome> outcome_;
  std::optional<Error> refused_;
  std::vector<std::string> synthetic_types_;
  std::unordered_map<std::string, Measurement> failed_;  // By placement: what no process survived.
};

}  // namespace emplace::launcher
