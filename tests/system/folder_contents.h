#pragma once
// What a command has written.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

namespace emplace::testing {

/// Names of the files and folders in a folder.
inline std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator{folder})
    names.insert(entry.path().filename().string());
  return names;
}

/// The bytes of a file; empty if it is not there.
inline std::string content_of(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

}  // namespace emplace::testing
