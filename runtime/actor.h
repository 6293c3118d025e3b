#pragma once
/// What an actor is: private state, one handler at a time, on one loop. It sees nothing of the world but its
/// Context.

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
using messages::kNobody;

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

/// A message as it arrived. Views are good until the handler returns; share `bulk` (or slices of it) to keep
/// it.
struct Incoming {
  messages::Envelope envelope;
  std::span<const std::byte> body;
  messages::SharedBytes bulk;  ///< Empty when there is none.

  ActorId from() const { return envelope.from; }
  template <class M>
  bool is() const {
    return envelope.type == M::kType;
  }

  /// The body as an M. Errors (kInvalid): another type, or bytes that are no such message.
  template <class M>
  Result<M> as() const {
    if (!is<M>())
      return invalid("message", "type " + std::to_string(envelope.type) + " is not the one asked for");
    return messages::decode_body<M>(body);
  }
  /// The bytes of a section of the bulk frame. Errors (kInvalid): outside the frame.
  Result<std::span<const std::byte>> section(messages::Section s) const {
    return messages::section_of(bulk.bytes(), s);
  }
  Result<messages::SharedBytes> shared_section(messages::Section s) const {
    return messages::section_of(bulk, s);
  }

  /// Calls the first handler whose argument is this message; handlers are callables of one `const M&`:
  ///   incoming.match([&](const StopRun& stop) { … }, [&](const Heartbeat& beat) { … });
  /// False: none of them is for this type. Errors (kInvalid): the body is no such message.
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

/// Thread: constructed anywhere; every handler runs on the owning loop. A handler that throws loses the
/// actor, which is then made anew by its factory, at most so often per minute.
class Actor {
 public:
  virtual ~Actor() = default;
  /// Before the first message, and again after each restart.
  virtual void on_start(Context&) {}
  virtual void on_message(Context& context, const Incoming& incoming) = 0;
  /// The node is stopping: the last chance to say something. Messages may still arrive afterwards while it
  /// drains.
  virtual void on_stop(Context&) {}
  /// Another node came (`reachable`) or was lost, and with it the actor of that name.
  virtual void on_directory(Context&, std::string_view /*actor*/, bool /*reachable*/) {
    ignores_directory_ = true;
  }
  /// It was told once and has no handler for it: a loop of thousands need not tell it of thousands more.
  bool ignores_directory() const { return ignores_directory_; }

 private:
  bool ignores_directory_ = false;
};

/// Makes an actor, at spawn and after each failure. Runs on the actor's loop.
using ActorFactory = std::function<std::unique_ptr<Actor>()>;

}  // namespace emplace::runtime
