#pragma once
/// What stands on the outside of every message: a MessagePack array, append only, so that the router can
/// forward it without opening the body.  [version, type, from, to, seq, 0, trace]

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"

namespace emplace::messages {

/// XXH3-64 of the actor's name ("sampler/0"). kNobody (0) addresses the node itself.
enum class ActorId : std::uint64_t {};
inline constexpr ActorId kNobody{0};

/// Never kNobody. Any thread.
ActorId actor_id(std::string_view name);

/// 1: before the log could be asked for again; 2: before a lease had a message of its own.
inline constexpr std::uint8_t kWireVersion = 3;
/// The oldest version whose nodes may take part beside this one (docs/decisions/0007-wire-version-3.md).
/// Stored frames of every version are decoded.
inline constexpr std::uint8_t kOldestWireVersion = 3;

/// Checks the wire version of a node that asks to join, from its Hello: each side must understand what the
/// other speaks. `spoken`: the version that it speaks; `oldest`: the oldest that it understands.
/// Errors (kUnsupported): in words for that node, with the cure. Pure; any thread.
Result<Unit> check_wire_version(std::uint8_t spoken, std::uint8_t oldest);

struct Envelope {
  std::uint8_t version = kWireVersion;
  std::uint16_t type = 0;  ///< messages/type_ids.h.
  ActorId from = kNobody;
  ActorId to = kNobody;
  std::uint64_t seq = 0;    ///< Per connection of two nodes, from 1: gaps show. 0 within a node.
  std::uint64_t trace = 0;  ///< [ns] When it was sent, by its sender's monotonic clock; 0: not traced.

  bool operator==(const Envelope&) const = default;
};

/// The class of a message is the range of its number, so that a router that knows no message can treat it
/// rightly.
inline constexpr std::uint16_t kFirstControlType =
    64;  ///< 64..127: small and urgent, on the control connection.
inline constexpr std::uint16_t kFirstLatestOnlyType =
    128;  ///< 128..159: a newer one replaces an older one in a queue.
inline constexpr std::uint16_t kFirstPlainType =
    160;  ///< 1..63 and 160 on: data, in order, never dropped in a queue.
inline constexpr std::uint16_t kFirstRuntimeType = 0xFF00;  ///< Between nodes: hello, bye, beat. Control.

constexpr bool travels_on_control(std::uint16_t type) {
  return (type >= kFirstControlType && type < kFirstLatestOnlyType) || type >= kFirstRuntimeType;
}
constexpr bool keeps_latest_only(std::uint16_t type) {
  return type >= kFirstLatestOnlyType && type < kFirstPlainType;
}

/// The largest encoded envelope.
inline constexpr std::size_t kMaxEnvelopeBytes = 48;

/// Writes at most kMaxEnvelopeBytes to `out`; returns how many.
std::size_t encode_envelope(const Envelope& envelope, std::byte* out);

/// Reads an envelope that begins at `bytes[0]`; `used`, when given, receives its length. Elements beyond the
/// seventh (from a newer peer) are skipped. Errors (kInvalid): not such an array, a field of the wrong kind;
/// kUnsupported: version 0.
Result<Envelope> decode_envelope(std::span<const std::byte> bytes, std::size_t* used = nullptr);

}  // namespace emplace::messages
