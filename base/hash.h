#pragma once
/// Hashes and text encodings of bytes. SHA-256 (libsodium) names content; XXH3 only distinguishes keys.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace emplace {

using Sha256Digest = std::array<std::uint8_t, 32>;

Sha256Digest sha256(std::span<const std::byte> bytes);
std::string to_hex(const Sha256Digest& digest);  ///< 64 lower-case digits.
std::string sha256_hex(std::span<const std::byte> bytes);

/// Encodes as padded RFC 4648 base64.
std::string to_base64(std::span<const std::byte> bytes);
/// Decodes base64; returns nothing if `text` is not base64.
std::optional<std::vector<std::byte>> from_base64(std::string_view text);

/// XXH3 for in-memory tables: fast, not collision-resistant.
std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed = 0);

}  // namespace emplace
