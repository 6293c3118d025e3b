#include "placement/machine/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

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

/// The time of a kernel on a device; that of a collective needs the link to its peers.
OpTime time_of(const GraphKernels::Kernel& kernel, const KernelModel& model, const PeerLinks& links,
               double launch_us) {
  const KernelShape& shape = kernel.shape;
  if (is_collective(shape.kind)) {
    const double gpus = shape.at[1];
    const PeerLink link = links.of(gpus);
    if (link.bytes_per_s > 0 || gpus <= 1) {
      const CollectiveTime together = collective_time(kernel, link, launch_us);
      return {together.us, together.trust, together.floor_us};
    }
  }
  return {model.us(kernel), model.trust(shape.kind, shape.arithmetic), model.floor_us(shape)};
}

/// [GraphKernels::distinct()] Empty without kernels.
std::vector<OpTime> times_of(const GraphKernels* kernels, const Profile& profile, const PeerLinks& links) {
  std::vector<OpTime> times;
  if (kernels == nullptr) return times;
  const KernelModel model{profile.rates()};
  times.reserve(kernels->distinct().size());
  for (const GraphKernels::Kernel& kernel : kernels->distinct())
    times.push_back(time_of(kernel, model, links, profile.launch_us));
  return times;
}

/// std::llround(x). The compiler does not inline that one, and its calls would be a seventh of a cost table.
std::int64_t rounded(double x) {
  if (!(x >= 0 && x < 0x1p62)) return std::llround(x);
  const auto whole = static_cast<std::int64_t>(x);
  return whole + (x - static_cast<double>(whole) >= 0.5 ? 1 : 0);
}

/// Both kernels of an op, one after the other.
OpTime joined(const OpTime& a, const OpTime& b) {
  OpTime both{.us = a.us + b.us, .floor_us = a.floor_us + b.floor_us};
  both.trust.source = std::max(a.trust.source, b.trust.source);
  // A mean by time; adding the weighted difference leaves equal errors as they are, to the bit.
  const double share = both.us > 0 ? b.us / both.us : 0;
  both.trust.error = a.trust.error + share * (b.trust.error - a.trust.error);
  return both;
}

}  // namespace

struct OpCosts::State {
  const OpGraph& graph;
  const Profile& profile;
  const KnownCosts known;
  const std::optional<GraphKernels> own_kernels;
  const GraphKernels* const kernels;  // Null: the formula of version 1.
  const std::vector<OpTime> times;    // [GraphKernels::distinct()]
  const Float32Use float32;
  std::vector<OpRole> roles;  // [types] Empty where no arithmetic scales the peak.

  State(const OpGraph& of, const Profile& on, const GraphKernels* given, const PeerLinks& links)
      : graph{of},
        profile{on},
        known{of, on},
        own_kernels{on.has_tables() && given == nullptr ? std::optional<GraphKernels>{of} : std::nullopt},
        kernels{!on.has_tables()   ? nullptr
                : given != nullptr ? given
                                   : &*own_kernels},
        times{times_of(kernels, on, links)},
        float32{float32_use(of)} {
    if (kernels != nullptr || on.cost_version == CostVersion::k1 || peak(Arithmetic::kFp32) == 0) return;
    for (std::size_t k = 0; k < of.num_types(); ++k)
      roles.push_back(role_of_type(of.type_name(TypeId{static_cast<std::uint16_t>(k)})));
  }

  double peak(Arithmetic arithmetic) const {
    return profile.peaks_gflops[static_cast<std::size_t>(arithmetic)];
  }

  /// How fast the op's arithmetic is on a device without tables, as a share of FP32.
  double rate_of(OpId op) const {
    if (roles.empty()) return 1;
    const Arithmetic used =
        arithmetic_on(profile.peaks_gflops, arithmetic_of(graph, op, roles[index(graph.type(op))], float32));
    return used == Arithmetic::kTf32 ? 1 : peak(used) / peak(Arithmetic::kFp32);
  }

