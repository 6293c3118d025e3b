#pragma once
/// Sizes for open dimensions of a graph file.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace emplace {

struct OpenDims {
  std::map<std::string, std::int64_t, std::less<>> named;  ///< Sizes of named dimensions: "batch" → 8.
  std::optional<std::int64_t> batch;                       ///< Size of first dimensions that have no size.

  bool empty() const { return named.empty() && !batch; }
  /// The size of dimension `name` at position `axis`; nothing if none is set. A name may be empty.
  std::optional<std::int64_t> size_of(std::string_view name, std::size_t axis) const;
};

/// Parses `--shape` arguments: "batch=8" or "batch=8,seq=512". Errors (kInvalid): not NAME=SIZE; a size
/// outside of 0 to 2^31; two sizes for one name.
Result<OpenDims> parse_open_dims(std::span<const std::string> texts);

/// Tracks the open dimensions that a reader encountered and the given sizes that were used.
class DimUsage {
 public:
  explicit DimUsage(const OpenDims& given) : given_{given} {}

  /// As OpenDims::size_of; additionally a name that got its size as a first dimension keeps it everywhere.
  /// Dimensions without a size are recorded for missing().
  std::optional<std::int64_t> size_of(std::string_view name, std::size_t axis);
  /// The sizes of a tensor whose rank the file lacks: those given for NAME.0, NAME.1, … Nothing without
  /// NAME.0, whose absence is not recorded.
  std::optional<std::vector<std::int64_t>> shape_of(std::string_view name);
  bool any_missing() const { return !missing_.empty(); }
  /// Open dimensions without a size, each name once, "" for unnamed ones.
  const std::vector<std::string>& missing() const { return missing_; }
  /// Formats the missing sizes as options: "--shape batch=…,seq=…".
  std::string missing_as_option() const;
  /// Errors (kInvalid): a given size that was not used, with the names of existing dimensions.
  Result<Unit> all_used(std::string_view where) const;

 private:
  const OpenDims& given_;
  std::vector<std::string> missing_, encountered_;
  std::vector<std::string> batches_;  // Names sized by --batch.
};

}  // namespace emplace
