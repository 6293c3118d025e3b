#include "placement/machine/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "placement/machine/signature_costs.h"

namespace emplace {
namespace {

/// TensorFlow's reductions share the type names of ONNX's n-ary element-wise ops; the output size
/// distinguishes them.
bool is_reduction(const OpGraph& graph, OpId op) {
  const std::string_view type = graph.type_name(op);
  if (type != "Sum" && type != "Mean" && type != "Max" && type != "Min") return false;
  const auto inputs = graph.inputs(op);
  return !inputs.empty() && graph.num_outputs(op) > 0 &&
         graph.bytes(graph.first_output(op)) < graph.bytes(inputs[0]);
}

/// A grouped convolution with few input channels per group runs far below a dense one.
bool is_thin_grouped(const OpGraph& graph, OpId op) {
  const auto inputs = graph.inputs(op);
  const std::size_t weight = graph.type_name(op).ends_with("backward") ? 2 : 1;
  if (graph.conv_groups(op) <= 1 || weight >= inputs.size()) return false;
  const auto shape = graph.shape(inputs[weight]);
  return shape.size() > 1 && shape[1] < 8;
}

/// Marks an unknown measured time.
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

std::size_t measured_class(const OpGraph& graph, const Profile& profile) {
  const auto classes = graph.measured_classes();
  const auto find = [&](std::string_view name) {
    return static_cast<std::size_t>(std::find(classes.begin(), classes.end(), name) - classes.begin());
  };
  std::size_t found = find(profile.name);
  if (found == classes.size()) found = find(profile.kind);
  if (found == classes.size() && profile.kind == "gpu") found = find("accelerator");
  return found;
}

/// Measured op times on one device. Precedence: the graph's time for the profile's name, the device's time
/// for the op's signature, the graph's time for the kind of device.
class KnownCosts {
 public:
  KnownCosts(const OpGraph& graph, const Profile& profile)
      : graph_{graph},
        class_{measured_class(graph, profile)},
        in_graph_{class_ < graph.measured_classes().size()},
        own_{in_graph_ && graph.measured_classes()[class_] == profile.name},
        costs_{profile.costs.get()} {}
  /// [us] NaN if unknown. @pre the op is neither state nor a view
  double us(OpId op) const {
    const double known = in_graph_ ? graph_.measured_us(op, class_) : kUnknown;
    if (costs_ == nullptr || costs_->empty() || (own_ && !std::isnan(known))) return known;
    return costs_->us(signature_hash(graph_, op)).value_or(known);
  }

