#pragma once
/// Facts about this machine that are recorded with a run.

#include <cstdint>
#include <filesystem>
#include <string>

namespace emplace::launcher {

std::string host_name();
std::uint64_t memory_bytes();  ///< Physical memory [B]; 0 if it is unknown.
/// Returns 16 hex digits that are unique to a run started now in this folder.
std::string new_run_id(const std::filesystem::path& directory, std::int64_t started_wall_ns);
/// Returns one JSON object: processor, cores, memory_bytes, kernel, build_type, compiler, kernels (the policy
/// kernels).
std::string host_facts();

}  // namespace emplace::launcher
