#include "heuristics/towers_graph.h"

#include <gtest/gtest.h>

#include <map>

#include "graph/graph_file.h"
#include "placement/device_file.h"
#include "tests/heuristics/world.h"

namespace emplace {
namespace {

TEST(Towers, Debug) {
  const OpGraph graph = load_graph("/work/shared/graphs/training/resnet50-bs32.json").value();
  const DeviceSet devices = load_devices("/tmp/full2.toml").value();
  const auto towers = towers_graph(graph, {2, false, true}).value();
  CostTable a{graph, devices}, b{towers.graph, devices};
  std::map<std::string, std::pair<double, double>> by;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
    by[std::string{phase_name(graph.phase(OpId{i}))} + " " + std::string{graph.type_name(OpId{i})}].first +=
        static_cast<double>(a.ns(DeviceId{1}, OpId{i})) * 1e-6;
  for (std::uint32_t i = 0; i < towers.graph.num_ops(); ++i)
    by[std::string{phase_name(towers.graph.phase(OpId{i}))} + " " + std::string{towers.graph.type_name(OpId{i})}].second +=
        static_cast<double>(b.ns(DeviceId{1}, OpId{i})) * 1e-6;
  for (auto& [k, v] : by) printf("%-50s %9.2f %9.2f\n", k.c_str(), v.first, v.second);
}

}  // namespace
}  // namespace emplace