 private:
  const OpGraph& graph_;
  const std::size_t class_;
  const bool in_graph_, own_;
  const SignatureCosts* const costs_;
};

}  // namespace

OpClass classify(const OpGraph& graph, OpId op) {
  if (graph.is_state(op)) return OpClass::kState;
  if (graph.is_view(op)) return OpClass::kView;
  if (is_reduction(graph, op)) return OpClass::kReduce;
  const OpClass by_type = graph.type_class(op);
  return by_type == OpClass::kConv && is_thin_grouped(graph, op) ? OpClass::kConvGrouped : by_type;
}

std::int64_t memory_traffic_bytes(const OpGraph& graph, OpId op, OpClass op_class) {
  if (op_class == OpClass::kState || op_class == OpClass::kView) return 0;
  if (op_class == OpClass::kGather)
    return graph.num_outputs(op) == 0 ? 0 : 2 * graph.bytes(graph.first_output(op));
  std::int64_t bytes = 0;
  for (const TensorId input : graph.inputs(op)) bytes += graph.bytes(input);
  for (std::size_t k = 0; k < graph.num_outputs(op); ++k) bytes += graph.bytes(graph.output(op, k));
  return bytes;
}

double estimate_us(const OpGraph& graph, OpId op, const Profile& profile) {
  const OpClass op_class = classify(graph, op);
  if (op_class == OpClass::kState || op_class == OpClass::kView) return 0;
  const bool on_matrix_units = op_class == OpClass::kMatmul || op_class == OpClass::kConv;
  const double peak = on_matrix_units ? profile.matrix_peak_gflops : profile.peak_gflops;
  const double compute = static_cast<double>(graph.flops(op)) /
                         (peak * 1e3 * profile.efficiency[static_cast<std::size_t>(op_class)]);
  const double memory = static_cast<double>(memory_traffic_bytes(graph, op, op_class)) /
                        (profile.bandwidth_gbs * 1e3 * profile.bandwidth_efficiency);
  return profile.launch_us + std::max(compute, memory);
}

std::vector<double> exact_costs_us(const OpGraph& graph, const Profile& profile) {
  const KnownCosts known{graph, profile};
  std::vector<double> us(graph.num_ops());
  for (std::size_t i = 0; i < us.size(); ++i) {
    const OpId op{static_cast<std::uint32_t>(i)};
    if (graph.is_view(op) || graph.is_state(op)) continue;
    us[i] = known.us(op);
    if (std::isnan(us[i])) us[i] = estimate_us(graph, op, profile);
  }
  return us;
}

std::vector<DeviceMask> timed_devices(const OpGraph& graph, const DeviceSet& devices) {
  std::vector<std::uint32_t> measured;  // Ops whose time is known from measurements alone.
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op{i};
    if (graph.is_view(op) || graph.is_state(op) || graph.flops(op) > 0) continue;
    const bool anywhere = [&] {
      for (std::size_t c = 0; c < graph.measured_classes().size(); ++c)
        if (!std::isnan(graph.measured_us(op, c))) return true;
      return false;
    }();
    if (anywhere && memory_traffic_bytes(graph, op, classify(graph, op)) > 0) measured.push_back(i);
  }
  const DeviceMask all = first_devices(devices.size());
  std::vector<DeviceMask> timed(measured.empty() ? 0 : graph.num_ops(), all);
  for (std::size_t d = 0; d < devices.size() && !measured.empty(); ++d) {
    const KnownCosts known{graph, devices[static_cast<DeviceId>(d)].profile};
    for (const std::uint32_t op : measured)
      if (std::isnan(known.us(OpId{op}))) timed[op].reset(d);
  }
  if (std::ranges::all_of(timed, [&](const DeviceMask& mask) { return mask == all; })) timed.clear();
  return timed;
}

double measured_cost_share(const OpGraph& graph, const DeviceSet& devices,
                           std::span<const DeviceId> placement) {
  double all_us = 0, known_us = 0;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const DeviceId device = static_cast<DeviceId>(d);
    if (std::ranges::find(placement, device) == placement.end()) continue;
    const KnownCosts known{graph, devices[device].profile};
    for (std::size_t i = 0; i < placement.size(); ++i) {
      const OpId op{static_cast<std::uint32_t>(i)};
      if (placement[i] != device || graph.is_view(op) || graph.is_state(op)) continue;
      const double us = known.us(op);
      all_us += std::isnan(us) ? estimate_us(graph, op, devices[device].profile) : us;
      known_us += std::isnan(us) ? 0 : us;
    }
  }
  return all_us > 0 ? known_us / all_us : 1;
}

CostTable::CostTable(const OpGraph& graph, const DeviceSet& devices) : num_ops_{graph.num_ops()} {
  // Devices with equal profiles share a row; operator== compares the fields that affect a time.
  std::vector<const Profile*> rows;
  for (const Device& device : devices.devices()) {
    const auto it =
        std::find_if(rows.begin(), rows.end(), [&](const Profile* row) { return *row == device.profile; });
    row_of_.push_back(static_cast<std::size_t>(it - rows.begin()));
    if (it == rows.end()) rows.push_back(&device.profile);
  }
  ns_.resize(rows.size() * num_ops_);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::vector<double> us = exact_costs_us(graph, *rows[row]);
    for (std::size_t i = 0; i < num_ops_; ++i) ns_[row * num_ops_ + i] = std::llround(us[i] * 1e3);
  }
}

std::int64_t CostTable::best_ns(OpId op) const {
  std::int64_t best = ns_[index(op)];
  for (std::size_t row = 1; row < num_rows(); ++row) best = std::min(best, ns_[row * num_ops_ + index(op)]);
  return best;
}

}  // namespace emplace
