#include "executor/sim/placeto_simulator.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

namespace emplace {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// A point in time. Simultaneous events are ordered by waves: events triggered by a free op at its own start
/// come after all events that were already due at that time.
struct Moment {
  double us = 0;
  std::uint32_t wave = 0;
};
bool before(const Moment& a, const Moment& b) { return a.us < b.us || (a.us == b.us && a.wave < b.wave); }
Moment later(const Moment& a, const Moment& b) { return before(a, b) ? b : a; }

/// An event that readers of an op wait for: its end on its own device, or the arrival of one output
/// elsewhere.
struct Event {
  Moment at;
  std::uint32_t op;
  std::uint16_t output;
  bool remote;
};

/// A sorted stream of events, kept for the whole evaluation.
struct Stream {
  std::vector<Event> events;
  std::size_t next = 0;
};

struct Edge {
  std::uint32_t child;
  std::uint16_t output;
};

struct Node {
  std::uint32_t first_edge = 0;
  std::uint32_t first_output = 0;
  std::uint32_t num_outputs = 0;
  std::uint32_t waits = 0;
};

}  // namespace

struct PlacetoSimulator::State {
  std::size_t num_ops, num_devices;
  PlacetoOptions options;
  std::vector<double> cost_us;  // [rows, ops]
  std::vector<std::size_t> row_of_device;
  std::vector<Node> nodes;          // [ops + 1]
  std::vector<Edge> edges;          // Sorted by parent, then child, then output.
  std::vector<double> transfer_us;  // [tensors]
  std::vector<std::uint32_t> waits_at_start;
  std::vector<std::uint32_t> sources;  // Ops without inputs, by id.

  // State of one evaluation.
  std::vector<std::uint32_t> waits;
  std::vector<std::uint8_t> has_remote_reader;  // [tensors] 1: an op on another device reads it.
  // [tensors] The transferred outputs of each op, ordered by their first remote reader.
  std::vector<std::uint16_t> departures;
  std::vector<std::uint16_t> num_departures;   // [ops]
  std::vector<std::uint8_t> has_local_reader;  // [ops] 1: an op on the same device reads it.
  std::vector<Moment> device_free, bus_free;
  std::vector<Stream> streams;  // [2 × devices] Ends, then arrivals.
  std::vector<double> heads;    // [2 × devices] Time of each stream's next event.
  const DeviceId* place = nullptr;

  void become_ready(std::uint32_t op, Moment now);
  void deliver(const Event& event);
  void push(std::size_t stream, const Event& event) {
    Stream& s = streams[stream];
    if (s.next == s.events.size()) heads[stream] = event.at.us;
    s.events.push_back(event);
  }
  std::size_t earliest() const;
};

PlacetoSimulator::PlacetoSimulator(const OpGraph& graph, std::vector<double> cost_us,
                                   std::vector<std::size_t> row_of_device, PlacetoOptions options)
    : state_{std::make_unique<State>()} {
  EMPLACE_CHECK(graph.ids_are_topological(), "Placeto's simulator needs ids in topological order");
  EMPLACE_CHECK(!row_of_device.empty() && row_of_device.size() <= kMaxDevices, "1 to 256 devices");
  State& s = *state_;
  s.num_ops = graph.num_ops();
  s.num_devices = row_of_device.size();
  s.options = options;
  s.cost_us = std::move(cost_us);
  s.row_of_device = std::move(row_of_device);
  s.nodes.resize(s.num_ops + 1);
  s.waits_at_start.resize(s.num_ops);
  for (std::uint32_t i = 0; i < s.num_ops; ++i) {
    const OpId op{i};
    Node& node = s.nodes[i];
    node.first_edge = static_cast<std::uint32_t>(s.edges.size());
    node.first_output = static_cast<std::uint32_t>(index(graph.first_output(op)));
    node.num_outputs = static_cast<std::uint32_t>(graph.num_outputs(op));
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
      const TensorId tensor = graph.output(op, k);
      s.transfer_us.push_back(static_cast<double>(graph.bytes(tensor)) / options.bus_bytes_per_us);
      for (const OpId child : graph.consumers(tensor)) {
        s.edges.push_back({static_cast<std::uint32_t>(index(child)), static_cast<std::uint16_t>(k)});
        ++s.waits_at_start[index(child)];
      }
    }
    std::sort(s.edges.begin() + node.first_edge, s.edges.end(), [](const Edge& a, const Edge& b) {
      return a.child != b.child ? a.child < b.child : a.output < b.output;
    });
  }
  s.nodes[s.num_ops].first_edge = static_cast<std::uint32_t>(s.edges.size());
  s.nodes[s.num_ops].first_output = static_cast<std::uint32_t>(graph.num_tensors());
  for (std::uint32_t i = 0; i < s.num_ops; ++i) {
    if (s.waits_at_start[i] == 0) s.sources.push_back(i);
  }
  s.waits.resize(s.num_ops);
  s.has_remote_reader.resize(graph.num_tensors());
  s.departures.resize(graph.num_tensors());
  s.num_departures.resize(s.num_ops);
  s.has_local_reader.resize(s.num_ops);
  s.device_free.resize(s.num_devices);
  s.bus_free.resize(s.num_devices);
  s.streams.resize(2 * s.num_devices);
  s.heads.resize(2 * s.num_devices);
}

PlacetoSimulator::~PlacetoSimulator() = default;

