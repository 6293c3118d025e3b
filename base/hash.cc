#include "base/hash.h"

#include <sodium/crypto_hash_sha256.h>
#include <sodium/utils.h>
#include <xxhash.h>

namespace emplace {

Sha256Digest sha256(std::span<const std::byte> bytes) {
  Sha256Digest digest;
  static_assert(crypto_hash_sha256_BYTES == sizeof(digest));
  crypto_hash_sha256(digest.data(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  return digest;
}

std::string to_hex(const Sha256Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * digest.size());
  for (const std::uint8_t byte : digest) text.append({kDigits[byte >> 4], kDigits[byte & 15]});
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) { return to_hex(sha256(bytes)); }

std::string to_base64(std::span<const std::byte> bytes) {
  std::string text(sodium_base64_ENCODED_LEN(bytes.size(), sodium_base64_VARIANT_ORIGINAL), '\0');
  sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                    bytes.size(), sodium_base64_VARIANT_ORIGINAL);
  text.pop_back();  // Remove the NUL terminator.
  return text;
}

std::optional<std::vector<std::byte>> from_base64(std::string_view text) {
  std::vector<std::byte> bytes(text.size() / 4 * 3 + 3);
  std::size_t size = 0;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(),
                        text.size(), nullptr, &size, nullptr, sodium_base64_VARIANT_ORIGINAL) != 0)
    return std::nullopt;
  bytes.resize(size);
  return bytes;
}

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace emplace
