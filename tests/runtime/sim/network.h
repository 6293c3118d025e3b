#pragma once
/// Simulated network: connections that carry numbered messages on two planes, with faults drawn from one
/// seed. It simulates ZeroMQ and TCP and their faults; above them the real Session detects incarnations,
/// repeats and gaps, as in the router. Each message is passed to the session as one record in the real frame
/// format.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "runtime/core/session.h"
#include "tests/runtime/sim/world.h"

namespace emplace::runtime::sim {

/// Faults of one link, in both directions. Rates are probabilities per message.
struct LinkFaults {
  Nanos delay_least = std::chrono::microseconds{50};
  Nanos delay_most = std::chrono::microseconds{200};
  double lose = 0;       ///< Never arrives; the next one reveals the gap.
  double duplicate = 0;  ///< Arrives twice; the session drops the second.
  double reorder = 0;    ///< Overtaken by later ones: a gap, then a dropped repeat.
  double flip = 0;       ///< One bit is flipped.
  double straggle = 0;   ///< Takes 100 times as long and delays those behind it.
};

struct NetworkOptions {
  Nanos heartbeat = std::chrono::milliseconds{500};
  int missed = 3;                            ///< Heartbeats without a message after which a peer is lost.
  Nanos parking = std::chrono::seconds{10};  ///< How long messages wait for a lost peer.
  std::size_t queue = 65'536;                ///< Queue capacity per link, plane and direction.
  /// Whether frames carry a checksum: a flipped bit then only costs the connection. False: like ipc and plain
  /// tcp, where the decoder receives the damaged message.
  bool checksum = true;
};

struct NetworkCounters {
  std::uint64_t sent = 0, delivered = 0;
  std::uint64_t lost = 0;     ///< Lost one by one to the `lose` fault.
  std::uint64_t cut_off = 0;  ///< Packets in flight on a connection that ended.
  std::uint64_t gaps = 0, repeats = 0, reordered = 0, flipped = 0, malformed = 0;
  std::uint64_t peers_lost = 0, fenced = 0, unroutable = 0, refused = 0, replaced = 0, cuts = 0;
};

/// Star network with the head in the center. Thread: the world's.
class Network {
 public:
  Network(World& world, std::uint64_t seed);
  ~Network();

  void configure(const NetworkOptions& options) { options_ = options; }
  /// Sets the faults of the link between this node and the head from now on.
  void set_faults(NodeId node, const LinkFaults& faults);
  /// Blocks directions of a link: packets are held back and arrive in order once unblocked, unless the
  /// session has timed out before.
  void block(NodeId node, bool to_head, bool from_head);
  /// Ends the connection at once (RST); packets in flight are lost. The node redials.
  void cut(NodeId node);
  /// Delays all arrivals until this time.
  void clog(NodeId node, Nanos until);

  bool connected(NodeId node) const;
  const NetworkCounters& counters() const { return counters_; }

 private:
  friend class World;
  struct Link;
  struct Side;
  struct Frame;

  void add(NodeId node);
  void node_down(NodeId node);
  void node_up(NodeId node);
  bool room(NodeId from, NodeId to, const Packet& packet);
  void send(NodeId from, NodeId to, Packet packet);
  void flush(Link& link, std::size_t side);
  void transmit(Link& link, std::size_t side, Frame frame);
  void schedule(Link& link, std::size_t from, const std::shared_ptr<Frame>& frame, Nanos when);
  void deliver(Link& link, std::size_t from, const std::shared_ptr<Frame>& frame);
  void arrive(Link& link, std::size_t to, Frame& frame);
  void dial(Link& link);
  void redial_later(Link& link);
  void send_hello(Link& link);
  void on_hello(Link& link, std::uint64_t epoch, std::uint64_t connection);
  void on_welcome(Link& link, std::uint64_t epoch, std::uint64_t connection,
                  std::array<std::uint64_t, Session::kPlanes> first_seq);
  void tick(NodeId node);
  void lose(Link& link, std::size_t side, std::string_view why);
  Link& link_of(NodeId node) { return *links_.at(static_cast<std::size_t>(node)); }
  const Link& link_of(NodeId node) const { return *links_.at(static_cast<std::size_t>(node)); }
  Nanos draw_delay(const LinkFaults& faults);
  NodeId node_at(const Link& link, std::size_t side) const;

  World& world_;
  NetworkOptions options_;
  Rng rng_;
  std::vector<std::unique_ptr<Link>> links_;  // Indexed by node; null for the head.
  NetworkCounters counters_;
  std::uint64_t next_epoch_ = 1;
};

}  // namespace emplace::runtime::sim
