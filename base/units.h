#pragma once
/// Sizes, rates and times in human-readable form: parses "12GiB", "7.6GB/s", "25us", and formats for tables.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace emplace {

/// "12GiB", "512MB", "4096B": decimal (kB MB GB TB) and binary (KiB MiB GiB TiB) units. Returns bytes, >= 0.
/// Errors (kInvalid): no known unit, negative, not finite, or above 2^62.
Result<std::int64_t> parse_bytes(std::string_view text);
/// "7.6GB/s" → bytes per second, > 0.
Result<double> parse_bytes_per_s(std::string_view text);
/// "4.29TFLOP/s", "1094GFLOP/s" → floating-point operations per second, > 0.
Result<double> parse_flops_per_s(std::string_view text);
/// "25us", "5ms", "1.5s", "2min", "1h", "10ns" → seconds, >= 0.
Result<double> parse_seconds(std::string_view text);
/// "10%" or "0.1" → a share in [0, 1].
Result<double> parse_share(std::string_view text);

std::string format_bytes(std::int64_t bytes);  ///< "2.50 GiB"
std::string format_seconds(double seconds);    ///< "418.2 ms"

}  // namespace emplace
