#pragma once
/// The machine that a process runs on, as it is kept with a run.

#include <cstdint>
#include <string>

namespace emplace::launcher {

std::string host_name();
std::uint64_t memory_bytes();  ///< 0: it does not say.
/// One JSON object: processor, cores, memory_bytes, kernel, build_type, compiler, kernels (of the policies).
std::string host_facts();

}  // namespace emplace::launcher
