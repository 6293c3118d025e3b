#include "launcher/placing/memory_decisions.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/text/words.h"
#include "base/units.h"
#include "executor/sim/explanation.h"
#include "graph/lowering.h"
#include "graph/scope_names.h"
#include "launcher/placing/memory_over_time.h"
#include "launcher/terminal/terminal.h"
#include "placement/machine/transfer_table.h"
#include "placement/order.h"

namespace emplace::launcher {

double MemoryDecisions::Block::s_per_byte() const {
  return frees_bytes > 0 ? time_s / static_cast<double>(frees_bytes)
                         : std::numeric_limits<double>::infinity();
}

Result<MemoryDecisions> MemoryDecisions::priced(const UnplannedPlacement& unplanned,
                                                const Measurement& planned, const DeviceSet& devices,
                                                const SimulatorOptions& options, std::size_t most) {
  MemoryDecisions made{unplanned, planned, devices};
  made.collect();
  made.show(most);
  EMPLACE_TRY(made.simulate(options));
  return made;
}

void MemoryDecisions::collect() {
  const auto& [plan, graph, placement, kept] = unplanned_;
  std::vector<std::size_t> block_of(graph.num_ops());
  std::unordered_map<std::string, std::size_t> by_name;
  for (const ExplainedPart& part : parts_by_scope(graph)) {
    const std::string_view numbered = numbered_block(part.name);
    const std::string name{numbered.empty() ? part.name : numbered};
    const auto [block, fresh] = by_name.emplace(name, blocks_.size());
    if (fresh) blocks_.emplace_back().name = name;
    for (const OpId op : part.ops) block_of[index(op)] = block->second;
  }
  const LoweredGraph lowered{graph};
  const CostTable costs{graph, devices_};
  const TransferTable transfers{devices_};
  std::vector<bool> again(graph.num_ops(), false);
  for (const OpId op : plan.recompute) again[index(op)] = true;
  for (const OpId op : plan.recompute) {
    Decision& made = decisions_.emplace_back(Decision{.op = op, .block = block_of[index(op)]});
    made.time_s = static_cast<double>(costs.ns(placement[index(op)], op)) * 1e-9;
    std::int64_t without_block = 0;
    for (std::uint32_t b = lowered.first_owned(op); b < lowered.end_owned(op); ++b) {
      // An output waits for what reads it, or a part of it, after the forward pass.
      bool alone = false, with_block = false;
      for (std::uint32_t part = lowered.first_owned(op); part < lowered.end_owned(op); ++part) {
        if (lowered.base(BufferId{part}) != BufferId{b}) continue;
        for (const OpId reader : lowered.readers(BufferId{part})) {
          const bool later = graph.phase(reader) != Phase::kForward;
          alone |= later || again[index(reader)];
          with_block |= later || (again[index(reader)] && block_of[index(reader)] != made.block);
        }
      }
      made.frees_bytes += alone ? lowered.freed_bytes(BufferId{b}) : 0;
      without_block += with_block ? lowered.freed_bytes(BufferId{b}) : 0;
    }
    blocks_[made.block].frees_bytes += without_block;
  }
  for (const MovedTensor& move : plan.moved) {
    const OpId op = graph.producer(move.tensor);
    const DeviceId home = placement[index(op)];
    const std::int64_t bytes = graph.bytes(move.tensor);
    const std::int64_t ns = transfers.ns(home, move.to, bytes) + transfers.ns(move.to, home, bytes);
    decisions_.push_back({op, block_of[index(op)], move, bytes, static_cast<double>(ns) * 1e-9});
    blocks_[block_of[index(op)]].frees_bytes += bytes;
  }
  for (const Decision& decision : decisions_) {
    Block& block = blocks_[decision.block];
    ++(decision.moved ? block.moved : block.recomputed);
    block.time_s += decision.time_s;
    const DeviceId home = placement[index(decision.op)];
    if (const auto at = std::ranges::lower_bound(block.on, home); at == block.on.end() || *at != home)
      block.on.insert(at, home);
  }
}

void MemoryDecisions::show(std::size_t most) {
  for (std::size_t s = 0; s < blocks_.size(); ++s)
    if (!blocks_[s].on.empty()) shown_.push_back(s);
  std::ranges::stable_sort(shown_, [&](std::size_t a, std::size_t b) {
    return blocks_[a].s_per_byte() > blocks_[b].s_per_byte();
  });
  if (shown_.size() <= most) return;
  not_shown_ = shown_.size() - most;
  const auto dearest = shown_.begin() + static_cast<std::ptrdiff_t>(most - most / 2);
  shown_.erase(dearest, dearest + static_cast<std::ptrdiff_t>(not_shown_));
}

Result<Unit> MemoryDecisions::simulate(const SimulatorOptions& options) {
  const auto& [plan, graph, placement, kept] = unplanned_;
  const CostTable costs{graph, devices_};
  std::vector<std::size_t> block_of(graph.num_ops(), blocks_.size());
  for (const Decision& decision : decisions_) block_of[index(decision.op)] = decision.block;
  for (const std::size_t s : shown_) {
    MemoryPlan others = plan;
    std::erase_if(others.recompute, [&](OpId op) { return block_of[index(op)] == s; });
    std::erase_if(others.moved,
                  [&](const MovedTensor& move) { return block_of[index(graph.producer(move.tensor))] == s; });
    const auto made = emplace::planned(graph, others, devices_.names());
    if (!made) continue;
    Simulator simulator{made->graph, devices_, derived(costs, made->graph, made->source), options};
    EMPLACE_TRY(simulator.measure(emplace::planned(placement, *made), blocks_[s].kept.emplace()));
  }
  return Unit{};
}

std::string MemoryDecisions::as_text() const {
  std::vector<std::vector<std::string>> rows{
      {"decisions in", "on", "again", "moved", "frees", "time", "per GiB", "kept: step", "peak", ""}};
  for (const std::size_t s : shown_) {
    const Block& block = blocks_[s];
    std::string on;
    for (const DeviceId device : block.on)
      on += (on.empty() ? "" : ", ") + printable(devices_[device].name, 20);
    std::vector<std::string> row{printable(block.name, 48),
                                 on,
                                 std::to_string(block.recomputed),
                                 std::to_string(block.moved),
                                 format_bytes(block.frees_bytes),
                                 format_seconds(block.time_s),
                                 block.frees_bytes > 0 ? format_seconds(block.s_per_byte() * kGiB) : "-"};
    if (block.kept) {
      const double change_s = block.kept->step_time_s - planned_.step_time_s;
      std::int64_t more = std::numeric_limits<std::int64_t>::min();
      for (std::size_t d = 0; d < devices_.size(); ++d)
        more = std::max(more, block.kept->peak_bytes[d] - planned_.peak_bytes[d]);
      row.push_back((change_s < 0 ? "-" : "+") + format_seconds(std::abs(change_s)));
      row.push_back((more < 0 ? "-" : "+") + format_bytes(std::abs(more)));
      row.push_back(block.kept->valid ? "fits" : "does not fit");
    } else {
      row.insert(row.end(), {"-", "-", "others need it"});
    }
    rows.push_back(std::move(row));
  }
  std::string text;
  for (const std::string& line : aligned(rows, true)) text += line + "\n";
  if (not_shown_ > 0) text += fmt::format("and {} in between (--top)\n", not_shown_);
  return text +
         "frees: what would wait for the backward pass; kept: change of the step and of the highest peak "
         "without these decisions\n";
}

Json MemoryDecisions::decisions_json() const {
  auto list = Json::array();
  for (const Decision& decision : decisions_) {
    const OpGraph& graph = unplanned_.graph;
    Json one{{"op", std::string{graph.name(decision.op)}},
             {"block", blocks_[decision.block].name},
             {"decision", decision.moved ? "move" : "recompute"},
             {"on", devices_[unplanned_.placement[index(decision.op)]].name}};
    if (decision.moved) {
      one["output"] = index(decision.moved->tensor) - index(graph.first_output(decision.op));
      one["to"] = devices_[decision.moved->to].name;
    }
    one["frees_bytes"] = decision.frees_bytes;
    one["time_s"] = decision.time_s;
    list.push_back(std::move(one));
  }
  return list;
}

Json MemoryDecisions::blocks_json() const {
  auto list = Json::array();
  for (const std::size_t s : shown_) {
    const Block& block = blocks_[s];
    auto on = Json::array();
    for (const DeviceId device : block.on) on.push_back(devices_[device].name);
    list.push_back({{"block", block.name},
                    {"on", std::move(on)},
                    {"recomputed_ops", block.recomputed},
                    {"moved_tensors", block.moved},
                    {"frees_bytes", block.frees_bytes},
                    {"time_s", block.time_s},
                    {"s_per_gib", block.frees_bytes > 0 ? Json(block.s_per_byte() * kGiB) : Json()},
                    {"kept", block.kept ? Json{{"step_time_s", block.kept->step_time_s},
                                               {"peak_memory_bytes", block.kept->peak_bytes},
                                               {"valid", block.kept->valid}}
                                        : Json()}});
  }
  return list;
}

}  // namespace emplace::launcher
