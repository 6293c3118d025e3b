#include "tests/runtime/sim/network.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "runtime/frame.h"

namespace emplace::runtime::sim {
namespace {

constexpr std::size_t kControl = 0, kData = 1;
constexpr std::size_t kHeadSide = 0, kNodeSide = 1;
/// Limit of packets in flight per plane and direction; the rest waits in the sender's queue, like ZeroMQ's
/// high-water mark.
constexpr std::size_t kInFlight = 1'000;
constexpr double kFirstRedial_s = 0.1, kLongestRedial_s = 5.0;

std::size_t plane_of(const Packet& packet) {
  return messages::travels_on_control(packet.envelope.type) ? kControl : kData;
}

}  // namespace

struct Network::Frame {
  std::size_t plane = kControl;
  std::uint64_t wire = 0;
  std::uint64_t seq = 0;
  std::function<void()> on_arrival;  ///< Set for Hello, Welcome and Beat; empty for a packet.
  Packet packet;
};

struct Network::Side {
  explicit Side(Nanos timeout) : session{timeout} {}
  Session session;  // Session with the other side.
  bool established = false;
  std::array<std::deque<Packet>, Session::kPlanes> outbox;
  std::array<std::uint64_t, Session::kPlanes> next_seq{1, 1};
  std::array<std::size_t, Session::kPlanes> in_flight{};
  std::array<Nanos, Session::kPlanes> last_due{};
  std::optional<Nanos> away_since;
  std::uint64_t noticed = 0;  // Messages lost so far, plus one per incarnation change.
  // State of the direction from this side to the other.
  bool blocked = false;
  Nanos open_from{0};
  Nanos clogged_until{0};
  std::vector<std::shared_ptr<Frame>> held;
};

struct Network::Link {
  Link(NodeId of, Nanos timeout) : node{of}, sides{Side{timeout}, Side{timeout}} {}
  NodeId node;
  LinkFaults faults;
  std::array<Side, 2> sides;
  std::uint64_t wire = 1;   // TCP connection number; packets of older connections never arrive.
  std::uint64_t epoch = 0;  // Incarnation of the dialling node.
  unsigned dials = 0;
  bool redialling = false;
};

Network::Network(World& world, std::uint64_t seed) : world_{world}, rng_{seed, Purpose::kSimulation, 2} {}
Network::~Network() = default;

NodeId Network::node_at(const Link& link, std::size_t side) const {
  return side == kHeadSide ? kHead : link.node;
}

void Network::add(NodeId node) {
  links_.push_back(node == kHead ? nullptr
                                 : std::make_unique<Link>(node, options_.heartbeat * options_.missed));
  // A single-node world needs no heartbeat of the head.
  if (links_.size() == 2) node_up(kHead);
  if (node != kHead) node_up(node);
}

void Network::set_faults(NodeId node, const LinkFaults& faults) { link_of(node).faults = faults; }

Nanos Network::draw_delay(const LinkFaults& faults) {
  const auto spread = static_cast<double>((faults.delay_most - faults.delay_least).count());
  return faults.delay_least + Nanos{static_cast<std::int64_t>(rng_.uniform_double() * spread)};
}

void Network::block(NodeId node, bool to_head, bool from_head) {
  Link& link = link_of(node);
  for (const auto& [side, blocked] : {std::pair{kNodeSide, to_head}, std::pair{kHeadSide, from_head}}) {
    Side& from = link.sides[side];
    from.blocked = blocked;
    if (blocked) continue;
    // TCP retransmits everything after its timer.
    from.open_from = world_.now() + draw_delay(link.faults) * 10;
    for (auto& frame : std::exchange(from.held, {})) schedule(link, side, frame, from.open_from);
  }
}

void Network::cut(NodeId node) {
  Link& link = link_of(node);
  ++link.wire;
  ++counters_.cuts;
  for (Side& side : link.sides) side.in_flight = {};
  world_.note("cut " + world_.node_name(node));
}

void Network::clog(NodeId node, Nanos until) {
  for (Side& side : link_of(node).sides) side.clogged_until = until;
}

bool Network::connected(NodeId node) const {
  return link_of(node).sides[0].established && link_of(node).sides[1].established;
}

/// A crashed process loses its state and its connections.
void Network::node_down(NodeId node) {
  for (const auto& link : links_) {
    if (!link || (node != kHead && link->node != node)) continue;
    ++link->wire;
    Side& dead = link->sides[node == kHead ? kHeadSide : kNodeSide];
    const std::uint64_t noticed = dead.noticed + 1;
    const bool blocked = dead.blocked;
    dead = Side{options_.heartbeat * options_.missed};
    dead.noticed = noticed;
    dead.blocked = blocked;
    link->sides[node == kHead ? kNodeSide : kHeadSide].in_flight = {};
    if (node != kHead) link->redialling = false;
  }
}

void Network::node_up(NodeId node) {
  const Nanos first = Nanos{
      static_cast<std::int64_t>(rng_.uniform_double() * static_cast<double>(options_.heartbeat.count()))};
  world_.at_node(node, world_.now() + first, [this, node] { tick(node); });
  if (node != kHead) world_.at_node(node, world_.now(), [this, node] { dial(link_of(node)); });
}

bool Network::room(NodeId from, NodeId to, const Packet& packet) {
  Side& side = from == kHead ? link_of(to).sides[kHeadSide] : link_of(from).sides[kNodeSide];
  const auto waiting = static_cast<std::size_t>(
      std::count_if(world_.outgoing_.begin(), world_.outgoing_.end(), [&](const Packet& other) {
        return plane_of(other) == plane_of(packet) && other.envelope.to == packet.envelope.to;
      }));
  if (side.outbox[plane_of(packet)].size() + waiting < options_.queue) return true;
  ++counters_.refused;
  return false;
}

void Network::send(NodeId from, NodeId to, Packet packet) {
  Link& link = from == kHead ? link_of(to) : link_of(from);
  const std::size_t side = from == kHead ? kHeadSide : kNodeSide;
  auto& outbox = link.sides[side].outbox[plane_of(packet)];
  if (messages::keeps_latest_only(packet.envelope.type)) {
    const auto older = std::find_if(outbox.begin(), outbox.end(), [&](const Packet& waiting) {
      return waiting.envelope.type == packet.envelope.type && waiting.envelope.from == packet.envelope.from &&
             waiting.envelope.to == packet.envelope.to;
    });
    if (older != outbox.end()) {
      outbox.erase(older);
      ++counters_.replaced;
    }
  }
  if (outbox.size() >= options_.queue) {  // Only when the head forwards for another node.
    ++counters_.refused;
    ++link.sides[side].noticed;
    return;
  }
  packet.noticed += link.sides[side].noticed;
  outbox.push_back(std::move(packet));
  flush(link, side);
}

void Network::flush(Link& link, std::size_t number) {
  Side& side = link.sides[number];
  // ROUTER_MANDATORY: sending to a closed connection fails.
  if (number == kHeadSide && side.established && !world_.up(link.node) && !side.blocked)
    lose(link, kHeadSide, "its connection is gone");
  if (!side.established) return;
  for (std::size_t plane = 0; plane < Session::kPlanes; ++plane) {
    while (!side.outbox[plane].empty() && side.in_flight[plane] < kInFlight) {
      Frame frame{
          .plane = plane, .seq = side.next_seq[plane]++, .packet = std::move(side.outbox[plane].front())};
      side.outbox[plane].pop_front();
      ++side.in_flight[plane];
      ++counters_.sent;
      transmit(link, number, std::move(frame));
    }
  }
}

void Network::transmit(Link& link, std::size_t number, Frame sent) {
  Side& side = link.sides[number];
  const LinkFaults& faults = link.faults;
  auto frame = std::make_shared<Frame>(std::move(sent));
  frame->wire = link.wire;
  const auto chance = [&](double rate) { return rate > 0 && rng_.uniform_double() < rate; };
  Nanos due =
      std::max(world_.now() + draw_delay(faults) * (chance(faults.straggle) ? 100 : 1), side.clogged_until);
  if (!frame->on_arrival && chance(faults.lose)) {
    ++counters_.lost;
    --side.in_flight[frame->plane];
    return;
  }
  if (!frame->on_arrival && chance(faults.reorder)) {
    ++counters_.reordered;
    return schedule(link, number, frame, due + faults.delay_most * 20);
  }
  due = std::max(due, side.last_due[frame->plane]);
  side.last_due[frame->plane] = due;
  schedule(link, number, frame, due);
  if (!frame->on_arrival && chance(faults.duplicate)) {
    ++side.in_flight[frame->plane];
    schedule(link, number, frame, due + draw_delay(faults));
  }
}

void Network::schedule(Link& link, std::size_t from, const std::shared_ptr<Frame>& frame, Nanos when) {
  world_.at_node(node_at(link, 1 - from), when, [this, &link, from, frame] { deliver(link, from, frame); });
}

void Network::deliver(Link& link, std::size_t from, const std::shared_ptr<Frame>& frame) {
  Side& sender = link.sides[from];
  if (frame->wire != link.wire || !world_.up(node_at(link, 1 - from))) {
    ++counters_.cut_off;
    return;
  }
  if (sender.blocked) {
    sender.held.push_back(frame);
    return;
  }
  // Keep FIFO order with packets held back earlier.
  if (world_.now() < sender.open_from) return schedule(link, from, frame, sender.open_from);
  if (frame->on_arrival) return frame->on_arrival();
  if (sender.in_flight[frame->plane] > 0) --sender.in_flight[frame->plane];
  arrive(link, 1 - from, *frame);
  flush(link, from);
}

void Network::arrive(Link& link, std::size_t number, Frame& frame) {
  Side& side = link.sides[number];
  messages::Bytes bytes;
  messages::Envelope numbered = frame.packet.envelope;
  numbered.seq = frame.seq;
  append_record(numbered, frame.packet.body, frame.packet.bulk.bytes(), bytes);
  if (link.faults.flip > 0 && rng_.uniform_double() < link.faults.flip) {
    ++counters_.flipped;
    const std::uint32_t bit = rng_.below(static_cast<std::uint32_t>(bytes.size() * 8));
    bytes[bit / 8] ^= std::byte{1} << bit % 8;
    if (options_.checksum) return cut(link.node);
  }
  std::span<const std::byte> batch{bytes};
  Record record;
  if (!side.session.open() || !side.established || !take_record(batch, record)) {
    ++counters_.malformed;
    return;
  }
  const Session::Order order = side.session.on_message(frame.plane, record.envelope.seq, world_.now());
  if (order == Session::Order::kRepeat) {
    ++counters_.repeats;
    return;
  }
  if (order == Session::Order::kGap) {
    counters_.gaps += side.session.missing();
    side.noticed += side.session.missing();
  }
  ++counters_.delivered;
  Packet packet{
      .envelope = record.envelope,
      .body = messages::Bytes(record.body.begin(), record.body.end()),
      .bulk = record.bulk.empty() ? messages::SharedBytes{} : messages::SharedBytes::copy(record.bulk),
      .due = world_.now(),
      .number = frame.packet.number,
      .nth = frame.packet.nth,
      .noticed = frame.packet.noticed + side.noticed};
  const std::optional<NodeId> home = world_.home_of(packet.envelope.to);
  if (home == node_at(link, number)) {
    world_.enqueue(std::move(packet), true);
  } else if (home && number == kHeadSide) {
    send(kHead, *home, std::move(packet));
  } else {
    ++counters_.unroutable;
  }
}

void Network::dial(Link& link) {
  Side& node = link.sides[kNodeSide];
  link.redialling = false;
  link.epoch = next_epoch_++;
  ++link.wire;
  for (Side& side : link.sides) side.in_flight = {}, side.held.clear();
  node.established = false;
  node.session.on_hello(link.epoch, world_.now());
  send_hello(link);
}

void Network::send_hello(Link& link) {
  transmit(link, kNodeSide, Frame{.on_arrival = [this, &link, epoch = link.epoch, wire = link.wire] {
             on_hello(link, epoch, wire);
           }});
}

void Network::on_hello(Link& link, std::uint64_t epoch, std::uint64_t) {
  Side& head = link.sides[kHeadSide];
  const Side& node = link.sides[kNodeSide];
  switch (head.session.on_hello(epoch, world_.now())) {
    case Session::Hello::kFenced:
      ++counters_.fenced;
      return redial_later(link);
    case Session::Hello::kNew:
      head.established = true;
      head.away_since.reset();
      ++head.noticed;
      // Nothing of this incarnation is numbered before its Welcome, so next_seq is what its Hello would
      // state.
      for (std::size_t plane = 0; plane < Session::kPlanes; ++plane)
        head.session.expect(plane, node.next_seq[plane]);
      world_.directory(kHead, link.node, true);
      break;
    case Session::Hello::kSame:
      break;
  }
  transmit(link, kHeadSide,
           Frame{.on_arrival = [this, &link, epoch, wire = link.wire, first_seq = head.next_seq] {
             on_welcome(link, epoch, wire, first_seq);
           }});
  for (Nanos& last : head.last_due) last = std::max(last, head.last_due[kControl]);
  flush(link, kHeadSide);
}

void Network::on_welcome(Link& link, std::uint64_t epoch, std::uint64_t,
                         std::array<std::uint64_t, Session::kPlanes> first_seq) {
  Side& node = link.sides[kNodeSide];
  if (!node.session.open() || node.session.epoch() != epoch) return;
  node.session.on_received(world_.now());
  if (node.established) return;
  node.established = true;
  node.away_since.reset();
  ++node.noticed;
  link.dials = 0;
  for (std::size_t plane = 0; plane < Session::kPlanes; ++plane) node.session.expect(plane, first_seq[plane]);
  world_.directory(link.node, kHead, true);
  flush(link, kNodeSide);
}

void Network::redial_later(Link& link) {
  Side& node = link.sides[kNodeSide];
  if (link.redialling) return;
  link.redialling = true;
  node.session.end();
  node.established = false;
  ++link.wire;
  const double longest_s =
      std::min(kLongestRedial_s, kFirstRedial_s * static_cast<double>(1u << std::min(link.dials, 6u)));
  ++link.dials;
  const Nanos wait{static_cast<std::int64_t>(rng_.uniform_double() * longest_s * 1e9)};
  world_.at_node(link.node, world_.now() + wait, [this, &link] { dial(link); });
}

void Network::lose(Link& link, std::size_t number, std::string_view why) {
  Side& side = link.sides[number];
  ++counters_.peers_lost;
  ++side.noticed;
  side.session.end();
  side.established = false;
  side.away_since = world_.now();
  world_.note(world_.node_name(node_at(link, number)) + " loses " +
              world_.node_name(node_at(link, 1 - number)) + ": " + std::string{why});
  if (number == kNodeSide) redial_later(link);
  // Defer to the end of this turn, like the router: a handler may be sending right now.
  const NodeId here = node_at(link, number), there = node_at(link, 1 - number);
  world_.at_node(here, world_.now(), [this, here, there] { world_.directory(here, there, false); });
}

/// Runs every heartbeat of a node: sends heartbeats to connected peers and checks for silent ones.
void Network::tick(NodeId node) {
  world_.at_node(node, world_.now() + options_.heartbeat, [this, node] { tick(node); });
  const std::size_t number = node == kHead ? kHeadSide : kNodeSide;
  for (const auto& link : links_) {
    if (!link || (node != kHead && link->node != node)) continue;
    Side& side = link->sides[number];
    if (side.established && side.session.lost(world_.now()))
      lose(*link, number, "silent for three heartbeats");
    if (side.established)
      transmit(*link, number, Frame{.on_arrival = [this, &link = *link, other = 1 - number] {
        if (link.sides[other].established) link.sides[other].session.on_received(world_.now());
      }});
    if (!side.established && number == kNodeSide && !link->redialling) {
      // No Welcome yet. Redial after too long a silence.
      if (side.session.lost(world_.now())) {
        redial_later(*link);
      } else {
        send_hello(*link);
      }
    }
    if (side.away_since && world_.now() - *side.away_since > options_.parking) {
      for (auto& outbox : side.outbox) {
        counters_.unroutable += outbox.size();
        side.noticed += outbox.size();
        outbox.clear();
      }
      side.away_since.reset();
    }
  }
}

}  // namespace emplace::runtime::sim
