// Goal: the class of cost of every type of op changes only on purpose. Method: each line of
// tests/fixtures/ops/classes.txt is a type and its class, including state kinds and unknown types.
// EMPLACE_WRITE_MEANINGS=1 placement_test writes the file again.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "placement/machine/cost_model.h"

namespace emplace {
namespace {

TEST(OpClass, EveryTypeHasItsRecordedClass) {
  const std::string path = std::string{EMPLACE_FIXTURES} + "/ops/classes.txt";
  std::vector<std::string> types, classes;
  std::ifstream file{path};
  for (std::string line; std::getline(file, line);) {
    const std::size_t space = std::min(line.find(' '), line.size());
    types.push_back(line.substr(0, space));
    classes.push_back(line.substr(std::min(space + 1, line.size())));
  }
  ASSERT_GT(types.size(), 1000u);
  OpGraphBuilder builder;
  for (const std::string& type : types)
    builder.add({.name = type, .type = type, .outputs = {{DType::kF32, {8}}}});
  const OpGraph graph = std::move(builder).build().value();
  const bool writes = std::getenv("EMPLACE_WRITE_MEANINGS") != nullptr;
  std::string text;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const std::string found{op_class_name(classify(graph, OpId{i}))};
    text += types[i] + " " + found + "\n";
    if (!writes) {
      EXPECT_EQ(found, classes[i]) << types[i];
    }
  }
  if (writes) std::ofstream{path} << text;
}

}  // namespace
}  // namespace emplace
