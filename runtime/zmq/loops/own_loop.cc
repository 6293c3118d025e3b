#include "runtime/zmq/loops/own_loop.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "runtime/zmq/links/session_messages.h"
#include "runtime/zmq/sockets/sockets.h"

namespace emplace::runtime {
namespace {

constexpr std::chrono::milliseconds kLongestPoll{1'000};

}  // namespace

std::chrono::milliseconds poll_timeout(Nanos now, bool busy, std::optional<Nanos> next,
                                       std::chrono::milliseconds longest) {
  if (busy) return std::chrono::milliseconds{0};
  if (!next) return longest;
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(*next - now);
  return std::clamp(wait, std::chrono::milliseconds{0}, longest);
}

OwnLoop::OwnLoop(std::shared_ptr<Shared> shared, std::size_t index, std::string name, ActorFactory factory,
                 std::shared_ptr<ActorTelemetry> telemetry)
    : shared_{std::move(shared)},
      name_{std::move(name)},
      telemetry_{std::move(telemetry)},
      endpoint_{fmt::format("inproc://loop-{}", index)},
      io_side_{make_pair(shared_->context)},
      link_{Link::Limits::of(shared_->options), /*numbered=*/false, shared_->counters},
      up_{Link::Limits::of(shared_->options), /*numbered=*/false, shared_->counters},
      host_{shared_->options, shared_->clock, shared_->counters,
            [this](const messages::Envelope& envelope, std::span<const std::byte> body,
                   const messages::SharedBytes& bulk) { return up_.push(envelope, body, bulk); }} {
  host_.add(name_, std::move(factory), telemetry_);
  io_side_.bind(endpoint_);
}

void OwnLoop::start(const std::shared_ptr<OwnLoop>& self) {
  self->thread_ = std::thread{[self] { self->run(); }};
}

template <class M>
void OwnLoop::notify(const M& message) {
  push_message(up_, message);
}

void OwnLoop::on_message(const Incoming& incoming) {
  if (incoming.envelope.type < kFirstLoopType) {
    if (host_.has(incoming.envelope.to)) {
      host_.deliver(incoming, true);
    } else {
      count(shared_->counters.unroutable);
    }
    return;
  }
  (void)incoming.match(
      [&](const LoopStop& order) {
        if (order.finish) {
          ending_ = true;
        } else {
          host_.stop_all();
          notify(LoopDone{.finish = false});
        }
      },
      [&](const LoopDirectory& change) { host_.directory(change.actor, change.reachable); });
}

void OwnLoop::report() {
  if (auto reason = host_.take_stop()) notify(LoopWantsStop{.reason = std::move(*reason)});
  if (host_.failure() && !failure_reported_) {
    failure_reported_ = true;
    notify(LoopWantsStop{.reason = host_.failure()->context, .failed = true});
  }
}

void OwnLoop::run() {
  loop_side_ = make_pair(shared_->context);
  zmq::socket_t& socket = loop_side_;
  socket.connect(endpoint_);
  host_.start_all();
  Intake inbox;
  Watch mine;
  Waiter waiter;
  while (true) {
    report();
    if (ending_ && !host_.busy()) {
      notify(LoopDone{.finish = true});
      break;
    }
    mine.used |= !up_.empty();
    mine.blocked = up_.flush(socket, {}) == Link::Flush::kBlocked;
    waiter.clear();
    waiter.add(socket, mine);
    waiter.wait(poll_timeout(shared_->clock.now(), host_.busy(), host_.next_timer(), kLongestPoll));
    if (mine.readable) {
      Received received;
      int taken = 0;
      for (; taken < inbox.frames() && receive(socket, nullptr, received); ++taken)
        each_message(received, [&](const Incoming& incoming) { on_message(incoming); });
      inbox.took(taken);
    }
    host_.turn();
  }
  // The I/O loop reads until it receives LoopDone with `finish`, or closes its side at the drain deadline.
  while (up_.flush(socket, {}) == Link::Flush::kBlocked) {
    std::array<zmq::pollitem_t, 1> items{{{socket.handle(), 0, ZMQ_POLLOUT, 0}}};
    if (zmq_poll(items.data(), 1, shared_->options.drain_deadline / std::chrono::milliseconds{1}) <= 0) break;
  }
}

std::optional<Error> start(const OwnLoops& loops) {
  std::optional<Error> first;
  for (const auto& loop : loops) {
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

std::optional<Error> join(const OwnLoops& loops) {
  std::optional<Error> first;
  for (const auto& loop : loops) {
    if (loop->finished) {
      loop->join();
    } else {
      if (!first) first = Error{Errc::kDeadline, loop->name() + ": did not end within the drain deadline"};
      loop->detach();
    }
  }
  return first;
}

}  // namespace emplace::runtime
