#include "policy/placers/scheduler_placer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "policy/loss/schedule.h"
#include "policy/loss/standardise.h"

namespace emplace::policy {
namespace {

constexpr float kImproving = 0.75f;  // Share of the episodes that improve a placement, where there is one.
constexpr double kMostHalvings = 7;  // An improving walk draws 1/2^7 to all of the units again.
constexpr std::uint8_t kNowhere = ScheduleWorld::kNowhere;

/// log p of the choices that were taken [nat], and the mean entropy of a choice [nat].
struct TraceSums {
  double log_probability = 0, entropy = 0;
};
TraceSums sums_of(const SchedulerTrace& trace) {
  TraceSums sums;
  for (const std::uint32_t taken : trace.chosen)
    sums.log_probability += std::log(std::max(1e-30, static_cast<double>(trace.probability[taken])));
  for (const float probability : trace.probability) {
    const auto p = static_cast<double>(probability);
    if (p > 0) sums.entropy -= p * std::log(p);
  }
  sums.entropy /= std::max(1.0, static_cast<double>(trace.choices()));
  return sums;
}

}  // namespace

Result<std::unique_ptr<SchedulerPlacer>> SchedulerPlacer::make(std::vector<SchedulerGraph> graphs,
                                                               SchedulerOptions options, std::uint64_t seed) {
  for (const auto& checked :
       {check_ranges(options), in_range("placements", options.placements, 1, kMaxPlacements),
        in_range("entropy", options.loss.entropy, 0, 1e3),
        in_range("entropy_end", options.entropy_end, 0, 1e3)}) {
    if (!checked) return checked.error();
  }
  if (graphs.empty()) return invalid("policy", "needs at least one graph");
  std::vector<Task> tasks;
  for (std::size_t number = 0; number < graphs.size(); ++number) {
    SchedulerGraph& graph = graphs[number];
    const std::string where = "graph " + std::to_string(number);
    Task task{graph.constraints, {}, std::move(graph.start)};
    for (ScheduleWorld& world : graph.worlds) {
      if (!task.views.empty() && world.num_choices() > options.most_choices) continue;
      std::vector<std::uint32_t> units = world.units_in_order();
      if (units.empty()) return invalid(where, "has no kernel to place");
      task.views.push_back({std::move(world), std::move(units)});
    }
    if (task.views.empty()) return invalid(where, "has no units to place");
    tasks.push_back(std::move(task));
  }
  return std::unique_ptr<SchedulerPlacer>{new SchedulerPlacer{std::move(tasks), options, seed}};
}

SchedulerPlacer::SchedulerPlacer(std::vector<Task> tasks, SchedulerOptions options, std::uint64_t seed)
    : tasks_{std::move(tasks)},
      options_{options},
      seed_{seed},
      network_{store_, options_, seed},
      entropy_{options_.loss.entropy} {}

Placement SchedulerPlacer::renamed(const View& view, const Placement& placement) {
  const auto name = view.world.names(view.world.units_of(placement));
  Placement result;
  result.reserve(placement.size());
  for (const DeviceId device : placement) result.push_back(static_cast<DeviceId>(name[index(device)]));
  return result;
}

std::optional<ScheduleStart> SchedulerPlacer::start_of(const Choice& choice) const {
  if (choice.start.empty()) return std::nullopt;
  const ScheduleWorld& world = view_of(choice).world;
  return ScheduleWalk::replay(world, world.units_of(choice.start));
}

SchedulerPlacer::Variation SchedulerPlacer::variation_of(const Choice& choice, std::size_t walk) const {
  Variation variation;
  if (choice.start.empty()) return variation;
  const View& view = view_of(choice);
  Rng rng{choice.variations, Purpose::kPlacing, walk};
  const auto choices = static_cast<std::uint32_t>(view.units.size());
  const double share = std::exp2(-kMostHalvings * static_cast<double>(rng.uniform()));
  const auto count = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(share * choices));
  const bool together = rng.uniform() < 0.5f;
  const std::uint32_t first = rng.below(choices);
  variation.leaves = view.units[first];
  variation.drawn.assign(view.world.num_units(), 0);
  for (std::uint32_t n = 0; n < count; ++n)
    variation.drawn[view.units[together || n == 0 ? (first + n) % choices : rng.below(choices)]] = 1;
  return variation;
}

