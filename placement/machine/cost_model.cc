#include "placement/machine/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "placement/costs/collective_model.h"
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

/// The peak of version 1 for a class of ops.
double peak_gflops(OpClass op_class, const Profile& profile) {
  const bool on_matrix_units = op_class == OpClass::kMatmul || op_class == OpClass::kConv;
  return on_matrix_units ? profile.matrix_peak_gflops : profile.peak_gflops;
}

/// The time of an op at the peaks of version 1 [us].
double peak_us(const OpGraph& graph, OpId op, const Profile& profile) {
  const OpClass op_class = classify(graph, op);
  return std::max(
      static_cast<double>(graph.flops(op)) / (peak_gflops(op_class, profile) * 1e3),
      static_cast<double>(memory_traffic_bytes(graph, op, op_class)) / (profile.bandwidth_gbs * 1e3));
}

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

double roofline_us(const OpGraph& graph, OpId op, const Profile& profile, double rate) {
  const OpClass op_class = classify(graph, op);
  if (op_class == OpClass::kState || op_class == OpClass::kView) return 0;
  const double compute =
      static_cast<double>(graph.flops(op)) /
      (peak_gflops(op_class, profile) * rate * 1e3 * profile.efficiency[static_cast<std::size_t>(op_class)]);
  const double memory = static_cast<double>(memory_traffic_bytes(graph, op, op_class)) /
                        (profile.bandwidth_gbs * 1e3 * profile.bandwidth_efficiency);
  return profile.launch_us + std::max(compute, memory);
}

namespace {

/// What OpCosts has: the times of ops, with or without all that is known of them.
struct Estimates {
  const OpGraph& graph;
  const Profile& profile;
  const KnownCosts known;
  const std::optional<GraphKernels> own_kernels;
  const GraphKernels* const kernels;  // Null: version 1.
  const std::optional<KernelModel> model;
  const Float32Use float32;
  const PeerLinks links;

  Estimates(const OpGraph& of, const Profile& on, const GraphKernels* given, PeerLinks to_peers)
      : graph{of},
        profile{on},
        known{of, on},
        own_kernels{on.has_tables() && given == nullptr ? std::optional<GraphKernels>{of} : std::nullopt},
        kernels{!on.has_tables()   ? nullptr
                : given != nullptr ? given
                                   : &*own_kernels},
        model{kernels != nullptr ? std::optional<KernelModel>{on.rates()} : std::nullopt},
        float32{float32_use(of)},
        links{std::move(to_peers)} {}

  /// How fast the op's arithmetic is on a device without tables, as a share of FP32.
  double rate_of(OpId op) const {
    const double single = profile.peaks_gflops[static_cast<std::size_t>(Arithmetic::kFp32)];
    if (profile.cost_version == CostVersion::k1 || single == 0) return 1;
    const Arithmetic used = arithmetic_on(
        profile.peaks_gflops, arithmetic_of(graph, op, role_of_type(graph.type_name(op)), float32));
    return used == Arithmetic::kTf32 ? 1 : profile.peaks_gflops[static_cast<std::size_t>(used)] / single;
  }

  /// Whether the device file has an efficiency for the op's class.
  bool is_own(OpId op) const {
    return kernels != nullptr && profile.own_efficiency.any() &&
           profile.own_efficiency[static_cast<std::size_t>(classify(graph, op))];
  }

  /// The time of a collective, if the link to its peers is known.
  std::optional<CollectiveTime> collective(const GraphKernels::Kernel& kernel) const {
    if (!is_collective(kernel.shape.kind)) return std::nullopt;
    const double gpus = kernel.shape.at[1];
    const PeerLink link = links.of(gpus);
    if (link.bytes_per_s <= 0 && gpus > 1) return std::nullopt;
    return collective_time(kernel, link, profile.launch_us);
  }

  double estimate_us(OpId op) const {
    const bool own = is_own(op);
    if (kernels == nullptr || own) return roofline_us(graph, op, profile, own ? 1 : rate_of(op));
    double us = 0;
    for (const GraphKernels::Kernel& kernel : kernels->of(op)) {
      if (const auto together = collective(kernel)) return together->us;
      us += model->us(kernel);
    }
    return us;
  }

