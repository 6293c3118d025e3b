#pragma once
/// SHA-256 (libsodium) for what must be named by its content.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace emplace {

using Sha256Digest = std::array<std::uint8_t, 32>;

Sha256Digest sha256(std::span<const std::byte> bytes);
std::string to_hex(const Sha256Digest& digest);  ///< 64 lower-case digits.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace emplace
