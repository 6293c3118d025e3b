#pragma once
/// Sizes for the dimensions that a graph's file leaves open.

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
  std::map<std::string, std::int64_t, std::less<>> named;  ///< "batch" → 8; of dimensions with a name.
  std::optional<std::int64_t> batch;                       ///< Of first dimensions without a size.

  bool empty() const { return named.empty() && !batch; }
  /// Size of the dimension `name` at position `axis`; nothing if nobody gave one. A name may be empty.
  std::optional<std::int64_t> size_of(std::string_view name, std::size_t axis) const;
};

/// Texts as `--shape` takes them, "batch=8" or "batch=8,seq=512".
/// Errors (kInvalid): no NAME=SIZE; a size outside of 1 to 2^31; two sizes for one name.
Result<OpenDims> parse_open_dims(std::span<const std::string> texts);

/// Which open dimensions a reader met, and which of the given sizes it used.
class DimsMet {
 public:
  explicit DimsMet(const OpenDims& given) : given_{given} {}

  /// As OpenDims::size_of, and a name that got its size as a first dimension keeps it everywhere; what has no
  /// size is kept for missing().
  std::optional<std::int64_t> size_of(std::string_view name, std::size_t axis);
  bool any_missing() const { return !missing_.empty(); }
  /// Open dimensions without a size, each name once, "" for those without a name.
  const std::vector<std::string>& missing() const { return missing_; }
  /// "batch=…,seq=…", as a user would give the missing ones.
  std::string missing_as_option() const;
  /// Errors (kInvalid): a size that no dimension asked for, with the names that there are.
  Result<Unit> all_used(std::string_view where) const;

 private:
  const OpenDims& given_;
  std::vector<std::string> missing_, met_;
  std::vector<std::string> batches_;  // Names that --batch gave their size.
};

}  // namespace emplace
