#pragma once
/// Reads the attributes of a signature by name. Kernel factories read the attributes they support, then check
/// `fault()`.

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "executor/kernel/signature.h"

namespace emplace {

/// Returns `TYPE: what` as kUnsupported.
Error unsupported(const Signature& signature, std::string_view what);
/// As above: no kernel for the dtype.
Error unsupported(const Signature& signature, DType dtype);

/// Reads attributes. A value of the wrong type is recorded as the fault, and the fallback is returned.
/// Thread: one.
class Attributes {
 public:
  explicit Attributes(const Signature& signature);

  bool has(std::string_view name) const;
  std::int64_t integer(std::string_view name, std::int64_t fallback);
  double number(std::string_view name, double fallback);
  bool flag(std::string_view name, bool fallback);  ///< True, false, or an integer (true if not 0).
  std::string word(std::string_view name, std::string_view fallback);
  /// Reads a list; a single integer is a list of one.
  std::vector<std::int64_t> integers(std::string_view name, std::vector<std::int64_t> fallback = {});
  std::vector<bool> flags(std::string_view name, std::vector<bool> fallback = {});

  /// The first attribute with a wrong type. kUnsupported.
  const std::optional<Error>& fault() const { return fault_; }

 private:
  const nlohmann::json* find(std::string_view name) const;
  void refuse(std::string_view name, std::string_view wanted);

  const Signature& signature_;
  std::shared_ptr<const nlohmann::json> json_;
  std::optional<Error> fault_;
};

/// The value that `get(attributes)` reads. Errors: kUnsupported for an attribute with a wrong type.
template <class Get>
auto read(const Signature& signature, Get get) -> Result<decltype(get(std::declval<Attributes&>()))> {
  Attributes attributes{signature};
  auto value = get(attributes);
  if (attributes.fault()) return *attributes.fault();
  return value;
}

}  // namespace emplace
