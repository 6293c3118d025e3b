#pragma once
/// The attributes of a signature, read by name. Makers ask for what they know, then for `fault()`.

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "executor/kernel/signature.h"

namespace emplace {

/// `TYPE: what`, as kUnsupported.
Error unsupported(const Signature& signature, std::string_view what);

/// Thread: one. A value of another kind than asked for is remembered as the fault, and the fallback returned.
class Attributes {
 public:
  explicit Attributes(const Signature& signature);

  bool has(std::string_view name) const;
  std::int64_t integer(std::string_view name, std::int64_t fallback);
  double number(std::string_view name, double fallback);
  bool flag(std::string_view name, bool fallback);  ///< true, false, or an integer that is not 0.
  std::string word(std::string_view name, std::string_view fallback);
  /// A list, or one integer as a list of one.
  std::vector<std::int64_t> integers(std::string_view name, std::vector<std::int64_t> fallback = {});
  std::vector<bool> flags(std::string_view name, std::vector<bool> fallback = {});

  /// The first attribute that was not what was asked for. kUnsupported.
  const std::optional<Error>& fault() const { return fault_; }

 private:
  const nlohmann::json* find(std::string_view name) const;
  void refuse(std::string_view name, std::string_view wanted);

  const Signature& signature_;
  std::shared_ptr<const nlohmann::json> json_;
  std::optional<Error> fault_;
};

}  // namespace emplace
