#include "placement/export/placement_export.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "base/text/words.h"
#include "base/units.h"
#include "placement/export/csv_line.h"
#include "placement/export/placement_formats.h"

namespace emplace::interop {
namespace {

/// Rows are in the order of the placement file, or by id.
Result<ExportedPlacement> placement_csv(const PlacementExport& what) {
  const OpGraph& graph = what.graph;
  CsvLine line;
  for (const char* column : {"op", "device", "id", "type", "scope"}) line.text(column);
  std::string all = line.take();
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op = what.order.empty() ? OpId{i} : what.order[i];
    line.text(graph.name(op)).text(what.devices[index(what.placement[index(op)])]).number(index(op));
    all += line.text(graph.type_name(op)).text(graph.group_name(op)).take();
  }
  return exported(what, std::move(all), what.placement);
}

/// Quotes a text for Graphviz: two escapes in strings, further ones in labels.
std::string dot_text(std::string_view text) {
  std::string quoted{'"'};
  for (const char c : printable(to_valid_utf8(text), 2000)) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

/// Distinct hues for any number of devices.
std::string colour_of(std::size_t device, std::size_t devices) {
  return fmt::format("{:.4f} 0.35 0.95", static_cast<double>(device) / static_cast<double>(devices));
}

/// Ops as boxes in the colour of their device. An edge between two devices is red and labelled with its
/// bytes.
Result<ExportedPlacement> placement_dot(const PlacementExport& what) {
  const auto& [graph, devices, placement] = std::tie(what.graph, what.devices, what.placement);
  std::string all = "digraph " + dot_text(graph.name()) + " {\n  node [shape=box, style=filled];\n";
  for (std::size_t d = 0; d < devices.size(); ++d)
    all += fmt::format("  d{} [label={}, shape=oval, fillcolor=\"{}\"];\n", d, dot_text(devices[d]),
                       colour_of(d, devices.size()));
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const std::size_t device = index(placement[i]);
    all += fmt::format("  n{} [label={}, tooltip={}, fillcolor=\"{}\"];\n", i, dot_text(graph.name(OpId{i})),
                       dot_text(std::string{graph.type_name(OpId{i})} + " on " + devices[device]),
                       colour_of(device, devices.size()));
  }
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    for (const TensorId tensor : graph.inputs(OpId{i})) {
      const OpId producer = graph.producer(tensor);
      all += fmt::format("  n{} -> n{}", index(producer), i);
      if (placement[index(producer)] != placement[i])
        all += " [color=red, label=\"" + format_bytes(graph.bytes(tensor)) + "\"]";
      all += ";\n";
    }
  }
  return exported(what, all + "}\n", placement);
}

struct Format {
  std::string_view name;
  Result<ExportedPlacement> (*make)(const PlacementExport&);
};
constexpr std::array<Format, 10> kFormats{{{"onnx", placement_onnx},
                                           {"submodels", placement_submodels},
                                           {"accelerate", placement_accelerate},
                                           {"pipelining", placement_pipelining},
                                           {"vllm", placement_vllm},
                                           {"deepspeed", placement_deepspeed},
                                           {"tensorflow", placement_tensorflow},
                                           {"openvino", placement_openvino},
                                           {"dot", placement_dot},
                                           {"csv", placement_csv}}};

}  // namespace

std::string placement_formats() {
  std::string names;
  for (const Format& one : kFormats) names.append(names.empty() ? "" : ", ").append(one.name);
  return names;
}

Result<ExportedPlacement> export_placement(std::string_view format, const PlacementExport& what) {
  std::vector<std::string_view> names;
  for (const Format& one : kFormats) {
    if (one.name == format && !what.modules.empty() && format != "accelerate")
      return invalid("--modules", "is not for --to " + std::string{format});
    if (one.name == format) return one.make(what);
    names.push_back(one.name);
  }
  const std::string_view near = nearest_word(format, names);
  return invalid("--to '" + printable(format, 40) + "'", "is not a placement format",
                 "expected one of: " + placement_formats() +
                     (near.empty() ? std::string{} : "; did you mean '" + std::string{near} + "'?"));
}

}  // namespace emplace::interop
