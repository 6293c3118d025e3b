#pragma once
/// Private network and mount namespaces, so that a test can fill a disk and take any port without side
/// effects.

#include <filesystem>

#include "base/result.h"

namespace emplace::testing {

/// Moves this process and all its children into new user, network and mount namespaces, with loopback up.
/// Call it before any thread starts. Errors (kUnsupported): why the machine does not allow it.
Result<Unit> enter_own_namespaces();
/// Result of that call in main().
const Result<Unit>& own_namespaces();

/// A small disk mounted at an empty folder, while it exists. Needs private namespaces.
class SmallDisk {
 public:
  static Result<SmallDisk> make(const std::filesystem::path& at, std::size_t bytes);
  SmallDisk(SmallDisk&& other) noexcept;
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  SmallDisk& operator=(SmallDisk&&) = delete;
  ~SmallDisk();
  /// Fills all free space; false if it could not.
  bool fill() const;
  /// Frees that space.
  void free() const;

 private:
  explicit SmallDisk(std::filesystem::path at) : at_{std::move(at)} {}
  std::filesystem::path at_;
};

}  // namespace emplace::testing