Actions SchedulerPlacer::sample_from(std::span<const Placement> incumbents, std::uint64_t episode,
                                     std::uint64_t /*update*/) const {
  Choice choice;
  choice.graph = static_cast<std::size_t>(episode % tasks_.size());
  const Task& task = tasks_[choice.graph];
  const bool known =
      options_.improves && choice.graph < incumbents.size() && !incumbents[choice.graph].empty();
  const Placement& from = known ? incumbents[choice.graph] : task.start;
  const bool repeats = options_.improves && !known && !from.empty();
  Rng rng{seed_, Purpose::kPlacing, episode};
  choice.head = static_cast<std::uint8_t>(
      from.empty() || (!repeats && rng.uniform() >= kImproving)
          ? rng.below(static_cast<std::uint32_t>(options_.founders))
          : options_.founders + rng.below(static_cast<std::uint32_t>(options_.improvers)));
  choice.view = static_cast<std::uint8_t>(rng.below(static_cast<std::uint32_t>(task.views.size())));
  const View& view = view_of(choice);
  choice.variations = rng.below(kRepeatsStart) | (repeats ? kRepeatsStart : 0);
  if (choice.head >= options_.founders) choice.start = renamed(view, from);
  const auto start = start_of(choice);
  const auto embedded = network_.embed(store_, view.world);
  for (std::size_t p = 0; p < options_.placements; ++p) {
    if (repeats_start(choice, p)) {
      choice.devices.push_back(start->device_of_unit);
      continue;
    }
    const Variation variation = variation_of(choice, p);
    std::vector<std::uint8_t> forced;
    for (std::size_t unit = 0; unit < variation.drawn.size(); ++unit)
      forced.push_back(variation.drawn[unit] != 0 ? kNowhere : start->device_of_unit[unit]);
    const SchedulerDraw how{.rng = &rng,
                            .head = choice.head,
                            .start = start ? &*start : nullptr,
                            .forced = forced,
                            .drawn = variation.drawn,
                            .leaves = variation.leaves};
    const SchedulerDrawn drawn = network_.draw(store_, view.world, embedded, how, nullptr);
    choice.devices.push_back(drawn.device_of_unit);
  }
  return encode_actions(choice);
}

Placement SchedulerPlacer::greedy() const {
  const Task& task = tasks_.front();
  Placement best;
  std::pair<bool, double> least;
  for (const View& view : task.views) {
    const auto embedded = network_.embed(store_, view.world);
    std::optional<ScheduleStart> start;
    if (!task.start.empty()) start = ScheduleWalk::replay(view.world, view.world.units_of(task.start));
    const std::size_t heads = start ? options_.heads() : options_.founders;
    for (std::size_t head = 0; head < heads; ++head) {
      const SchedulerDraw how{.head = head, .start = head < options_.founders ? nullptr : &*start};
      const SchedulerDrawn drawn = network_.draw(store_, view.world, embedded, how, nullptr);
      const std::pair now{drawn.overflowed, drawn.estimated_s};
      if (!best.empty() && now >= least) continue;
      least = now;
      best = view.world.placement_of(drawn.device_of_unit);
    }
  }
  task.constraints->repair(best);
  return best;
}

Result<std::vector<Placement>> SchedulerPlacer::expand(const Actions& actions) const {
  EMPLACE_TRY_ASSIGN(const auto choice, decode_actions(actions));
  const ScheduleWorld& world = view_of(choice).world;
  const auto start = start_of(choice);
  std::vector<Placement> placements;
  for (const auto& by_unit : choice.devices) {
    Placement placement = start ? choice.start : world.placement_of(by_unit);
    if (start) world.move_units(placement, start->device_of_unit, by_unit);
    tasks_[choice.graph].constraints->repair(placement);
    placements.push_back(std::move(placement));
  }
  return placements;
}

Result<std::vector<SchedulerTrace>> SchedulerPlacer::replay(
    const Choice& choice, const SchedulerNetwork::Embedded& embedded) const {
  const View& view = view_of(choice);
  const auto start = start_of(choice);
  std::vector<SchedulerTrace> traces(choice.devices.size());
  for (std::size_t walk = 0; walk < traces.size(); ++walk) {
    if (repeats_start(choice, walk)) continue;
    const std::vector<std::uint8_t>& forced = choice.devices[walk];
    const Variation variation = variation_of(choice, walk);
    const SchedulerDraw how{.head = choice.head,
                            .start = start ? &*start : nullptr,
                            .forced = forced,
                            .drawn = variation.drawn,
                            .leaves = variation.leaves};
    if (network_.draw(store_, view.world, embedded, how, &traces[walk]).device_of_unit != forced)
      return invalid("actions", "assign a unit to a closed device");
  }
  return traces;
}

