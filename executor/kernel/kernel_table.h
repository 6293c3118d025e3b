#pragma once
/// Tables of the kernels of one kind of device.

#include <algorithm>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string_view>

#include "base/check.h"
#include "base/result.h"
#include "executor/kernel/signature.h"

namespace emplace {

/// Calls `visit` with each word of a text, whose words are separated by spaces.
template <class Visit>
void each_word(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

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
        each_word(entry.types, [&](std::string_view type) {
          EMPLACE_CHECK(makers_.emplace(type, entry.make).second, "each type belongs to one family");
        });
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
