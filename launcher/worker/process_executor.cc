#include "launcher/worker/process_executor.h"

#include <poll.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "base/text/words.h"
#include "graph/formats/graph_file.h"
#include "launcher/worker/facts.h"

namespace emplace::launcher {

using messages::PlacementTask;

namespace {

constexpr std::size_t kMaxNotes = 64;
constexpr std::size_t kMaxFailures = 4096;             // Failed placements that are remembered.
constexpr std::chrono::milliseconds kLongestWait{50};  // Poll interval of blocking calls.
constexpr Nanos kProfileTimeout = std::chrono::minutes{10};

Error coded(std::uint8_t code, const std::string& text) { return Error{static_cast<Errc>(code), text}; }

}  // namespace

ProcessExecutor::ProcessExecutor(const OpGraph& graph, const DeviceSet& devices,
                                 ProcessExecutorOptions options, const Clock& clock)
    : graph_{graph},
      devices_{devices},
      options_{std::move(options)},
      clock_{clock},
      prepare_{prepare_facts(devices, options_.real)},
      graph_bytes_{graph_msgpack(graph)},
      supervisor_{options_.supervision} {
  prepare_.graph_sha256 = graph_sha256(graph);
  prepare_.graph = {0, graph_bytes_.size()};
}

std::string ProcessExecutor::key() const {
  return {reinterpret_cast<const char*>(placement_.data()), placement_.size()};
}

void ProcessExecutor::ask(PlacementTask task, std::span<const DeviceId> placement,
                          std::span<const DeviceId> next) {
  turn();  // Handle a crash while idle first, so that it does not count as a try of this placement.
  outcome_.reset();
  const auto bytes = std::as_bytes(placement);
  placement_.assign(bytes.begin(), bytes.end());
  const auto next_bytes = std::as_bytes(next);
  next_.assign(next_bytes.begin(), next_bytes.end());
  request_ = {0, task, {0, placement_.size()}, {}};
  if (task != PlacementTask::kProfile) {
    if (auto fits = check_devices(placement, graph_.num_ops(), devices_.size()); !fits) {
      outcome_ = Outcome{fits.error()};
      return;
    }
  }
  if (const auto known = failed_.find(key()); task == PlacementTask::kMeasure && known != failed_.end()) {
    outcome_ = Outcome{messages::PlacementRan{request_.id, known->second, {}}};
    return;
  }
  const bool long_one = task == PlacementTask::kProfile || task == PlacementTask::kVerify;
  handle(Supervisor::Requested{long_one ? kProfileTimeout : Nanos{0}});
}

void ProcessExecutor::start(std::span<const DeviceId> placement, std::span<const DeviceId> next) {
  ask(PlacementTask::kMeasure, placement, next);
}

Result<bool> ProcessExecutor::poll(Measurement& out) {
  if (!outcome_) turn();
  if (!outcome_) return false;
  Outcome outcome = *std::exchange(outcome_, std::nullopt);
  if (!outcome) return outcome.error();
  out = std::get<messages::PlacementRan>(*std::move(outcome)).measurement;
  return true;
}

/// Blocks until the requested evaluation is over, and returns its outcome.
ProcessExecutor::Outcome ProcessExecutor::wait() {
  while (true) {
    if (!outcome_) turn();
    if (outcome_) return *std::exchange(outcome_, std::nullopt);
    if (options_.interrupted && options_.interrupted()) {
      process_.reset();
      return Error{Errc::kRunFailed, "stopped by a signal"};
    }
    const auto next = supervisor_.next();
    const auto until =
        next ? std::chrono::ceil<std::chrono::milliseconds>(*next - clock_.now()) : kLongestWait;
    const auto most = std::clamp(until, std::chrono::milliseconds{0}, kLongestWait);
    process_ ? process_->wait(most) : (void)::poll(nullptr, 0, static_cast<int>(most.count()));
  }
}

template <class A>
Result<A> ProcessExecutor::answer_to(PlacementTask task, std::span<const DeviceId> placement) {
  ask(task, placement);
  EMPLACE_TRY_ASSIGN(Answer answer, wait());
  return std::get<A>(std::move(answer));
}

Result<Unit> ProcessExecutor::measure(std::span<const DeviceId> placement, Measurement& out) {
  EMPLACE_TRY_ASSIGN(auto ran, answer_to<messages::PlacementRan>(PlacementTask::kMeasure, placement));
  out = std::move(ran.measurement);
  return Unit{};
}

Result<Unit> ProcessExecutor::trace(std::span<const DeviceId> placement, Measurement& out,
                                    Schedule& schedule) {
  EMPLACE_TRY_ASSIGN(auto traced, answer_to<messages::PlacementTraced>(PlacementTask::kTrace, placement));
  EMPLACE_TRY_ASSIGN(schedule, schedule_of(traced.schedule, graph_, devices_.size()));
  out = std::move(traced.measurement);
  return Unit{};
}

Result<Verification> ProcessExecutor::verify(std::span<const DeviceId> placement) {
  EMPLACE_TRY_ASSIGN(const auto verified,
                     answer_to<messages::PlacementVerified>(PlacementTask::kVerify, placement));
  return verification_of(verified.verification);
}

Result<ExecutorProfile> ProcessExecutor::profile() {
  EMPLACE_TRY_ASSIGN(const auto profiled, answer_to<messages::ExecutorProfiled>(PlacementTask::kProfile, {}));
  return profile_of(profiled.profile, graph_, devices_.size());
}

std::vector<DeviceId> ProcessExecutor::stand_ins() const {
  std::vector<DeviceId> all;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    const auto id = static_cast<DeviceId>(d);
    const bool reported =
        std::find(stand_ins_.begin(), stand_ins_.end(), devices_[id].name) != stand_ins_.end();
    if (reported || (options_.kind == "cpu" && !devices_.is_cpu(id))) all.push_back(id);
  }
  return all;
}

