#include "placement/costs/collective_shape.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/text/word_list.h"

namespace emplace::kernel_shapes {
namespace {

using enum KernelKind;

/// Types of one namespace. Those of TensorFlow have none.
struct CollectiveTypes {
  KernelKind kind;
  std::string_view space, names;
};
constexpr CollectiveTypes kTypes[] = {
    {kAllReduce, "c10d_functional", "all_reduce all_reduce_ all_reduce_coalesced"},
    {kAllGather, "c10d_functional", "all_gather_into_tensor all_gather_into_tensor_coalesced"},
    {kReduceScatter, "c10d_functional", "reduce_scatter_tensor reduce_scatter_tensor_coalesced"},
    {kAllToAll, "c10d_functional", "all_to_all_single"},
    {kAllReduce, "hlo", "all-reduce all-reduce-start"},
    {kAllGather, "hlo", "all-gather all-gather-start"},
    {kReduceScatter, "hlo", "reduce-scatter reduce-scatter-start"},
    {kAllToAll, "hlo", "all-to-all all-to-all-start ragged-all-to-all"},
    {kPermute, "hlo", "collective-permute collective-permute-start collective-broadcast"},
    {kNone, "hlo",
     "all-reduce-done all-gather-done reduce-scatter-done all-to-all-done collective-permute-done"},
    {kAllReduce, "com.microsoft", "AllReduce NcclAllReduce"},
    {kAllGather, "com.microsoft", "AllGather NcclAllGather"},
    {kReduceScatter, "com.microsoft", "NcclReduceScatter"},
    {kAllToAll, "com.microsoft", "AllToAll"},
    {kAllReduce, "", "CollectiveReduce CollectiveReduceV2 CollectiveReduceV3 NcclAllReduce"},
    {kAllGather, "", "CollectiveGather CollectiveGatherV2"},
    {kReduceScatter, "", "CollectiveReduceScatterV2"},
    {kAllToAll, "", "CollectiveAllToAllV2 CollectiveAllToAllV3"},
    {kPermute, "", "CollectivePermute CollectiveBcastSend CollectiveBcastSendV2"},
};

std::optional<KernelKind> kind_of_type(std::string_view type) {
  const std::size_t colon = type.rfind("::");
  std::string_view space = colon == std::string_view::npos ? std::string_view{} : type.substr(0, colon);
  if (space == "_c10d_functional") space.remove_prefix(1);
  const std::string_view name = colon == std::string_view::npos ? type : type.substr(colon + 2);
  for (const CollectiveTypes& one : kTypes) {
    if (one.space != space) continue;
    const auto names = words_in(one.names);
    if (std::ranges::find(names, name) != names.end()) return one.kind;
  }
  return std::nullopt;
}

double read_bytes_of(const OpGraph& graph, OpId op) {
  double bytes = 0;
  for (const TensorId input : graph.inputs(op)) bytes += static_cast<double>(graph.bytes(input));
  return bytes;
}

/// How many GPUs an op's attributes state, or its tensors show; 0: neither does.
double stated_gpus(const OpGraph& graph, const OpSizes& sizes, OpId op, KernelKind kind) {
  for (const std::string_view name : {"group_size", "num_devices"})
    if (const std::int64_t stated = sizes.attribute(name, 0); stated > 0) return static_cast<double>(stated);
  const auto made = static_cast<double>(sizes.num_outputs() > 0 ? graph.bytes(graph.first_output(op)) : 0);
  const auto read = static_cast<double>(sizes.num_inputs() > 0 ? graph.bytes(graph.inputs(op)[0]) : 0);
  if (made <= 0 || read <= 0) return 0;
  if (kind == kAllGather && made > read) return std::round(made / read);
  if (kind == kReduceScatter && read > made) return std::round(read / made);
  return 0;
}

}  // namespace

Collectives::Collectives(const OpGraph& graph) : graph_{graph} {
  bool any = false;
  for (std::size_t k = 0; k < graph.num_types(); ++k) {
    kinds_.push_back(kind_of_type(graph.type_name(TypeId{static_cast<std::uint16_t>(k)})));
    any = any || kinds_.back().value_or(kNone) != kNone;
  }
  if (!any) return;
  const auto meta = nlohmann::json::parse(graph.meta_json(), nullptr, /*allow_exceptions=*/false);
  const auto listed = meta.is_object() ? meta.value("group_sizes", nlohmann::json{}) : nlohmann::json{};
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op{i};
    if (kind(op).value_or(kNone) == kNone) continue;
    const OpRole role;
    double gpus = 0;
    if (const auto it = listed.find(std::string{graph.name(op)});
        it != listed.end() && it->is_number_unsigned())
      gpus = it->get<double>();
    if (gpus < 1) gpus = stated_gpus(graph, OpSizes{graph, op, role, {}}, op, *kind(op));
    if (gpus < 1) continue;
    gpus_.emplace(op, gpus);
    most_ = std::max(most_, gpus);
  }
}

void Collectives::add_kernel(const OpSizes& sizes, OpId op, Kernels& kernels) const {
  KernelShape kernel{.kind = kind(op).value_or(kNone)};
  if (kernel.kind == kNone) return;
  const auto found = gpus_.find(op);
  const double gpus = found != gpus_.end() ? found->second : most_ > 0 ? most_ : 2;
  kernel.at = {std::max(1.0, read_bytes_of(graph_, op) * (kernel.kind == kAllGather ? gpus : 1)), gpus, 1, 1};
  kernel.flops = static_cast<double>(sizes.flops());
  kernel.bytes = sizes.traffic();
  kernels.add(kernel);
}

}  // namespace emplace::kernel_shapes
