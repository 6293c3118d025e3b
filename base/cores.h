#pragma once
/// Cores of this machine.

namespace emplace {

/// Number of cores that this process may use, at least 1. Thread: any.
unsigned usable_cores();

}  // namespace emplace
