#pragma once
/// The machine that a process runs on, as it is kept with a run.

#include <cstdint>
#include <filesystem>
#include <string>

namespace emplace::launcher {

std::string host_name();
std::uint64_t memory_bytes();  ///< 0: it does not say.
/// 16 hex digits for a run that starts now in this folder; no other run has them.
std::string new_run_id(const std::filesystem::path& directory, std::int64_t started_wall_ns);
/// One JSON object: processor, cores, memory_bytes, kernel, build_type, compiler, kernels (of the policies).
std::string host_facts();

}  // namespace emplace::launcher
