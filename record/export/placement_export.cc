#include "record/export/placement_export.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/text/words.h"
#include "base/units.h"
#include "record/export/csv_line.h"

namespace emplace::record {
namespace {

std::string to_csv(const OpGraph& graph, const std::vector<std::string>& devices,
                   const Placement& placement) {
  CsvLine line;
  for (const char* column : {"op", "device", "id", "type", "scope"}) line.text(column);
  std::string all = line.take();
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op{i};
    line.text(graph.name(op)).text(devices[index(placement[i])]).number(i);
    all += line.text(graph.type_name(op)).text(graph.group_name(op)).take();
  }
  return all;
}

/// In double quotes, where Graphviz knows two escapes of its own and labels know more.
std::string dot_text(std::string_view text) {
  std::string quoted{'"'};
  for (const char c : printable(mended_utf8(text), 2000)) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

/// Hues apart from one another however many devices there are.
std::string colour_of(std::size_t device, std::size_t devices) {
  char text[48];
  std::snprintf(text, sizeof text, "%.4f 0.35 0.95",
                static_cast<double>(device) / static_cast<double>(devices));
  return text;
}

/// Ops as boxes in the colour of their device; an edge between two devices is red and says its bytes.
std::string to_dot(const OpGraph& graph, const std::vector<std::string>& devices,
                   const Placement& placement) {
  std::string all = "digraph " + dot_text(graph.name()) + " {\n  node [shape=box, style=filled];\n";
  for (std::size_t d = 0; d < devices.size(); ++d)
    all += "  d" + std::to_string(d) + " [label=" + dot_text(devices[d]) + ", shape=oval, fillcolor=\"" +
           colour_of(d, devices.size()) + "\"];\n";
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const std::size_t device = index(placement[i]);
    all += "  n" + std::to_string(i) + " [label=" + dot_text(graph.name(OpId{i})) +
           ", tooltip=" + dot_text(std::string{graph.type_name(OpId{i})} + " on " + devices[device]) +
           ", fillcolor=\"" + colour_of(device, devices.size()) + "\"];\n";
  }
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    for (const TensorId tensor : graph.inputs(OpId{i})) {
      const OpId producer = graph.producer(tensor);
      all += "  n" + std::to_string(index(producer)) + " -> n" + std::to_string(i);
      if (placement[index(producer)] != placement[i])
        all += " [color=red, label=\"" + format_bytes(graph.bytes(tensor)) + "\"]";
      all += ";\n";
    }
  }
  return all + "}\n";
}

struct Format {
  std::string_view name;
  std::string (*text)(const OpGraph&, const std::vector<std::string>&, const Placement&);
};
constexpr std::array<Format, 2> kFormats{{{"csv", to_csv}, {"dot", to_dot}}};
constexpr std::array<std::string_view, kFormats.size()> kNames{kFormats[0].name, kFormats[1].name};

}  // namespace

Result<std::string> export_placement(std::string_view format, const OpGraph& graph,
                                     const std::vector<std::string>& devices, const Placement& placement) {
  for (const Format& one : kFormats)
    if (one.name == format) return one.text(graph, devices, placement);
  return invalid("--to '" + printable(format, 40) + "'", "is no format of a placement", "there are csv, dot");
}

}  // namespace emplace::record