  /// Whether the device file has an efficiency for the op's class.
  bool is_own(OpId op) const {
    return kernels != nullptr && profile.own_efficiency.any() &&
           profile.own_efficiency[static_cast<std::size_t>(classify(graph, op))];
  }

  /// What the host needs to issue an op [us].
  double dispatch_us(OpId op) const {
    if (kernels == nullptr) return profile.dispatch_us;
    double launches = 0;
    for (const std::uint32_t kernel : kernels->of(op)) launches += kernels->distinct()[kernel].shape.launches;
    return profile.dispatch_us * std::min(1.0, launches);
  }

  double estimate_us(OpId op) const { return std::max(device_us(op), dispatch_us(op)); }

  double device_us(OpId op) const {
    if (kernels == nullptr) return roofline_us(graph, op, profile, rate_of(op));
    if (is_own(op)) return roofline_us(graph, op, profile);
    double us = 0;
    for (const std::uint32_t kernel : kernels->of(op)) us += times[kernel].us;
    return us;
  }

  OpTime estimate(OpId op) const {
    const bool own = is_own(op);
    if (kernels == nullptr || own)
      return {device_us(op),
              own ? CostTrust{CostSource::kCalibrated, 0}
                  : CostTrust{CostSource::kDataSheet, FittedTables::shipped().version_1().mean},
              peak_us(graph, op, profile)};
    const auto of = kernels->of(op);
    OpTime cost = of.empty() ? OpTime{} : times[of[0]];
    for (std::size_t k = 1; k < of.size(); ++k) cost = joined(cost, times[of[k]]);
    return cost;
  }
};

OpCosts::OpCosts(const OpGraph& graph, const Profile& profile, const GraphKernels* kernels,
                 const PeerLinks& links)
    : state_{std::make_unique<const State>(graph, profile, kernels, links)} {}
OpCosts::~OpCosts() = default;

OpTime OpCosts::of(OpId op) const {
  if (state_->graph.is_view(op) || state_->graph.is_state(op)) return {};
  const double known = state_->known.us(op);
  if (!std::isnan(known)) return {known, {CostSource::kCalibrated, 0}};
  OpTime time = state_->estimate(op);
  time.us = std::max(time.us, state_->dispatch_us(op));
  return time;
}

double OpCosts::us(OpId op) const {
  if (state_->graph.is_view(op) || state_->graph.is_state(op)) return 0;
  const double known = state_->known.us(op);
  return std::isnan(known) ? state_->estimate_us(op) : known;
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
    const OpCosts costs{graph, *rows[row].profile, kernels ? &*kernels : nullptr, rows[row].links};
    for (std::uint32_t i = 0; i < num_ops_; ++i) ns_[row * num_ops_ + i] = rounded(costs.us(OpId{i}) * 1e3);
  }
}

CostTable::CostTable(const CostTable& table, std::span<const OpId> sources)
    : num_ops_{sources.size()}, row_of_{table.row_of_} {
  ns_.reserve(table.num_rows() * num_ops_);
  for (std::size_t row = 0; row < table.num_rows(); ++row)
    for (const OpId op : sources)
      ns_.push_back(op == kNoOp ? 0 : table.ns_[row * table.num_ops_ + index(op)]);
}

CostTable CostTable::repeated(std::span<const std::uint32_t> runs) const {
  CostTable table = *this;
  for (std::size_t row = 0; row < num_rows(); ++row)
    for (std::size_t i = 0; i < num_ops_; ++i) table.ns_[row * num_ops_ + i] *= runs[i];
  return table;
}

std::int64_t CostTable::best_ns(OpId op) const {
  std::int64_t best = ns_[index(op)];
  for (std::size_t row = 1; row < num_rows(); ++row) best = std::min(best, ns_[row * num_ops_ + index(op)]);
  return best;
}

}  // namespace emplace
