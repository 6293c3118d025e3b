#pragma once
/// A folder for the files of a test.

#include <filesystem>
#include <string_view>

namespace emplace::testing {

/// Empty at first; removed with its content when it goes out of scope. In memory where possible, so that no
/// test waits for a real disk. Thread: one.
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
