#pragma once
/// Files with secrets.

#include <filesystem>

#include "base/result.h"

namespace emplace {

/// Checks that only its owner can read a file with a secret. Errors: kIo if it cannot be examined; kInvalid
/// if others can read it. Devices and pipes are allowed.
Result<Unit> check_private(const std::filesystem::path& path);

}  // namespace emplace
