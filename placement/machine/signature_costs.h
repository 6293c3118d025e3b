#pragma once
/// Times that were measured per kind of work: two ops of the same type, attributes and operands cost the
/// same.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// "aten::mm {} f32[4,8:8,1] f32[8,2:1,8] > f32[4,2]": type, attributes, operands with their strides where
/// they are views, outputs. Where a part begins is left out. O(views behind the operands); any thread.
std::string signature_text(const OpGraph& graph, OpId op);
/// The same in 64 bits: how files name it.
std::uint64_t signature_hash(const OpGraph& graph, OpId op);

/// Immutable once filled; any thread.
class SignatureCosts {
 public:
  struct Entry {
    std::uint64_t signature = 0;
    double us = 0;  ///< [us]
    bool operator==(const Entry&) const = default;
  };

  SignatureCosts() = default;
  explicit SignatureCosts(std::vector<Entry> entries);  ///< Of two with one signature the first counts.
  /// One entry as device files write it: "00f3a1c27b9d4e58=12.625". Errors: kInvalid.
  static Result<Entry> parse_entry(const std::string& text);
  static std::string entry_text(const Entry& entry);

  bool empty() const { return entries_.empty(); }
  const std::vector<Entry>& entries() const { return entries_; }  ///< By signature.
  std::optional<double> us(std::uint64_t signature) const;
  bool operator==(const SignatureCosts&) const = default;

 private:
  std::vector<Entry> entries_;
};

}  // namespace emplace
