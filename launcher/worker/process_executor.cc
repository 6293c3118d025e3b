#include "launcher/worker/process_executor.h"

#include <poll.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "base/text/words.h"
#include "graph/graph_file.h"
#include "launcher/worker/facts.h"

namespace emplace::launcher {

using messages::PlacementTask;

namespace {

constexpr std::size_t kMostFailures = 4096;            // That are remembered.
constexpr std::chrono::milliseconds kLongestWait{50};  // Of a call that blocks; then it looks around.
constexpr Nanos kProfilePatience = std::chrono::minutes{10};

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

void ProcessExecutor::ask(PlacementTask task, std::span<const DeviceId> placement) {
  turn();  // One that died while nobody asked is no try of this placement.
  outcome_.reset();
  const auto bytes = std::as_bytes(placement);
  placement_.assign(bytes.begin(), bytes.end());
  request_ = {0, task, {0, placement_.size()}};
  if (task != PlacementTask::kProfile) {
    if (auto fits = check_devices(placement, graph_.num_ops(), devices_.size()); !fits) {
      outcome_ = Outcome{fits.error()};
      return;
    }
  }
  if (const auto known = failed_.find(key()); task == PlacementTask::kMeasure && known != failed_.end()) {
    messages::PlacementRan ran;
    ran.measurement = facts_of(known->second);
    outcome_ = Outcome{std::move(ran)};
    return;
  }
  const bool long_one = task == PlacementTask::kProfile || task == PlacementTask::kVerify;
  tell(Supervisor::Asked{long_one ? kProfilePatience : Nanos{0}});
}

void ProcessExecutor::begin(std::span<const DeviceId> placement) { ask(PlacementTask::kMeasure, placement); }

Result<bool> ProcessExecutor::poll(Measurement& out) {
  if (!outcome_) turn();
  if (!outcome_) return false;
  const Outcome outcome = *std::exchange(outcome_, std::nullopt);
  if (!outcome) return outcome.error();
  out = measurement_of(outcome->measurement);
  return true;
}

/// Until the evaluation that was asked for is over.
ProcessExecutor::Outcome ProcessExecutor::wait() {
  while (true) {
    if (!outcome_) turn();
    if (outcome_) return *std::exchange(outcome_, std::nullopt);
    if (options_.interrupted && options_.interrupted()) {
      life_.reset();
      return Error{Errc::kRunFailed, "stopped by a signal"};
    }
    const auto next = supervisor_.next();
    const auto until =
        next ? std::chrono::ceil<std::chrono::milliseconds>(*next - clock_.now()) : kLongestWait;
    const auto most = std::clamp(until, std::chrono::milliseconds{0}, kLongestWait);
    life_ ? life_->wait(most) : (void)::poll(nullptr, 0, static_cast<int>(most.count()));
  }
}

Result<messages::PlacementRan> ProcessExecutor::ran(PlacementTask task, std::span<const DeviceId> placement) {
  ask(task, placement);
  Outcome outcome = wait();
  if (outcome && outcome->code != 0) return coded(outcome->code, outcome->error);
  return outcome;
}

Result<Unit> ProcessExecutor::measure(std::span<const DeviceId> placement, Measurement& out) {
  const auto done = ran(PlacementTask::kMeasure, placement);
  if (!done) return done.error();
  out = measurement_of(done->measurement);
  return Unit{};
}

Result<Unit> ProcessExecutor::trace(std::span<const DeviceId> placement, Measurement& out,
                                    Schedule& schedule) {
  const auto done = ran(PlacementTask::kTrace, placement);
  if (!done) return done.error();
  out = measurement_of(done->measurement);
  auto read = schedule_of(done->schedule, graph_, devices_.size());
  if (!read) return read.error();
  schedule = *std::move(read);
  return Unit{};
}

Result<Verification> ProcessExecutor::verify(std::span<const DeviceId> placement) {
  const auto done = ran(PlacementTask::kVerify, placement);
  if (!done) return done.error();
  return verification_of(done->verification);
}

Result<ExecutorProfile> ProcessExecutor::profile() {
  const auto done = ran(PlacementTask::kProfile, {});
  if (!done) return done.error();
  return profile_of(done->profile, graph_, devices_.size());
}

/// Hears what the process has said, sees whether it lives, and lets time pass. Never waits.
void ProcessExecutor::turn() {
  if (life_) {
    (void)life_->channel().flush();
    take_messages();
  }
  if (life_) {
    if (const auto cause = life_->ended()) {
      take_messages();  // What it said last.
      if (options_.note)
        options_.note("executor '" + options_.kind + "': process " + std::to_string(life_->pid()) + ": " +
                      *cause);
      life_.reset();
      tell(Supervisor::Died{*cause});
    }
  }
  tell(Supervisor::Tick{});
}

void ProcessExecutor::take_messages() {
  while (life_) {
    const auto received = life_->channel().take();
    if (!received && received.error().code != Errc::kPeerLost) life_->signal(SIGKILL);  // It talks nonsense.
    if (!received || !*received) return;
    on_message(**received);
  }
}

void ProcessExecutor::on_message(const Channel::Received& received) {
  using messages::ExecutorBeat;
  using messages::ExecutorReady;
  using messages::ExecutorRefused;
  using messages::PlacementRan;
  if (received.type == ExecutorBeat::kType) {
    if (const auto beat = received.as<ExecutorBeat>()) return tell(Supervisor::Beat{beat->progress});
  } else if (received.type == ExecutorReady::kType) {
    if (auto ready = received.as<ExecutorReady>()) {
      synthetic_types_ = std::move(ready->synthetic_types);
      return tell(Supervisor::Ready{});
    }
  } else if (received.type == ExecutorRefused::kType) {
    if (const auto refused = received.as<ExecutorRefused>()) {
      refused_ = coded(refused->code, refused->error);
      return tell(Supervisor::Refused{refused->error});
    }
  } else if (received.type == PlacementRan::kType) {
    if (auto done = received.as<PlacementRan>()) {
      if (done->id != request_.id || outcome_) return;  // Of an evaluation that is over.
      const bool ran = done->code == 0 && done->measurement.valid && request_.task == PlacementTask::kMeasure;
      tell(Supervisor::Answered{ran});
      const bool measures =
          request_.task == PlacementTask::kMeasure || request_.task == PlacementTask::kTrace;
      const std::size_t devices = devices_.size();
      if (done->code != 0) {
        outcome_ = Outcome{coded(done->code, done->error)};
      } else if (measures && (done->measurement.peak_bytes.size() != devices ||
                              done->measurement.busy_s.size() != devices)) {
        outcome_ = Outcome{invalid("executor '" + options_.kind + "'", "an answer of it is not whole")};
      } else {
        outcome_ = Outcome{*std::move(done)};
      }
      return;
    }
  }
  life_->signal(SIGKILL);
}

void ProcessExecutor::tell(Supervisor::Event event) {
  events_.push_back(std::move(event));
  if (std::exchange(telling_, true)) return;
  while (!events_.empty()) {
    const Supervisor::Event next = std::move(events_.front());
    events_.pop_front();
    for (const Supervisor::Action& action : supervisor_.on(next, clock_.now()))
      std::visit([&](const auto& what) { act(what); }, action);
  }
  telling_ = false;
}

void ProcessExecutor::act(const Supervisor::Start&) {
  auto started = HelperProcess::start(options_.command);
  if (!started) return tell(Supervisor::Died{started.error().context});
  life_ = *std::move(started);
  life_->channel().send(prepare_, graph_bytes_);
  (void)life_->channel().flush();
}

void ProcessExecutor::act(const Supervisor::Send&) {
  request_.id = ++ids_;
  life_->channel().send(request_, placement_);
  (void)life_->channel().flush();
}

void ProcessExecutor::act(const Supervisor::Terminate&) {
  if (!life_) return;
  if (options_.note)
    options_.note("executor '" + options_.kind + "': process " + std::to_string(life_->pid()) +
                  " gets nowhere and is ended");
  life_->signal(SIGTERM);
}
void ProcessExecutor::act(const Supervisor::Kill&) {
  if (life_) life_->signal(SIGKILL);
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
  if (failed_.size() < kMostFailures) failed_.emplace(key(), m);
  messages::PlacementRan ran;
  ran.measurement = facts_of(m);
  outcome_ = Outcome{std::move(ran)};
}

void ProcessExecutor::act(const Supervisor::GiveUp& gave_up) {
  const std::string who = "executor '" + options_.kind + "': ";
  outcome_ = refused_ ? Outcome{Error{refused_->code, who + refused_->context}}
                      : Outcome{Error{Errc::kPeerLost, who + gave_up.why}};
}

}  // namespace emplace::launcher
