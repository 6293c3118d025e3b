#pragma once
/// Reads names of scopes: their words, recurrent layers, blocks and branches.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace emplace {

/// Splits a scope into words without time steps: "cells.3/t07/ops.0" → cells 3 ops 0.
std::vector<std::string> words_of_scope(std::string_view scope);

/// The time step of a scope: "t07" of "decoder/t07/attention"; empty if it has none.
std::string_view time_step_of(std::string_view scope);

/// The recurrent layer in a scope name: a level "l1", "l0fw" or "l0bw"; within a time step also a number as
/// last word, as in "t07/cells.1".
std::optional<std::size_t> recurrent_layer(std::string_view scope);

/// A scope up to its first level that is a number: "encoder/layer/3" of "encoder/layer/3/attention"; empty if
/// it has none.
std::string_view numbered_block(std::string_view scope);

/// A block of a network, and one of the parallel branches in it.
struct ScopeBranch {
  std::string block;
  std::string branch;  ///< Empty: the block's trunk.
  /// Path behind a fork within the branch: "a" of branch3x3_2a; empty: before the fork.
  std::string fork;
};
/// "Mixed_5b.branch5x5_1.conv" is branch5x5 of Mixed_5b, "cells.3.ops.0.dw1" ops.0 of cells.3,
/// "layer.7.att.q" the trunk of layer.7, "conv1" a block of its own.
ScopeBranch branch_of_scope(std::string_view scope);

}  // namespace emplace
