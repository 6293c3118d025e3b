#pragma once
/// Actor: private state, one handler at a time, on one event loop. Its Context is its only access to the
/// outside.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/result.h"
#include "messages/codec.h"
#include "messages/envelope.h"

namespace emplace::runtime {

class Context;
using messages::actor_id;
using messages::ActorId;
using messages::kNoActor;

namespace detail {
template <class F>
struct HandlerArgument : HandlerArgument<decltype(&F::operator())> {};
template <class F, class R, class M>
struct HandlerArgument<R (F::*)(M) const> {
  using type = std::remove_cvref_t<M>;
};
template <class F, class R, class M>
struct HandlerArgument<R (F::*)(M)> {
  using type = std::remove_cvref_t<M>;
};
}  // namespace detail

/// A message as received. Views are valid until the handler returns; share `bulk` (or slices of it) to keep
/// it.
struct Incoming {
  messages::Envelope envelope;
  std::span<const std::byte> body;
  messages::SharedBytes bulk;  ///< Empty if the message has no bulk frame.

  ActorId from() const { return envelope.from; }
  template <class M>
  bool is() const {
    return envelope.type == M::kType;
  }

  /// Decodes the body as an M. Errors (kInvalid): the message has another type, or the body is malformed.
  template <class M>
  Result<M> as() const {
    if (!is<M>())
      return invalid("message", "type " + std::to_string(envelope.type) + " is not the one asked for");
    return messages::decode_body<M>(body);
  }
  /// Bytes of a section of the bulk frame. Errors (kInvalid): the section is outside the frame.
  Result<std::span<const std::byte>> section(messages::Section s) const {
    return messages::section_of(bulk.bytes(), s);
  }
  Result<messages::SharedBytes> shared_section(messages::Section s) const {
    return messages::section_of(bulk, s);
  }

  /// Calls the first handler whose argument type matches; handlers are callables that take one `const M&`:
  ///   incoming.match([&](const StopRun& stop) { … }, [&](const Heartbeat& beat) { … });
  /// Returns false if no handler takes this type. Errors (kInvalid): the body is malformed.
  template <class... Handlers>
  Result<bool> match(Handlers&&... handlers) const {
    Result<bool> outcome = false;
    (void)((try_one(outcome, handlers)) || ...);
    return outcome;
  }

 private:
  template <class Handler>
  bool try_one(Result<bool>& outcome, Handler& handler) const {
    using M = typename detail::HandlerArgument<std::remove_cvref_t<Handler>>::type;
    if (!is<M>()) return false;
    const Result<M> message = messages::decode_body<M>(body);
    if (message) handler(*message);
    outcome = message ? Result<bool>{true} : Result<bool>{message.error()};
    return true;
  }
};

/// Thread: constructed anywhere; every handler runs on the owning loop. If a handler throws, the actor is
/// destroyed and its factory makes a new one, up to NodeOptions::restarts_per_minute.
class Actor {
 public:
  virtual ~Actor() = default;
  /// Called before the first message, and again after each restart.
  virtual void on_start(Context&) {}
  virtual void on_message(Context& context, const Incoming& incoming) = 0;
  /// Called once when the node stops: last chance to send. Messages may still arrive afterwards, while the
  /// node drains.
  virtual void on_stop(Context&) {}
  /// Called when another node connects (`reachable`) or is lost, for each of its actors.
  virtual void on_directory(Context&, std::string_view /*actor*/, bool /*reachable*/) {
    ignores_directory_ = true;
  }
  /// True after one event without an override: the loop then skips further events, of which there may be
  /// thousands.
  bool ignores_directory() const { return ignores_directory_; }

 private:
  bool ignores_directory_ = false;
};

/// Makes an actor, at spawn and after each failure. Thread: the actor's loop.
using ActorFactory = std::function<std::unique_ptr<Actor>()>;

}  // namespace emplace::runtime
