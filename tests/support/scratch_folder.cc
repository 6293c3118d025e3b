#include "tests/support/scratch_folder.h"

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <system_error>

#include "base/check.h"

namespace emplace::testing {

ScratchFolder::ScratchFolder(std::string_view name) {
  const bool memory = ::access("/dev/shm", W_OK) == 0;
  const auto base = memory ? std::filesystem::path{"/dev/shm"} : std::filesystem::temp_directory_path();
  std::string pattern = (base / ("emplace-" + std::string{name} + "-XXXXXX")).string();
  EMPLACE_CHECK(::mkdtemp(pattern.data()) != nullptr, "no folder can be made for what the test writes");
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace emplace::testing
