#include "record/report/step_json.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/text/words.h"
#include "record/report/json_column.h"

namespace emplace::record {
namespace {

using nlohmann::json;

constexpr std::uint32_t kPhases = 3;
constexpr std::size_t kMaxLinkLanes = 20;  // With more links, copies are drawn by their source alone.

std::int64_t to_ns(double seconds) { return std::llround(seconds * 1e9); }

/// A drawn item of a lane: an op, a copy, or several merged neighbours.
struct Block {
  std::int64_t start_ns = 0, end_ns = 0, busy_ns = 0;
  std::uint32_t count = 1;
  std::uint32_t kind = 0;       // Scope and phase of the longest part.
  std::int64_t longest_ns = 0;  // Duration of the longest part [ns].
  OpId op{};                    // The op; for a copy the producer.
  std::int64_t detail = 0;      // Type of an op; bytes of a copy.
};

struct Lane {
  bool copies = false;
  DeviceId device{}, target{};  // Both equal for copies drawn by their source alone.
  std::vector<Block> blocks;
};

/// Merges neighbours until each block lasts at least `least_ns`.
void merge(std::vector<Block>& blocks, std::int64_t least_ns, bool sum_detail) {
  std::vector<Block> merged;
  for (const Block& block : blocks) {
    if (merged.empty() || merged.back().end_ns - merged.back().start_ns >= least_ns ||
        block.start_ns - merged.back().start_ns >= least_ns) {
      merged.push_back(block);
      continue;
    }
    Block& into = merged.back();
    into.end_ns = std::max(into.end_ns, block.end_ns);
    into.busy_ns += block.busy_ns;
    into.count += block.count;
    if (sum_detail) into.detail += block.detail;
    if (block.longest_ns <= into.longest_ns) continue;
    into.longest_ns = block.longest_ns, into.kind = block.kind, into.op = block.op;
    if (!sum_detail) into.detail = block.detail;
  }
  blocks = std::move(merged);
}

/// Names with front coding: each name is stored without the prefix it shares with the previous name; the
/// length of the prefix precedes it as a base-64 digit. A dropped name is empty.
class NameColumn {
 public:
  explicit NameColumn(std::size_t& budget) : budget_{budget} {}
  void add(std::string_view name) {
    const std::string clean = budget_ > 0 ? printable(name) : std::string{};
    std::size_t shared = 0;
    while (shared < kDigits.size() - 1 && shared < clean.size() && shared < last_.size() &&
           clean[shared] == last_[shared] && static_cast<unsigned char>(clean[shared]) < 0x80)
      ++shared;
    if (!text_.empty()) text_ += '\n';
    text_ += kDigits[shared];
    text_.append(clean, shared);
    budget_ -= std::min(budget_, clean.size() - shared + 3);
    last_ = clean;
  }
  std::string take() { return std::move(text_); }

