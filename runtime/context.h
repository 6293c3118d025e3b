#pragma once
/// Everything an actor may do. Implemented over ZeroMQ (runtime/node.h) and, for tests, by a simulator
/// (tests/runtime/sim/world.h).

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/rng.h"
#include "messages/codec.h"
#include "messages/envelope.h"
#include "runtime/actor.h"

namespace emplace::runtime {

enum class TimerId : std::uint64_t {};

/// Thread: the actor's own loop. Valid as long as the actor exists.
class Context {
 public:
  virtual ~Context() = default;

  /// Scope guard: records a phase of the actor in the trace of the run until it goes out of scope.
  class [[nodiscard]] Phase {
   public:
    Phase(Phase&& other) noexcept
        : context_{std::exchange(other.context_, nullptr)}, what_{other.what_}, started_{other.started_} {}
    Phase& operator=(Phase&&) = delete;
    ~Phase() {
      if (context_ != nullptr) context_->phase_ended(what_, started_);
    }

   private:
    friend class Context;
    Phase(Context* context, std::string_view what, Nanos started)
        : context_{context}, what_{what}, started_{started} {}
    Context* context_;  // Null if tracing is off.
    std::string_view what_;
    Nanos started_;
  };
  /// `what`: a constant of at most 16 letters. An actor is in one phase at a time.
  Phase phase(std::string_view what) {
    const bool wanted = traced();
    return {wanted ? this : nullptr, what, wanted ? now() : Nanos{0}};
  }

  /// Sends a message; never blocks. `bulk` is the frame that the message's sections point into.
  /// Returns false if refused (a full queue, or the receiver was unknown for too long): the sender keeps its
  /// work and retries later. True means in flight, not delivered.
  template <messages::HasFields M>
  bool send(ActorId to, const M& message, messages::SharedBytes bulk = {}) {
    scratch_.clear();
    messages::encode_body(message, scratch_);
    const std::uint16_t type = M::kType;
    return post(to, type, scratch_, std::move(bulk));
  }
  template <messages::HasFields M>
  bool send(std::string_view to, const M& message, messages::SharedBytes bulk = {}) {
    return send(actor_id(to), message, std::move(bulk));
  }
  /// Sends the message on to another actor, body and bulk unchanged.
  bool forward(ActorId to, const Incoming& incoming) {
    return post(to, incoming.envelope.type, incoming.body, incoming.bulk);
  }

  virtual Nanos now() const = 0;   ///< Monotonic clock.
  virtual Nanos wall() const = 0;  ///< Wall clock, for display only.
  /// Calls `callback` once, on this loop, after `delay`; 0: at the end of this turn.
  virtual TimerId after(Nanos delay, std::function<void()> callback) = 0;
  /// No effect on a timer that fired or was cancelled.
  virtual void cancel(TimerId timer) = 0;
  /// Random stream derived from the seed of the run; equal for equal purpose and step in every actor.
  virtual Rng random(Purpose purpose, std::uint64_t step) const = 0;
  /// Drains and stops the whole node. An empty reason means a clean end.
  virtual void stop_node(std::string reason) = 0;

  /// Epoch of this incarnation: greater than the epochs of the actor's earlier ones on this machine, never 0.
  virtual std::uint64_t epoch() const = 0;
  virtual ActorId self() const = 0;
  virtual std::string_view name() const = 0;

 protected:
  virtual bool post(ActorId to, std::uint16_t type, std::span<const std::byte> body,
                    messages::SharedBytes bulk) = 0;
  virtual bool traced() const { return false; }
  virtual void phase_ended(std::string_view /*what*/, Nanos /*start*/) {}

 private:
  messages::Bytes scratch_;
};

}  // namespace emplace::runtime