/// The time at which an op becomes ready determines its start, its end and the arrivals of its outputs.
void PlacetoSimulator::State::become_ready(std::uint32_t op, Moment now) {
  const std::size_t d = index(place[op]);
  const double cost = cost_us[row_of_device[d] * num_ops + op];
  const Moment start = later(device_free[d], now);
  const Moment end = cost == 0 ? Moment{start.us, start.wave + 1} : Moment{start.us + cost, 0};
  device_free[d] = cost == 0 ? end : Moment{end.us + options.device_rest_us, 0};
  if (has_local_reader[op] != 0) push(d, {end, op, 0, false});
  const Node& node = nodes[op];
  for (std::uint32_t i = 0; i < num_departures[op]; ++i) {
    const std::uint16_t k = departures[node.first_output + i];
    const std::uint32_t tensor = node.first_output + k;
    const Moment begin = later(bus_free[d], end);
    const double arrival = begin.us + transfer_us[tensor];
    bus_free[d] = Moment{arrival + options.bus_rest_us, 0};
    push(num_devices + d, {Moment{arrival, 0}, op, k, true});
  }
}

void PlacetoSimulator::State::deliver(const Event& event) {
  const DeviceId home = place[event.op];
  const Edge* const end = edges.data() + nodes[event.op + 1].first_edge;
  for (const Edge* edge = edges.data() + nodes[event.op].first_edge; edge != end; ++edge) {
    const bool wanted = event.remote ? edge->output == event.output && place[edge->child] != home
                                     : place[edge->child] == home;
    if (wanted && --waits[edge->child] == 0) become_ready(edge->child, event.at);
  }
}

/// Returns the stream with the earliest next event: by time, then wave, then parent.
std::size_t PlacetoSimulator::State::earliest() const {
  std::size_t best = 0;
  for (std::size_t i = 1; i < heads.size(); ++i) {
    if (heads[i] > heads[best]) continue;
    if (heads[i] < heads[best]) {
      best = i;
      continue;
    }
    if (heads[i] == kNever) continue;
    const Event &a = streams[i].events[streams[i].next], &b = streams[best].events[streams[best].next];
    if (a.at.wave < b.at.wave || (a.at.wave == b.at.wave && a.op < b.op)) best = i;
  }
  return best;
}

double PlacetoSimulator::run_time_us(std::span<const DeviceId> placement) {
  State& s = *state_;
  s.place = placement.data();
  std::copy(s.waits_at_start.begin(), s.waits_at_start.end(), s.waits.begin());
  std::fill(s.has_remote_reader.begin(), s.has_remote_reader.end(), std::uint8_t{0});
  for (std::uint32_t op = 0; op < s.num_ops; ++op) {
    const DeviceId home = placement[op];
    std::uint8_t has_local_reader = 0;
    std::uint16_t departures = 0;
    const Node& node = s.nodes[op];
    for (std::uint32_t e = node.first_edge; e < s.nodes[op + 1].first_edge; ++e) {
      const bool local = placement[s.edges[e].child] == home;
      has_local_reader |= static_cast<std::uint8_t>(local);
      std::uint8_t& has_remote_reader = s.has_remote_reader[node.first_output + s.edges[e].output];
      if (local || has_remote_reader != 0) continue;
      has_remote_reader = 1;
      s.departures[node.first_output + departures++] = s.edges[e].output;
    }
    s.has_local_reader[op] = has_local_reader;
    s.num_departures[op] = departures;
  }
  std::fill(s.device_free.begin(), s.device_free.end(), Moment{});
  std::fill(s.bus_free.begin(), s.bus_free.end(), Moment{});
  for (Stream& stream : s.streams) stream.events.clear(), stream.next = 0;
  std::fill(s.heads.begin(), s.heads.end(), kNever);

  for (const std::uint32_t op : s.sources) s.become_ready(op, Moment{});
  for (;;) {
    const std::size_t at = s.earliest();
    if (s.heads[at] == kNever) break;
    Stream& stream = s.streams[at];
    const Event event = stream.events[stream.next++];
    s.heads[at] = kNever;
    if (stream.next < stream.events.size()) s.heads[at] = stream.events[stream.next].at.us;
    s.deliver(event);
  }
  double last = 0;
  for (const Moment& moment : s.device_free) last = std::max(last, moment.us);
  for (const Moment& moment : s.bus_free) last = std::max(last, moment.us);
  return last;
}

Result<Unit> PlacetoSimulator::measure(std::span<const DeviceId> placement, Measurement& out) {
  State& s = *state_;
  if (placement.size() != s.num_ops) {
    return invalid("placement", fmt::format("has {} ops, but the graph has {}", placement.size(), s.num_ops));
  }
  for (const DeviceId device : placement) {
    if (index(device) >= s.num_devices) return invalid("placement", "device out of range");
  }
  out.step_time_s = run_time_us(placement) * 1e-6;
  out.valid = true;
  out.bytes_moved = out.bytes_over = 0;
  out.synthetic_share = 0;
  out.peak_bytes.assign(s.num_devices, 0);
  out.busy_s.assign(s.num_devices, 0);
  for (std::size_t op = 0; op < s.num_ops; ++op) {
    const std::size_t d = index(placement[op]);
    out.busy_s[d] += s.cost_us[s.row_of_device[d] * s.num_ops + op] * 1e-6;
    for (std::uint32_t k = 0; k < s.nodes[op].num_outputs; ++k) {
      const std::uint32_t tensor = s.nodes[op].first_output + k;
      if (s.has_remote_reader[tensor] != 0)
        out.bytes_moved += std::llround(s.transfer_us[tensor] * s.options.bus_bytes_per_us);
    }
  }
  return Unit{};
}

}  // namespace emplace
