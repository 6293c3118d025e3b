#pragma once
/// Times measured per op signature: ops of the same type, attributes and operands have the same time.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// Formats "aten::mm {} f32[4,8:8,1] f32[8,2:1,8] > f32[4,2]": type, attributes, operands (with strides for
/// views), outputs. Offsets of slices are left out. O(views behind the operands); any thread.
std::string signature_text(const OpGraph& graph, OpId op);
/// A 64-bit hash of signature_text; the key in device files.
std::uint64_t signature_hash(const OpGraph& graph, OpId op);

/// A table of times by signature. Immutable once filled; any thread.
class SignatureCosts {
 public:
  struct Entry {
    std::uint64_t signature = 0;
    double us = 0;  ///< Time [us].
    bool operator==(const Entry&) const = default;
  };

  SignatureCosts() = default;
  /// The first of several entries with one signature wins.
  explicit SignatureCosts(std::vector<Entry> entries);
  /// Parses one entry of a device file: "00f3a1c27b9d4e58=12.625". Errors: kInvalid.
  static Result<Entry> parse_entry(const std::string& text);
  static std::string entry_text(const Entry& entry);

  bool empty() const { return entries_.empty(); }
  const std::vector<Entry>& entries() const { return entries_; }  ///< Sorted by signature.
  std::optional<double> us(std::uint64_t signature) const;
  bool operator==(const SignatureCosts&) const = default;

 private:
  std::vector<Entry> entries_;
};

}  // namespace emplace