/// Handles the messages of the process, its end and timeouts. Never blocks.
void ProcessExecutor::turn() {
  if (process_) {
    (void)process_->channel().flush();
    take_messages();
  }
  if (process_) {
    if (const auto cause = process_->ended()) {
      take_messages();  // Its final messages.
      if (options_.note)
        options_.note("executor '" + options_.kind + "': process " + std::to_string(process_->pid()) + ": " +
                      *cause);
      process_.reset();
      handle(Supervisor::Exited{*cause});
    }
  }
  handle(Supervisor::Tick{});
}

void ProcessExecutor::take_messages() {
  while (process_) {
    const auto received = process_->channel().take();
    if (!received && received.error().code != Errc::kPeerLost) process_->signal(SIGKILL);  // Malformed data.
    if (!received || !*received) return;
    on_message(**received);
  }
}

void ProcessExecutor::on_message(const Channel::Received& received) {
  switch (received.type) {
    case messages::ExecutorBeat::kType:
      if (const auto beat = received.as<messages::ExecutorBeat>())
        return handle(Supervisor::Heartbeat{beat->progress});
      break;
    case messages::ExecutorReady::kType:
      if (auto ready = received.as<messages::ExecutorReady>()) {
        synthetic_types_ = std::move(ready->synthetic_types);
        stand_ins_ = std::move(ready->stand_ins);
        return handle(Supervisor::Ready{});
      }
      break;
    case messages::ExecutorRefused::kType:
      if (const auto refused = received.as<messages::ExecutorRefused>()) {
        refused_ = coded(refused->code, refused->error);
        return handle(Supervisor::Refused{refused->error});
      }
      break;
    case messages::TaskFailed::kType:
      if (const auto failed = received.as<messages::TaskFailed>()) return on_failed(*failed);
      break;
    case messages::PlacementRan::kType:
      return on_answer<messages::PlacementRan>(received);
    case messages::PlacementTraced::kType:
      return on_answer<messages::PlacementTraced>(received);
    case messages::PlacementVerified::kType:
      return on_answer<messages::PlacementVerified>(received);
    case messages::ExecutorProfiled::kType:
      return on_answer<messages::ExecutorProfiled>(received);
    default:
      break;
  }
  process_->signal(SIGKILL);  // An unknown or malformed message.
}

void ProcessExecutor::on_failed(const messages::TaskFailed& failed) {
  if (failed.id == request_.id) settle(Outcome{coded(failed.code, failed.error)}, false);
}

