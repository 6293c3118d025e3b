#pragma once
/// The header of every message: an append-only MessagePack array. The router can forward a message without
/// decoding its body. Layout: [version, type, from, to, seq, 0, trace]

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"

namespace emplace::messages {

/// XXH3-64 of the actor's name ("sampler/0"). kNoActor (0) addresses the node itself.
enum class ActorId : std::uint64_t {};
inline constexpr ActorId kNoActor{0};

/// Id of an actor. Never returns kNoActor. Any thread.
ActorId actor_id(std::string_view name);

/// Version 1: the log cannot be requested again. Version 2: a lease has no message of its own.
inline constexpr std::uint8_t kWireVersion = 3;
/// The oldest version that may join a run with this one (docs/decisions/0007-wire-version-3.md). Stored
/// frames of every version can be decoded.
inline constexpr std::uint8_t kOldestWireVersion = 3;

/// Checks the wire version in the Hello of a joining node: each side must understand the version that the
/// other sends. `spoken`: the version that the node sends. `oldest`: the oldest version that it
/// understands. Errors (kUnsupported): a message for that node, with the cure. Pure; any thread.
Result<Unit> check_wire_version(std::uint8_t spoken, std::uint8_t oldest);

struct Envelope {
  std::uint8_t version = kWireVersion;
  std::uint16_t type = 0;  ///< Message number, see messages/type_ids.h.
  ActorId from = kNoActor;
  ActorId to = kNoActor;
  /// Sequence number per connection of two nodes, from 1; a gap means loss. 0 within a node.
  std::uint64_t seq = 0;
  std::uint64_t trace = 0;  ///< Send time by the sender's monotonic clock [ns]; 0: not traced.

  bool operator==(const Envelope&) const = default;
};

/// The range of a message number gives its class, so a router can handle messages that it does not know.
/// 64..127: control messages, small and urgent, on the control connection.
inline constexpr std::uint16_t kFirstControlType = 64;
/// 128..159: a newer message replaces an older one in a queue.
inline constexpr std::uint16_t kFirstLatestOnlyType = 128;
/// 1..63 and from 160 on: data, in order, never dropped from a queue.
inline constexpr std::uint16_t kFirstPlainType = 160;
/// Runtime messages between nodes (hello, bye, beat); control class.
inline constexpr std::uint16_t kFirstRuntimeType = 0xFF00;

constexpr bool travels_on_control(std::uint16_t type) {
  return (type >= kFirstControlType && type < kFirstLatestOnlyType) || type >= kFirstRuntimeType;
}
constexpr bool keeps_latest_only(std::uint16_t type) {
  return type >= kFirstLatestOnlyType && type < kFirstPlainType;
}

/// The largest encoded envelope.
inline constexpr std::size_t kMaxEnvelopeBytes = 48;

/// Writes at most kMaxEnvelopeBytes to `out`; returns the number of bytes written.
std::size_t encode_envelope(const Envelope& envelope, std::byte* out);

/// Decodes the envelope at `bytes[0]`; `used`, when given, receives its length. Elements after the seventh
/// (from a newer peer) are skipped. Errors: kInvalid: not such an array, or a field of the wrong kind;
/// kUnsupported: version 0.
Result<Envelope> decode_envelope(std::span<const std::byte> bytes, std::size_t* used = nullptr);

}  // namespace emplace::messages
