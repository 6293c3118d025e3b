#pragma once
/// All that an actor may do. One implementation speaks ZeroMQ (runtime/node.h), one simulates
/// (runtime/sim/world.h).

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

/// Thread: the actor's own loop. Valid as long as the actor.
class Context {
 public:
  virtual ~Context() = default;

  /// Something that the actor is busy with, for the trace of the run, until it goes out of scope.
  class [[nodiscard]] Phase {
   public:
    Phase(Phase&& other) noexcept
        : context_{std::exchange(other.context_, nullptr)}, what_{other.what_}, began_{other.began_} {}
    Phase& operator=(Phase&&) = delete;
    ~Phase() {
      if (context_ != nullptr) context_->phase_ended(what_, began_);
    }

   private:
    friend class Context;
    Phase(Context* context, std::string_view what, Nanos began)
        : context_{context}, what_{what}, began_{began} {}
    Context* context_;  // Null: nobody wants to know.
    std::string_view what_;
    Nanos began_;
  };
  /// `what`: at most 16 letters, a constant. An actor is in one phase at a time.
  Phase phase(std::string_view what) {
    const bool wanted = traced();
    return {wanted ? this : nullptr, what, wanted ? now() : Nanos{0}};
  }

  /// Sends a message; never blocks. `bulk` is the frame that the message's sections point into.
  /// False: refused (a full queue, or nobody of that name was known for too long); the sender keeps its work
  /// and tries again later. True says that it is on its way, not that it arrived.
  template <messages::HasFields M>
  bool send(ActorId to, const M& message, messages::SharedBytes bulk = {}) {
    scratch_.clear();
    messages::encode_body(message, scratch_);
    return post(to, M::kType, scratch_, std::move(bulk));
  }
  template <messages::HasFields M>
  bool send(std::string_view to, const M& message, messages::SharedBytes bulk = {}) {
    return send(actor_id(to), message, std::move(bulk));
  }
  /// The same bytes to someone else, body untouched.
  bool forward(ActorId to, const Incoming& incoming) {
    return post(to, incoming.envelope.type, incoming.body, incoming.bulk);
  }

  virtual Nanos now() const = 0;   ///< Monotonic.
  virtual Nanos wall() const = 0;  ///< For people to read.
  /// Calls `callback` once, on this loop, `delay` from now; 0: at the end of this turn.
  virtual TimerId after(Nanos delay, std::function<void()> callback) = 0;
  /// No effect on one that ran or was cancelled.
  virtual void cancel(TimerId timer) = 0;
  /// A stream of this run's seed: the same for the same purpose and step, whoever asks.
  virtual Rng random(Purpose purpose, std::uint64_t step) const = 0;
  /// This actor is done; it is removed after the handler. A node without actors stops.
  virtual void stop_self() = 0;
  /// The whole node is to drain and stop. An empty reason is a clean end.
  virtual void stop_node(std::string reason) = 0;

  /// Of this life of the actor: higher than those of its earlier lives on this machine, never 0.
  virtual std::uint64_t epoch() const = 0;
  virtual ActorId self() const = 0;
  virtual std::string_view name() const = 0;

 protected:
  virtual bool post(ActorId to, std::uint16_t type, std::span<const std::byte> body,
                    messages::SharedBytes bulk) = 0;
  virtual bool traced() const { return false; }
  virtual void phase_ended(std::string_view /*what*/, Nanos /*began*/) {}

 private:
  messages::Bytes scratch_;
};

}  // namespace emplace::runtime