template <class A>
void ProcessExecutor::on_answer(const Channel::Received& received) {
  auto answer = received.as<A>();
  constexpr bool kMeasures = requires { answer->measurement; };
  if (!answer || (answer->id == request_.id && request_.task != A::kTask)) return process_->signal(SIGKILL);
  if (answer->id != request_.id) return;  // An earlier evaluation, which is over.
  bool ran = false;
  if constexpr (kMeasures) {
    ran = answer->measurement.valid && request_.task == PlacementTask::kMeasure;
    if constexpr (requires { answer->notes; }) add_notes(answer->notes);
    if (!is_whole(answer->measurement))
      return settle(Outcome{invalid("executor '" + options_.kind + "'", "sent an incomplete answer")}, ran);
  }
  settle(Outcome{Answer{*std::move(answer)}}, ran);
}

/// Passes on notes that are new: most are the same for every placement.
void ProcessExecutor::add_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    if (std::find(notes_.begin(), notes_.end(), note) != notes_.end() || notes_.size() == kMaxNotes) continue;
    notes_.push_back(note);
    if (options_.note) options_.note("executor '" + options_.kind + "': " + printable(note, 400));
  }
}

bool ProcessExecutor::is_whole(const Measurement& measurement) const {
  return measurement.peak_bytes.size() == devices_.size() && measurement.busy_s.size() == devices_.size();
}

/// Sets the outcome of the request, unless it has one. `ran`: a placement was measured and ran.
void ProcessExecutor::settle(Outcome outcome, bool ran) {
  if (outcome_) return;
  handle(Supervisor::Completed{ran});
  outcome_ = std::move(outcome);
}

void ProcessExecutor::handle(Supervisor::Event event) {
  events_.push_back(std::move(event));
  if (std::exchange(handling_, true)) return;
  while (!events_.empty()) {
    const Supervisor::Event next = std::move(events_.front());
    events_.pop_front();
    for (const Supervisor::Action& action : supervisor_.on(next, clock_.now()))
      std::visit([&](const auto& what) { act(what); }, action);
  }
  handling_ = false;
}

void ProcessExecutor::act(const Supervisor::Launch&) {
  HelperCommand command = options_.command;
  if (options_.gpus) {
    if (auto taken = options_.gpus->take(devices_); !taken)
      return handle(Supervisor::Exited{taken.error().context});
    if (auto visible = options_.gpus->environment(); !visible.empty())
      command.environment.push_back(std::move(visible));
    command.kept = options_.gpus->descriptors();
  }
  auto started = HelperProcess::start(command);
  if (!started) return handle(Supervisor::Exited{started.error().context});
  process_ = *std::move(started);
  process_->channel().send(prepare_, graph_bytes_);
  (void)process_->channel().flush();
}

void ProcessExecutor::act(const Supervisor::Send&) {
  request_.id = ++ids_;
  messages::Bytes bulk = placement_;
  bulk.insert(bulk.end(), next_.begin(), next_.end());
  request_.next = {placement_.size(), bulk.size() - placement_.size()};
  next_.clear();
  process_->channel().send(request_, bulk);
  (void)process_->channel().flush();
}

void ProcessExecutor::act(const Supervisor::Terminate&) {
  if (!process_) return;
  if (options_.note)
    options_.note("executor '" + options_.kind + "': process " + std::to_string(process_->pid()) +
                  " makes no progress and is stopped");
  process_->signal(SIGTERM);
}
void ProcessExecutor::act(const Supervisor::Kill&) {
  if (process_) process_->signal(SIGKILL);
}

void ProcessExecutor::act(const Supervisor::Fail& fail) {
  if (request_.task != PlacementTask::kMeasure) {
    outcome_ = Outcome{Error{Errc::kRunFailed, "executor '" + options_.kind + "': " + fail.cause}};
    return;
  }
  Measurement m;
  m.peak_bytes.assign(devices_.size(), 0);
  m.busy_s.assign(devices_.size(), 0);
  m.failure = fail.cause;
  if (failed_.size() < kMaxFailures) failed_.emplace(key(), m);
  outcome_ = Outcome{messages::PlacementRan{request_.id, std::move(m), {}}};
}

void ProcessExecutor::act(const Supervisor::GiveUp& gave_up) {
  const std::string where = "executor '" + options_.kind + "': ";
  outcome_ = refused_ ? Outcome{Error{refused_->code, where + refused_->context}}
                      : Outcome{Error{Errc::kPeerLost, where + gave_up.why}};
}

}  // namespace emplace::launcher
