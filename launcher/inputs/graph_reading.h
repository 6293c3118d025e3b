#pragma once
/// How a graph file is read: its format, sizes for its unknown dimensions, and the arithmetic of float32.

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
  std::string float32;      ///< "ieee" or "tf32"; empty: as the graph file or its framework has it.

  void list(Settings& s) {
    s.add("from", from, "Format of the graph files; empty: detected from their content.");
    s.add("shape", shape, "Sizes of named dimensions of the graph files: \"batch=8\", \"seq=512\".");
    s.add("batch", batch, "Size of unknown first dimensions of the graph files; 0: not given.");
    s.add("float32", float32,
          "What products and convolutions of float32 tensors use: ieee, or tf32 on devices that have it; "
          "empty: what the graph records, else the default of its framework (docs/reference/machines.md).")
        .on_resume = OnResume::kSame;
  }
  /// Errors (kInvalid): an unknown format or arithmetic, a malformed size.
  Result<ReadOptions> options() const;
};

/// Returns the graph file: `path` itself, or saved_model.pb in it if `path` is a TensorFlow SavedModel
/// folder.
std::filesystem::path graph_file_of(const std::filesystem::path& path);

}  // namespace emplace::launcher
