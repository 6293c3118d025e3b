#pragma once
/// How a graph's file is read: what it is, and sizes for what it leaves open.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/settings.h"
#include "graph/graph_file.h"

namespace emplace::launcher {

struct GraphReading {
  std::string from;
  std::vector<std::string> shape;
  std::uint64_t batch = 0;  ///< 0: not given.

  void list(Settings& s) {
    s.add("from", from, "Format of the graph files; empty: recognised by content.");
    s.add("shape", shape, "Sizes of dimensions that the graph files name: \"batch=8\", \"seq=512\".");
    s.add("batch", batch, "Size of first dimensions that the graph files leave open; 0: not given.");
  }
  /// Errors (kInvalid): a format that does not exist, a malformed size.
  Result<ReadOptions> options() const;
};

/// The file that holds the graph: `path` itself, or in a folder that TensorFlow saved its saved_model.pb.
std::filesystem::path graph_file_of(const std::filesystem::path& path);

}  // namespace emplace::launcher
