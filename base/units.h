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

/// Memory that is kept free: a share of the memory, or a size.
struct Reserve {
  double share = 0;        ///< Share of the memory, in [0, 1).
  std::int64_t bytes = 0;  ///< Size [B]; one of the two is 0.

  Reserve() = default;
  Reserve(double of_memory) : share{of_memory} {}

  /// Bytes to keep free of `memory` [B].
  std::int64_t of(std::int64_t memory) const {
    return static_cast<std::int64_t>(share * static_cast<double>(memory)) + bytes;
  }
  /// "0.1" or "2GiB", which parse_reserve() reads back exactly.
  std::string text() const;
  /// One number for records: the share, or the size, which is at least 1.
  double recorded() const { return bytes > 0 ? static_cast<double>(bytes) : share; }
  static Reserve from_recorded(double number);
  bool operator==(const Reserve&) const = default;
};
/// "10%", "0.1" or "2GiB". Errors (kInvalid): neither a share below 100 % nor a size.
Result<Reserve> parse_reserve(std::string_view text);

std::string format_bytes(std::int64_t bytes);  ///< "2.50 GiB"
std::string format_seconds(double seconds);    ///< "418.2 ms"

}  // namespace emplace
