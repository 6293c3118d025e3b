#pragma once
/// Bytes as text. SHA-256 (libsodium) for what must be named by its content; XXH3 for what need only be told
/// apart.

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

/// As RFC 4648 has it, padded.
std::string to_base64(std::span<const std::byte> bytes);
/// The bytes of such a text; nothing if it is none.
std::optional<std::vector<std::byte>> from_base64(std::string_view text);

/// XXH3 for tables in memory: fast, not for names.
std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed = 0);

}  // namespace emplace
