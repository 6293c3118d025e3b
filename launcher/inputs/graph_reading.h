#pragma once
/// How a graph file is read: its format, and sizes for its unknown dimensions.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/settings.h"
#include "graph/formats/graph_file.h"

namespace emplace::launcher {

struct GraphReading {
  std::string from;
  std::vector<std::string> shape;
  std::uint64_t batch = 0;  ///< 0: not given.

  void list(Settings& s) {
    s.add("from", from, "Format of the graph files; empty: detected from their content.");
    s.add("shape", shape, "Sizes of named dimensions of the graph files: \"batch=8\", \"seq=512\".");
    s.add("batch", batch, "Size of unknown first dimensions of the graph files; 0: not given.");
  }
  /// Errors (kInvalid): an unknown format, a malformed size.
  Result<ReadOptions> options() const;
};

/// Returns the graph file: `path` itself, or saved_model.pb in it if `path` is a TensorFlow SavedModel
/// folder.
std::filesystem::path graph_file_of(const std::filesystem::path& path);

}  // namespace emplace::launcher
