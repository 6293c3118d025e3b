#pragma once
/// Tables of the kernels of one kind of device.

#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string_view>

#include "base/check.h"
#include "base/result.h"
#include "base/text/word_list.h"
#include "executor/kernel/signature.h"

namespace emplace {

/// One row: op types, separated by spaces, and the function that makes their kernels. Its errors:
/// kUnsupported if there is no kernel for an attribute, a dtype or a shape; the context states which.
template <class Kernel>
struct KernelEntry {
  std::string_view types;
  Result<std::unique_ptr<Kernel>> (*make)(const Signature& signature);
};

/// The rows of several families by type. Immutable; any thread.
template <class Kernel>
class KernelTable {
 public:
  using Family = std::span<const KernelEntry<Kernel>> (*)();
  using Make = decltype(KernelEntry<Kernel>::make);

  KernelTable(std::initializer_list<Family> families) {
    for (const Family family : families)
      for (const KernelEntry<Kernel>& entry : family())
        for (const std::string_view type : words_in(entry.types))
          EMPLACE_CHECK(makers_.emplace(type, entry.make).second, "each type belongs to one family");
  }
  /// Null for a type without a kernel.
  Make find(std::string_view type) const {
    const auto at = makers_.find(type);
    return at == makers_.end() ? nullptr : at->second;
  }
  const std::map<std::string_view, Make>& makers() const { return makers_; }  ///< Sorted by type.

 private:
  std::map<std::string_view, Make> makers_;
};

}  // namespace emplace