  OpTime estimate(OpId op) const {
    OpTime cost{.us = estimate_us(op)};
    if (is_own(op)) {
      cost.trust = {CostSource::kCalibrated, 0};
      cost.floor_us = peak_us(graph, op, profile);
    } else if (kernels == nullptr) {
      cost.trust = {CostSource::kDataSheet, FittedTables::shipped().version_1().mean};
      cost.floor_us = peak_us(graph, op, profile);
    } else {
      for (const GraphKernels::Kernel& kernel : kernels->of(op)) {
        if (const auto together = collective(kernel))
          return {together->us, together->trust, together->floor_us};
        cost.floor_us += model->floor_us(kernel.shape);
        cost.trust = model->trust(kernel.shape.kind, kernel.shape.arithmetic);
      }
    }
    return cost;
  }

  double us(OpId op) const {
    if (graph.is_view(op) || graph.is_state(op)) return 0;
    const double measured = known.us(op);
    return std::isnan(measured) ? estimate_us(op) : measured;
  }
};

/// [ops] [us]
std::vector<double> all_us(const Estimates& estimates) {
  std::vector<double> us(estimates.graph.num_ops());
  for (std::uint32_t i = 0; i < us.size(); ++i) us[i] = estimates.us(OpId{i});
  return us;
}

}  // namespace

struct OpCosts::State : Estimates {
  using Estimates::Estimates;
};

OpCosts::OpCosts(const OpGraph& graph, const Profile& profile, const GraphKernels* kernels, PeerLinks links)
    : state_{std::make_unique<const State>(graph, profile, kernels, std::move(links))} {}
OpCosts::~OpCosts() = default;

OpTime OpCosts::of(OpId op) const {
  if (state_->graph.is_view(op) || state_->graph.is_state(op)) return {};
  const double known = state_->known.us(op);
  return std::isnan(known) ? state_->estimate(op) : OpTime{known, {CostSource::kCalibrated, 0}};
}

std::optional<GraphKernels> kernels_for(const OpGraph& graph, const DeviceSet& devices) {
  if (std::ranges::none_of(devices.devices(), [](const Device& one) { return one.profile.has_tables(); }))
    return std::nullopt;
  return GraphKernels{graph};
}

PeerLinks links_for(const std::optional<GraphKernels>& kernels, const DeviceSet& devices, DeviceId device) {
  const bool exchanges = kernels && kernels->has_collectives() && devices[device].profile.has_tables();
  return exchanges ? PeerLinks{devices, device} : PeerLinks{};
}

std::vector<double> exact_costs_us(const OpGraph& graph, const DeviceSet& devices, DeviceId device) {
  const Profile& profile = devices[device].profile;
  std::optional<GraphKernels> kernels;
  if (profile.has_tables()) kernels.emplace(graph);
  return all_us({graph, profile, kernels ? &*kernels : nullptr, links_for(kernels, devices, device)});
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

CostTable::CostTable(const OpGraph& graph, const DeviceSet& devices) : num_ops_{graph.num_ops()} {
  // Devices with equal profiles share a row; operator== compares the fields that affect a time.
  struct Row {
    const Profile* profile;
    PeerLinks links;
  };
  const std::optional<GraphKernels> kernels = kernels_for(graph, devices);  // The same for all devices.
  std::vector<Row> rows;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const auto id = static_cast<DeviceId>(d);
    const Row own{&devices[id].profile, links_for(kernels, devices, id)};
    const auto it = std::ranges::find_if(
        rows, [&](const Row& row) { return *row.profile == *own.profile && row.links == own.links; });
    row_of_.push_back(static_cast<std::size_t>(it - rows.begin()));
    if (it == rows.end()) rows.push_back(own);
  }
  ns_.resize(rows.size() * num_ops_);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::vector<double> us =
        all_us({graph, *rows[row].profile, kernels ? &*kernels : nullptr, rows[row].links});
    for (std::size_t i = 0; i < num_ops_; ++i) ns_[row * num_ops_ + i] = std::llround(us[i] * 1e3);
  }
}

std::int64_t CostTable::best_ns(OpId op) const {
  std::int64_t best = ns_[index(op)];
  for (std::size_t row = 1; row < num_rows(); ++row) best = std::min(best, ns_[row * num_ops_ + index(op)]);
  return best;
}

}  // namespace emplace
