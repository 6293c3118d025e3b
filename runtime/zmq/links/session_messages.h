#pragma once
/// Runtime messages below the actors. Hello, Welcome, Beat, Bye and ByeAck travel between nodes; the others
/// stay within a process and are refused from outside.

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <vector>

#include "messages/codec.h"
#include "messages/envelope.h"

namespace emplace::runtime {

inline constexpr std::uint16_t kFirstLoopType = messages::kFirstRuntimeType + 0x10;

enum class Plane : std::uint8_t { kControl = 0, kData = 1 };
inline constexpr std::size_t kPlanes = 2;
inline constexpr std::size_t plane_index(std::uint16_t type) {
  return messages::travels_on_control(type) ? 0 : 1;
}

/// ZMTP routing id of a dialling node's connection; never reused, because the epoch is random.
inline std::string routing_id_of(const std::string& node, std::uint64_t epoch, std::size_t plane) {
  return fmt::format("{}-{:016x}-{}", node, epoch, plane == 0 ? 'c' : 'd');
}

/// Dialling node -> head: first message on each connection, repeated until it is welcomed.
struct Hello {
  static constexpr std::uint16_t kType = messages::kFirstRuntimeType;
  std::string node;
  std::uint64_t epoch = 0;  ///< Random; new for each dial.
  Plane plane = Plane::kControl;
  std::uint64_t first_seq = 1;  ///< Sequence number of the next message on this connection.
  std::vector<std::string> actors;
  std::uint8_t wire = 1;         ///< Wire version it uses; messages::check_wire_version.
  std::uint8_t oldest_wire = 1;  ///< Oldest wire version it understands.
  std::string run;               ///< Identity of its run; empty: it belongs to none.
  EMPLACE_FIELDS(node, epoch, plane, first_seq, actors, wire, oldest_wire, run)
};

/// Head -> dialling node, on the same connection.
struct Welcome {
  static constexpr std::uint16_t kType = messages::kFirstRuntimeType + 1;
  std::string node;
  std::uint64_t epoch = 0;  ///< Epoch of the dialling node, echoed.
  Plane plane = Plane::kControl;
  std::uint64_t first_seq = 1;
  std::vector<std::string> actors;  ///< All actors that the head can reach.
  std::string run;                  ///< Identity of the head's run; empty: it has none.
  EMPLACE_FIELDS(node, epoch, plane, first_seq, actors, run)
};

/// Both ways, every heartbeat, on the control connection. Lists actors that came or left since the last one.
struct Beat {
  static constexpr std::uint16_t kType = messages::kFirstRuntimeType + 2;
  std::vector<std::string> joined;
  std::vector<std::string> left;
  EMPLACE_FIELDS(joined, left)
};

/// Final message on a connection. `fenced`: this epoch was replaced or refused; redial with a new one, unless
/// `final`: that would be refused, too. `other_run`: the head is of another run than the node. `over`, of a
/// head that ends: the run is over; no other start follows.
struct Bye {
  static constexpr std::uint16_t kType = messages::kFirstRuntimeType + 3;
  std::string reason;
  bool fenced = false;
  bool final = false;
  bool over = false;
  bool other_run = false;
  EMPLACE_FIELDS(reason, fenced, final, over, other_run)
};

/// Acknowledges that everything before the Bye has arrived.
struct ByeAck {
  static constexpr std::uint16_t kType = messages::kFirstRuntimeType + 4;
  Plane plane = Plane::kControl;
  EMPLACE_FIELDS(plane)
};

/// I/O loop -> own loop: stop the actors and answer LoopDone; sent again with `finish` to end the thread.
struct LoopStop {
  static constexpr std::uint16_t kType = kFirstLoopType;
  bool finish = false;
  EMPLACE_FIELDS(finish)
};
struct LoopDone {
  static constexpr std::uint16_t kType = kFirstLoopType + 1;
  bool finish = false;
  EMPLACE_FIELDS(finish)
};
/// Own loop -> I/O loop: an actor asks to stop the node, or failed too often.
struct LoopWantsStop {
  static constexpr std::uint16_t kType = kFirstLoopType + 2;
  std::string reason;
  bool failed = false;
  EMPLACE_FIELDS(reason, failed)
};
/// I/O loop -> own loop: triggers Actor::on_directory.
struct LoopDirectory {
  static constexpr std::uint16_t kType = kFirstLoopType + 3;
  std::string actor;
  bool reachable = false;
  EMPLACE_FIELDS(actor, reachable)
};

}  // namespace emplace::runtime