 private:
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::size_t& budget_;
  std::string text_, last_;
};

std::vector<Lane> lanes_of(const OpGraph& graph, std::size_t num_devices, const Schedule& schedule,
                           const ScopeMap& scopes) {
  const auto kind = [&](OpId op) {
    return scopes.scope_of_op[index(op)] * kPhases + static_cast<std::uint32_t>(graph.phase(op));
  };
  std::vector<Lane> lanes(num_devices);
  for (std::size_t d = 0; d < num_devices; ++d) lanes[d].device = lanes[d].target = static_cast<DeviceId>(d);
  for (const OpRun& run : schedule.ops) {
    const std::int64_t start = to_ns(run.start_s), end = to_ns(run.end_s);
    lanes[index(run.device)].blocks.push_back({start, end, end - start, 1, kind(run.op), end - start, run.op,
                                               static_cast<std::int64_t>(index(graph.type(run.op)))});
  }
  std::map<std::pair<DeviceId, DeviceId>, Lane> links;
  for (const TransferRun& run : schedule.transfers) links[{run.source, run.target}];
  const bool by_source = links.size() > kMaxLinkLanes;
  links.clear();
  for (const TransferRun& run : schedule.transfers) {
    const DeviceId target = by_source ? run.source : run.target;
    Lane& lane = links[{run.source, target}];
    lane.copies = true, lane.device = run.source, lane.target = target;
    const std::int64_t start = to_ns(run.start_s), end = to_ns(run.end_s);
    const OpId op = graph.producer(run.tensor);
    lane.blocks.push_back({start, end, end - start, 1, kind(op), end - start, op, run.bytes});
  }
  for (auto& [ends, lane] : links) lanes.push_back(std::move(lane));
  return lanes;
}

json lane_json(const OpGraph& graph, const Lane& lane, bool merged, std::size_t& name_bytes) {
  NameColumn names{name_bytes};
  for (const Block& block : lane.blocks) names.add(graph.name(block.op));
  std::int64_t at = 0;
  json j{
      {"copies", lane.copies},
      {"device", index(lane.device)},
      {"target", index(lane.target)},
      {"gap", column(lane.blocks,
                     [&](const Block& block) { return block.start_ns - std::exchange(at, block.end_ns); })},
      {"dur", column(lane.blocks, [](const Block& block) { return block.end_ns - block.start_ns; })},
      {"kind", column(lane.blocks, &Block::kind)},
      {"detail", column(lane.blocks, &Block::detail)},
      {"names", names.take()}};
  if (merged)
    j["count"] = column(lane.blocks, &Block::count), j["busy"] = column(lane.blocks, &Block::busy_ns);
  return j;
}

/// The critical chain as stretches on one lane each. Consecutive links on the same lane form one stretch.
json chain_json(const ReportStep& step, const std::vector<Lane>& lanes, const ScopeMap& scopes,
                const OpGraph& graph) {
  std::map<std::pair<DeviceId, DeviceId>, std::size_t> copy_lane;
  for (std::size_t l = 0; l < lanes.size(); ++l)
    if (lanes[l].copies) copy_lane[{lanes[l].device, lanes[l].target}] = l;
  json lane = json::array(), duration = json::array(), count = json::array();
  struct Part {
    std::int64_t ns = 0;
    std::uint64_t count = 0;
  };
  // Composition of the chain, by lane and scope.
  std::map<std::pair<int, std::uint32_t>, Part> parts;
  int last = -2;
  std::int64_t length = 0;
  std::uint64_t links = 0;
  const auto flush = [&] {
    if (links == 0) return;
    lane.push_back(last), duration.push_back(length), count.push_back(links);
    length = 0, links = 0;
  };
  for (const ChainLink& link : step.chain.links) {
    int at = -1;
    OpId op = kNoOp;
    if (link.kind == ChainLink::Kind::kOp) {
      const OpRun& run = step.schedule.ops[link.run];
      at = static_cast<int>(index(run.device)), op = run.op;
    } else if (link.kind == ChainLink::Kind::kTransfer) {
      const TransferRun& run = step.schedule.transfers[link.run];
      auto it = copy_lane.find({run.source, run.target});
      if (it == copy_lane.end()) it = copy_lane.find({run.source, run.source});
      at = static_cast<int>(it->second), op = graph.producer(run.tensor);
    }
    if (at != last) flush();
    last = at;
    const std::int64_t ns = to_ns(link.end_s) - to_ns(link.start_s);
    length += ns;
    ++links;
    if (op == kNoOp) continue;
    Part& part = parts[{at, scopes.scope_of_op[index(op)]}];
    part.ns += ns;
    ++part.count;
  }
  flush();
  std::vector<std::pair<std::pair<int, std::uint32_t>, Part>> heaviest{parts.begin(), parts.end()};
  std::stable_sort(heaviest.begin(), heaviest.end(),
                   [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  constexpr std::size_t kParts = 400;  // The page aggregates them by the levels of a scope.
  if (heaviest.size() > kParts) heaviest.resize(kParts);
  json table = json::array();
  for (const auto& [key, part] : heaviest) table.push_back({key.first, key.second, part.ns, part.count});
  return {{"lane", std::move(lane)},          {"dur", std::move(duration)},
          {"count", std::move(count)},        {"parts", std::move(table)},
          {"ops", to_ns(step.chain.ops_s)},   {"copies", to_ns(step.chain.transfers_s)},
          {"gaps", to_ns(step.chain.gaps_s)}, {"behind", to_ns(step.chain.behind_engine_s)},
          {"links", step.chain.links.size()}};
}

/// Memory levels of a device. If there are more than `most`, the highest level of each stretch of time, so
/// that no peak is lost.
json memory_json(const Schedule& schedule, DeviceId device, std::int64_t end_ns, std::size_t most) {
  std::vector<std::pair<std::int64_t, std::int64_t>> levels;
  for (const MemoryLevel& level : schedule.memory)
    if (level.device == device) levels.emplace_back(to_ns(level.at_s), level.bytes);
  const bool exact = levels.size() <= most;
  if (!exact) {
    const std::int64_t stretch = std::max<std::int64_t>(1, end_ns / static_cast<std::int64_t>(most) + 1);
    std::vector<std::pair<std::int64_t, std::int64_t>> highest;
    std::int64_t current = 0;
    for (const auto& [at, bytes] : levels) {
      const std::int64_t begin = at / stretch * stretch;
      if (highest.empty() || highest.back().first != begin) {
        // The level at the start of the stretch counts in it, and in earlier stretches without changes.
        if (!highest.empty() && highest.back().first + stretch < begin)
          highest.emplace_back(highest.back().first + stretch, current);
        highest.emplace_back(begin, begin == at ? 0 : current);
      }
      highest.back().second = std::max(highest.back().second, bytes);
      current = bytes;
    }
    levels = std::move(highest);
  }
  json at = json::array(), bytes = json::array();
  std::int64_t last_at = 0, last_bytes = 0;
  for (const auto& [t, b] : levels) {
    at.push_back(t - std::exchange(last_at, t));
    bytes.push_back(b - std::exchange(last_bytes, b));
  }
  return {{"exact", exact}, {"at", std::move(at)}, {"bytes", std::move(bytes)}};
}

}  // namespace

std::size_t blocks_of(const Schedule& schedule) { return schedule.ops.size() + schedule.transfers.size(); }

json step_json(const OpGraph& graph, const DeviceSet& devices, const ReportStep& step, const ScopeMap& scopes,
               StepBudget& budget) {
  std::vector<Lane> lanes = lanes_of(graph, devices.size(), step.schedule, scopes);
  const std::int64_t end_ns = to_ns(step.measured.step_time_s);
  const bool merged = blocks_of(step.schedule) > budget.blocks;
  if (merged) {
    const std::size_t each = std::max<std::size_t>(1, budget.blocks / lanes.size());
    for (Lane& lane : lanes) merge(lane.blocks, end_ns / static_cast<std::int64_t>(each) + 1, lane.copies);
  }
  json j{{"label", step.label},
         {"end", end_ns},
         {"merged", merged},
         {"ops", step.schedule.ops.size()},
         {"transfers", step.schedule.transfers.size()},
         {"moved", step.measured.bytes_moved},
         {"lanes", json::array()},
         {"memory", json::array()},
         {"peak", step.measured.peak_bytes},
         {"busy", json::array()}};
  for (const double busy : step.measured.busy_s) j["busy"].push_back(to_ns(busy));
  for (const Lane& lane : lanes) j["lanes"].push_back(lane_json(graph, lane, merged, budget.name_bytes));
  for (std::size_t d = 0; d < devices.size(); ++d)
    j["memory"].push_back(memory_json(step.schedule, static_cast<DeviceId>(d), end_ns, budget.memory_levels));
  j["chain"] = chain_json(step, lanes, scopes, graph);
  return j;
}

json scope_json(const ScopeMap& map) {
  // Flat list of each node: device, ops, nanoseconds; device, …
  const auto on = [](const ScopeNode& node) {
    json devices = json::array();
    for (std::size_t d = 0; d < node.ops_on.size(); ++d)
      if (node.ops_on[d] > 0)
        for (const std::int64_t number :
             {static_cast<std::int64_t>(d), static_cast<std::int64_t>(node.ops_on[d]), node.time_ns[d]})
          devices.push_back(number);
    return devices;
  };
  return {{"scopes", column(map.scopes, [](const std::string& name) { return printable(name); })},
          {"scope", column(map.nodes, &ScopeNode::scope)},
          {"phase", column(map.nodes, [](const ScopeNode& node) { return static_cast<int>(node.phase); })},
          {"ops", column(map.nodes, &ScopeNode::ops)},
          {"level", column(map.nodes, [](const ScopeNode& node) { return std::llround(node.level * 10); })},
          {"state", column(map.nodes, &ScopeNode::resident_bytes)},
          {"on", column(map.nodes, on)},
          {"edges",
           {{"source", column(map.edges, &ScopeEdge::source)},
            {"target", column(map.edges, &ScopeEdge::target)},
            {"bytes", column(map.edges, &ScopeEdge::bytes)},
            {"cut", column(map.edges, &ScopeEdge::cut_bytes)}}}};
}

}  // namespace emplace::record
