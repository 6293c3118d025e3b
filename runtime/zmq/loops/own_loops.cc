#include "runtime/zmq/loops/own_loops.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "runtime/zmq/links/session_messages.h"

namespace emplace::runtime {

OwnLoop& OwnLoops::add(std::shared_ptr<OwnLoop> loop) { return *loops_.emplace_back(std::move(loop)); }

std::optional<Error> OwnLoops::start() {
  std::optional<Error> first;
  for (const auto& loop : loops_) {
    try {
      OwnLoop::start(loop);
    } catch (const std::system_error& refused) {
      loop->stopped = loop->finished = true;
      if (!first)
        first = Error{Errc::kRunFailed, loop->name() + ": cannot start its thread: " + refused.what()};
    }
  }
  return first;
}

std::optional<Error> OwnLoops::join() {
  std::optional<Error> first;
  for (const auto& loop : loops_) {
    if (loop->finished) {
      loop->join();
    } else {
      if (!first) first = Error{Errc::kDeadline, loop->name() + ": did not end within the drain deadline"};
      loop->detach();
    }
  }
  return first;
}

void OwnLoops::add_to(Waiter& waiter) {
  for (const auto& loop : loops_) waiter.add(loop->socket(), loop->watch);
}

void OwnLoops::flush() {
  for (const auto& loop : loops_) {
    loop->watch.used |= !loop->link().empty();
    loop->watch.blocked = loop->link().flush(loop->socket(), {}) == Link::Flush::kBlocked;
  }
}

void OwnLoops::announce(const std::string& actor, bool reachable) {
  for (const auto& loop : loops_)
    push_message(loop->link(), LoopDirectory{.actor = actor, .reachable = reachable});
}

void OwnLoops::stop_actors() {
  for (const auto& loop : loops_) push_message(loop->link(), LoopStop{.finish = false});
}

void OwnLoops::finish() {
  for (const auto& loop : loops_) push_message(loop->link(), LoopStop{.finish = true});
}

bool OwnLoops::stopped() const {
  return std::all_of(loops_.begin(), loops_.end(), [](const auto& loop) { return loop->stopped; });
}

bool OwnLoops::finished() const {
  return std::all_of(loops_.begin(), loops_.end(), [](const auto& loop) { return loop->finished; });
}

const OwnLoop* OwnLoops::hung(Nanos now, Nanos limit) const {
  for (const auto& loop : loops_) {
    const Nanos started = loop->handler_started();
    if (started != Nanos{0} && now - started >= limit) return loop.get();
  }
  return nullptr;
}

}  // namespace emplace::runtime
