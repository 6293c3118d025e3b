#pragma once
/// A network and mounts of our own, so that a test can fill a disk and take any port without anybody
/// noticing.

#include <filesystem>

#include "base/result.h"

namespace emplace::testing {

/// Moves this process, and with it all that it starts, into new user, network and mount namespaces, with
/// loopback up. Before any thread. Errors (kUnsupported): the machine does not allow it; why.
Result<Unit> enter_own_namespaces();
/// What the above said when main() called it.
const Result<Unit>& own_namespaces();

/// A small disk at an empty folder, while it lives. Needs namespaces of our own.
class SmallDisk {
 public:
  static Result<SmallDisk> make(const std::filesystem::path& at, std::size_t bytes);
  SmallDisk(SmallDisk&& other) noexcept;
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  SmallDisk& operator=(SmallDisk&&) = delete;
  ~SmallDisk();
  /// Takes every byte that is left; false if it could not.
  bool fill() const;
  /// Gives them back.
  void free() const;

 private:
  explicit SmallDisk(std::filesystem::path at) : at_{std::move(at)} {}
  std::filesystem::path at_;
};

}  // namespace emplace::testing