Result<LossParts> SchedulerPlacer::accumulate_gradient(std::span<const ScoredEpisode> episodes) {
  LossParts parts;
  for (const ScoredEpisode& episode : episodes) {
    EMPLACE_TRY_ASSIGN(const auto choice, decode_actions(episode.actions));
    const View& view = view_of(choice);
    if (episode.advantages.size() != choice.devices.size())
      return invalid("episode", "numbers of placements and advantages differ");
    const auto embedded = network_.embed(store_, view.world);
    EMPLACE_TRY_ASSIGN(const auto traces, replay(choice, embedded));
    const std::vector<float> advantages = standardised(episode.advantages);
    const float share = 1 / static_cast<float>(episodes.size() * traces.size());
    SchedulerNetwork::Flow flow;
    for (std::size_t walk = 0; walk < traces.size(); ++walk) {
      const SchedulerTrace& trace = traces[walk];
      const float root = std::sqrt(std::max(1.0f, static_cast<float>(trace.choices())));
      // accumulate() takes means over choices, and gains instead of costs.
      network_.accumulate(store_, embedded, trace, -advantages[walk] * root * share, entropy_ * share, flow);
      const TraceSums sums = sums_of(trace);
      parts.add(static_cast<double>(share),
                {.log_probability = sums.log_probability,
                 .entropy = sums.entropy,
                 .loss = static_cast<double>(advantages[walk] / root) * sums.log_probability -
                         static_cast<double>(entropy_) * sums.entropy});
    }
    network_.finish(store_, view.world, embedded, std::move(flow));
  }
  return parts;
}

void SchedulerPlacer::start_update(std::uint64_t update) {
  entropy_ = linear_schedule(options_.loss.entropy, options_.entropy_end, options_.entropy_over, update);
}

Result<std::vector<double>> SchedulerPlacer::log_probabilities(const Actions& actions) const {
  EMPLACE_TRY_ASSIGN(const auto choice, decode_actions(actions));
  EMPLACE_TRY_ASSIGN(const auto traces, replay(choice, network_.embed(store_, view_of(choice).world)));
  std::vector<double> totals;
  totals.reserve(traces.size());
  for (const SchedulerTrace& trace : traces) totals.push_back(sums_of(trace).log_probability);
  return totals;
}

Actions SchedulerPlacer::encode_actions(const Choice& choice) const {
  // [u32 graph][u32 variations][u8 granularity][u8 head][u8 start, by op, of improving heads …][decisions]
  Actions actions;
  append_graph(choice.graph, actions.bytes);
  append_values(std::span{&choice.variations, 1}, actions.bytes);
  append_values(std::array{choice.view, choice.head}, actions.bytes);
  append_values(choice.start, actions.bytes);
  Decisions decisions;
  const auto nowhere = static_cast<std::uint8_t>(view_of(choice).world.num_devices());
  for (const auto& by_unit : choice.devices)
    for (const std::uint8_t device : by_unit)
      decisions.devices.push_back(device == kNowhere ? nowhere : device);
  append_decisions(decisions, actions.bytes);
  return actions;
}

Result<SchedulerPlacer::Choice> SchedulerPlacer::decode_actions(const Actions& actions) const {
  Choice choice;
  auto bytes = std::span{std::as_const(actions.bytes)};
  EMPLACE_TRY_ASSIGN(choice.graph, take_graph(bytes, tasks_.size()));
  EMPLACE_TRY(take_values(bytes, std::span{&choice.variations, 1}));
  EMPLACE_TRY(take_values(bytes, std::span{&choice.view, 1}));
  EMPLACE_TRY(take_values(bytes, std::span{&choice.head, 1}));
  if (choice.view >= tasks_[choice.graph].views.size() || choice.head >= options_.heads())
    return invalid("actions", "of an unknown granularity or head");
  const View& view = view_of(choice);
  const std::size_t devices = view.world.num_devices();
  if (choice.head >= options_.founders) {
    choice.start.resize(view.world.num_ops());
    EMPLACE_TRY(take_values(bytes, choice.start));
    if (std::ranges::any_of(choice.start, [&](DeviceId device) { return index(device) >= devices; }))
      return invalid("actions", "start on an unknown device");
  }
  const std::size_t units = view.world.num_units();
  EMPLACE_TRY_ASSIGN(const Decisions decisions,
                     read_decisions(bytes, {.stages = units, .devices = devices + 1, .behaviour = false}));
  for (auto at = decisions.devices.begin(); at != decisions.devices.end();
       at += static_cast<std::ptrdiff_t>(units)) {
    auto& by_unit = choice.devices.emplace_back(at, at + static_cast<std::ptrdiff_t>(units));
    std::replace(by_unit.begin(), by_unit.end(), static_cast<std::uint8_t>(devices), kNowhere);
  }
  return choice;
}

}  // namespace emplace::policy
