#pragma once
/// Graphs that tests write as text: reading them, refusals, and their ops by name.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>

#include "graph/formats/graph_file.h"

namespace emplace {

/// Reads the text as a file called `where`.
inline Result<OpGraph> read_text(std::string_view where, std::string_view text,
                                 const ReadOptions& options = {}) {
  return parse_graph(std::as_bytes(std::span{text.data(), text.size()}), where, options);
}

/// The reader's error for the text, or "accepted". Every refusal is one line that starts with the file.
inline std::string refusal_of(std::string_view where, std::string_view text,
                              const ReadOptions& options = {}) {
  const auto graph = read_text(where, text, options);
  if (graph) return "accepted";
  EXPECT_EQ(graph.error().context.find('\n'), std::string::npos);
  EXPECT_THAT(graph.error().context, ::testing::StartsWith(std::string{where} + ": "));
  return graph.error().context;
}

/// The op of that name; a failure of the test if there is none.
inline OpId op_named(const OpGraph& graph, std::string_view name) {
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
    if (graph.name(OpId{i}) == name) return OpId{i};
  ADD_FAILURE() << "no op " << name;
  return OpId{0};
}

}  // namespace emplace
