// Input checks, group features and start of a graph for Placeto.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "placement/machine/transfer_table.h"
#include "policy/group_devices.h"
#include "policy/placers/group_placer.h"
#include "policy/placers/placeto.h"

namespace emplace::policy {
namespace {

/// Devices ordered by the total time of all ops; the lowest index first among equals.
std::vector<std::uint8_t> fastest_first(const CostTable& costs, std::size_t devices) {
  std::vector<double> total(devices);
  for (std::size_t d = 0; d < devices; ++d) {
    for (const std::int64_t ns : costs.row_ns(static_cast<DeviceId>(d))) total[d] += static_cast<double>(ns);
  }
  std::vector<std::uint8_t> order(devices);
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint8_t a, std::uint8_t b) { return total[a] < total[b]; });
  return order;
}

std::vector<double> cheapest_times_s(const PlacetoGraph& view, const CostTable& costs) {
  std::vector<double> time_s(view.graph->num_ops());
  for (std::uint32_t op = 0; op < time_s.size(); ++op)
    time_s[op] = static_cast<double>(costs.best_ns(OpId{op})) * 1e-9;
  return sum_by_group(view.grouping, time_s);
}

std::vector<double> all_output_bytes(const PlacetoGraph& view) {
  std::vector<double> bytes(view.graph->num_ops());
  for (std::uint32_t op = 0; op < bytes.size(); ++op) {
    for (std::size_t k = 0; k < view.graph->num_outputs(OpId{op}); ++k)
      bytes[op] += static_cast<double>(view.graph->bytes(view.graph->output(OpId{op}, k)));
  }
  return sum_by_group(view.grouping, bytes);
}

/// [groups] c / (c + x): share of the compute time c in it and the time x in which the outputs cross the mean
/// link.
std::vector<double> transfer_ratios(const DeviceSet& devices, const std::vector<double>& run_time_s,
                                    const std::vector<double>& output_bytes) {
  const TransferTable transfers{devices};
  double s_per_byte = 0;
  std::size_t links = 0;
  for (std::size_t a = 0; a < devices.size(); ++a) {
    for (std::size_t b = 0; b < devices.size(); ++b) {
      if (a == b) continue;
      s_per_byte += transfers.s_per_byte(static_cast<DeviceId>(a), static_cast<DeviceId>(b));
      ++links;
    }
  }
  if (links > 0) s_per_byte /= static_cast<double>(links);
  std::vector<double> ratio;
  for (std::size_t node = 0; node < run_time_s.size(); ++node) {
    const double both = run_time_s[node] + output_bytes[node] * s_per_byte;
    ratio.push_back(both > 0 ? run_time_s[node] / both : 0);
  }
  return ratio;
}

void fill_feature(Matrix& features, Eigen::Index row, const std::vector<double>& value) {
  const double largest = *std::max_element(value.begin(), value.end());
  for (std::size_t node = 0; node < value.size(); ++node) {
    features(row, static_cast<Eigen::Index>(node)) =
        largest > 0 ? static_cast<float>(value[node] / largest) : 0.0f;
  }
}

}  // namespace

Result<Unit> PlacetoPlacer::check_view(const PlacetoGraph& view, std::size_t number) {
  const std::string where = "graph " + std::to_string(number);
  if (view.graph == nullptr || view.devices == nullptr || view.constraints == nullptr)
    return invalid(where, "graph, devices and constraints are required");
  const Grouping& grouping = view.grouping;
  if (grouping.group_of_op.size() != view.graph->num_ops())
    return invalid(where, "wrong number of ops in the grouping");
  if (grouping.num_groups == 0 || grouping.num_groups > kMaxGroups)
    return invalid(where, "has " + std::to_string(grouping.num_groups) + " groups",
                   "merge them to between 1 and " + std::to_string(kMaxGroups) + " (policy.groups)");
  for (const std::uint32_t group : grouping.group_of_op) {
    if (group >= grouping.num_groups) return invalid(where, "group out of range in the grouping");
  }
  for (const auto* features : {&view.run_time_s, &view.output_bytes}) {
    if (!features->empty() && features->size() != grouping.num_groups)
      return invalid(where, "wrong number of node features for the grouping");
    for (const double value : *features) {
      if (!(value >= 0 && std::isfinite(value)))
        return invalid(where, "node features must be finite and >= 0");
    }
  }
  return Unit{};
}

Result<PlacetoPlacer::Task> PlacetoPlacer::make_task(PlacetoGraph view, const PlacetoOptions& options) {
  const std::size_t devices = view.devices->size(), groups = view.grouping.num_groups;
  Task task{.nodes = GroupGraph{*view.graph, view.grouping}};
  task.allowed = allowed_group_devices(*view.constraints, devices,
                                       std::span{std::as_const(view.grouping.group_of_op)}, groups);

  const CostTable costs{*view.graph, *view.devices};
  const auto fastest = fastest_first(costs, devices);
  const auto first_allowed = [&](std::size_t node) {
    return *std::find_if(fastest.begin(), fastest.end(),
                         [&](std::uint8_t device) { return task.may_use(node, device); });
  };
  for (std::size_t node = 0; node < groups; ++node) task.start.push_back(first_allowed(node));
  const bool given = options.start == InitialPlacement::kGiven ||
                     (options.start == InitialPlacement::kBest && !view.start.empty());
  if (given) {
    const auto checked = view.constraints->check(*view.graph, *view.devices, view.start);
    if (!checked) return checked.error();
  }

  const std::size_t rows = 4 + devices + (options.transfer_ratio ? 1 : 0);
  task.features.setZero(static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(groups));
  const std::vector<double> run_time_s =
                                view.run_time_s.empty() ? cheapest_times_s(view, costs) : view.run_time_s,
                            output_bytes =
                                view.output_bytes.empty() ? all_output_bytes(view) : view.output_bytes;
  fill_feature(task.features, 0, run_time_s);
  fill_feature(task.features, 1, output_bytes);
  if (options.transfer_ratio) {
    const std::vector<double> ratio = transfer_ratios(*view.devices, run_time_s, output_bytes);
    for (std::size_t node = 0; node < groups; ++node)
      task.features(static_cast<Eigen::Index>(2 + devices), static_cast<Eigen::Index>(node)) =
          static_cast<float>(ratio[node]);
  }
  task.view = std::move(view);
  if (given) task.start = task.start_at(task.view.start);
  return task;
}

std::vector<std::uint8_t> PlacetoPlacer::Task::majority(const Placement& placement) const {
  const Grouping& grouping = view.grouping;
  const std::size_t devices = view.devices->size();
  std::vector<std::uint32_t> votes(grouping.num_groups * devices);
  for (std::size_t op = 0; op < placement.size(); ++op)
    ++votes[grouping.group_of_op[op] * devices + index(placement[op])];
  std::vector<std::uint8_t> chosen;
  for (auto at = votes.begin(); at != votes.end(); at += static_cast<std::ptrdiff_t>(devices)) {
    const auto most = std::max_element(at, at + static_cast<std::ptrdiff_t>(devices));
    chosen.push_back(static_cast<std::uint8_t>(most - at));
  }
  return chosen;
}

std::vector<std::uint8_t> PlacetoPlacer::Task::start_at(const Placement& placement) const {
  std::vector<std::uint8_t> at = majority(placement);
  for (std::size_t node = 0; node < at.size(); ++node) {
    if (!may_use(node, at[node])) at[node] = start[node];
  }
  return at;
}

}  // namespace emplace::policy
