// How a node ends: its actors say their last words, loops end, other nodes acknowledge that they have
// everything.

#include <algorithm>
#include <system_error>
#include <utility>

#include "runtime/log.h"
#include "runtime/zmq/switch.h"

namespace emplace::runtime {
namespace {

// For our acknowledgement of the head's Bye to leave the socket, which does not linger.
constexpr std::chrono::milliseconds kAcknowledgementLeaves{50};

}  // namespace

/// An actor wishes it.
void Switch::on_stop_asked(const std::string& reason) {
  if (phase_ != Phase::kRunning) return;
  if (!options_.on_stop_asked || options_.on_stop_asked(reason)) begin_stop(reason, std::nullopt);
}

void Switch::begin_stop(std::string reason, std::optional<Error> failure) {
  if (failure && !failure_) failure_ = std::move(failure);
  if (phase_ != Phase::kRunning) return;
  log(LogLevel::kInfo, options_.name, "stopping: " + reason);
  phase_ = Phase::kStopping;
  reason_ = std::move(reason);
  stop_deadline_ = shared_->clock.now() + options_.drain_deadline;
  next_tick_ = next_beat_ = Nanos{0};
  host_.stop_all();
  for (const auto& loop : loops_) push_message(loop->link(), LoopStop{.finish = false});
}

void Switch::advance_stop() {
  const auto all = [&](bool OwnLoop::*flag) {
    return std::all_of(loops_.begin(), loops_.end(), [&](const auto& loop) { return (*loop).*flag; });
  };
  if (phase_ == Phase::kStopping && all(&OwnLoop::stopped) && !host_.busy()) {
    for (const auto& loop : loops_) push_message(loop->link(), LoopStop{.finish = true});
    phase_ = Phase::kFinishing;
  }
  if (phase_ == Phase::kFinishing && all(&OwnLoop::finished) && !host_.busy()) {
    const Bye bye{.reason = reason_};
    for (const auto& [node, peer] : peers_)
      for (Link& link : peer->links) push_message(link, bye);
    if (head_ && head_->parted()) parting_until_ = now_ + kAcknowledgementLeaves;
    if (head_ && !head_->parted())
      for (Link& link : head_->links) push_message(link, bye);
    phase_ = Phase::kParting;
  }
  const bool lingering = parting_until_ && now_ < *parting_until_;
  if (phase_ == Phase::kParting && all_parted() && !lingering) phase_ = Phase::kDone;
  if (phase_ == Phase::kDone || shared_->clock.now() < stop_deadline_) return;
  log(LogLevel::kWarning, options_.name, "not everything was drained in time");
  phase_ = Phase::kDone;
}

bool Switch::all_parted() const {
  const auto parted = [](const Peer& peer) { return !peer.session.open() || peer.parted(); };
  const bool nothing_left = head_ && head_->links[0].waiting() + head_->links[1].waiting() == 0;
  const bool head_parted =
      !head_ || dismissed_ || !ever_joined_ || head_->parted() || (!head_->connected() && nothing_left);
  return head_parted &&
         std::all_of(peers_.begin(), peers_.end(), [&](const auto& entry) { return parted(*entry.second); });
}

void Switch::check_hung_handlers(Nanos now) {
  for (const auto& loop : loops_) {
    const Nanos began = loop->handler_began();
    if (began == Nanos{0} || now - began < options_.handler_limit) continue;
    begin_stop(loop->name() + " hangs",
               Error{Errc::kDeadline,
                     loop->name() + ": a handler hangs for longer than " +
                         std::to_string(options_.handler_limit / std::chrono::milliseconds{1}) + " ms"});
  }
}

/// Where the machine has no thread left: those that have begun end in order, before what they use does.
std::optional<Error> Switch::start_threads() {
  std::optional<Error> first;
  for (const auto& loop : loops_) {
    try {
      OwnLoop::start(loop);
    } catch (const std::system_error& refused) {
      loop->stopped = loop->finished = true;
      if (!first) first = Error{Errc::kRunFailed, loop->name() + ": no thread for it: " + refused.what()};
    }
  }
  return first;
}

void Switch::end_threads() {
  for (const auto& loop : loops_) {
    if (loop->finished) {
      loop->join();
    } else {
      // It hangs in a handler: it keeps what it uses alive, and ends with the process.
      if (!failure_)
        failure_ = Error{Errc::kDeadline, loop->name() + ": did not end within the drain deadline"};
      loop->detach();
    }
  }
}

}  // namespace emplace::runtime
