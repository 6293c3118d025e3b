#include "tests/support/reference_dag.h"

#include <zlib.h>

#include <sstream>
#include <string>

namespace emplace::testing {
namespace {

Result<std::string> read_text(const std::filesystem::path& path) {
  gzFile file = gzopen(path.c_str(), "rb");  // Reads plain text too.
  if (file == nullptr) return Error{Errc::kIo, path.filename().string() + ": cannot be read"};
  std::string text;
  char block[1 << 16];
  for (int got = 0; (got = gzread(file, block, sizeof block)) > 0;)
    text.append(block, static_cast<std::size_t>(got));
  gzclose(file);
  return text;
}

}  // namespace

Result<ReferenceDag> read_reference_dag(const std::filesystem::path& path) {
  auto text = read_text(path);
  if (!text) return text.error();
  std::istringstream in{*std::move(text)};
  std::size_t n = 0, e = 0;
  if (!(in >> n >> e)) return invalid(path.filename().string(), "has no counts");
  std::vector<OpSpec> ops(n);
  ReferenceDag dag;
  for (std::size_t i = 0; i < n; ++i) {
    double cost = 0;
    std::int64_t out0 = 0, out1 = 0;
    in >> cost >> out0 >> out1;
    dag.cost_us.push_back(cost);
    ops[i].name = "n" + std::to_string(i);
    ops[i].type = "Op";
    ops[i].outputs = {{DType::kU8, {out0}}, {DType::kU8, {out1}}};
    ops[i].measured_us = {{"gpu", cost}};
  }
  for (std::size_t i = 0; i < e; ++i) {
    std::uint32_t parent = 0, child = 0, output = 0;
    in >> parent >> child >> output;
    if (!in || child >= n)
      return invalid(path.filename().string(), "edge " + std::to_string(i) + " is broken");
    ops[child].inputs.push_back({parent, output});
  }
  OpGraphBuilder builder;
  builder.set_name(path.stem().string());
  for (OpSpec& op : ops) builder.add(std::move(op));
  auto graph = std::move(builder).build();
  if (!graph) return graph.error();
  dag.graph = *std::move(graph);
  return dag;
}

Placement reference_placement(std::size_t ops, std::uint64_t k, std::uint64_t devices) {
  Placement placement;
  placement.reserve(ops);
  for (std::uint64_t i = 0; i < ops; ++i)
    placement.push_back(static_cast<DeviceId>(splitmix64(k << 32 | i) % devices));
  return placement;
}

}  // namespace emplace::testing
