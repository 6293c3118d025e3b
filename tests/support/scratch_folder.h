#pragma once
/// A folder for what a test writes.

#include <filesystem>
#include <string_view>

namespace emplace::testing {

/// Empty at first; gone, with all in it, when it goes out of scope. In memory where there is some, so that
/// nothing waits for a real disk. Thread: one.
class ScratchFolder {
 public:
  explicit ScratchFolder(std::string_view name);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace emplace::testing
