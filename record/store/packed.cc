#include "record/store/packed.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

namespace emplace::record {
namespace {

constexpr std::array<std::byte, 3> kMagic{std::byte{'R'}, std::byte{'L'}, std::byte{'1'}};
constexpr std::size_t kMaxPlacementBytes = std::size_t{1}
                                           << 30;  ///< Limit on the placements of one episode [bytes].
/// Placements with shorter runs on average are compressed by zstd.
constexpr std::size_t kShortRun = 4;

void put(Bytes& out, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) out.push_back(static_cast<std::byte>(number | 0x80));
  out.push_back(static_cast<std::byte>(number));
}

/// Visits in order the positions p where a new run starts: row[p - 1] != row[p].
template <class Visit>
void each_boundary(std::span<const std::byte> row, Visit visit) {
  const std::byte* const data = row.data();
  std::size_t at = 1;
  for (; at + 8 <= row.size(); at += 8) {  // Compares eight neighbours at once.
    std::uint64_t left = 0, right = 0;
    std::memcpy(&left, data + at - 1, sizeof left);
    std::memcpy(&right, data + at, sizeof right);
    for (std::uint64_t differ = left ^ right; differ != 0;) {
      const int byte = std::countr_zero(differ) / 8;
      visit(at + static_cast<std::size_t>(byte));
      differ &= byte == 7 ? 0 : ~std::uint64_t{0} << (8 * (byte + 1));
    }
  }
  for (; at < row.size(); ++at)
    if (data[at - 1] != data[at]) visit(at);
}

/// Appends the runs of a row to `out`. Returns false and leaves `out` unchanged if there are more than
/// `most` runs.
bool put_runs(std::span<const std::byte> row, std::byte kind, std::size_t most, Bytes& runs, Bytes& out) {
  runs.clear();
  std::size_t begin = 0, count = 0;
  const auto end_run = [&](std::size_t end) {
    runs.push_back(row[begin]);
    put(runs, end - begin);
    begin = end;
    ++count;
  };
  each_boundary(row, [&](std::size_t end) {
    if (count <= most) end_run(end);
  });
  if (!row.empty()) end_run(row.size());
  if (count > most) return false;
  out.push_back(kind);
  put(out, count);
  out.insert(out.end(), runs.begin(), runs.end());
  return true;
}

/// Cursor over packed bytes. Reading stops at a missing number.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_{bytes} {}
  std::optional<std::byte> byte() {
    if (at_ == bytes_.size()) return std::nullopt;
    return bytes_[at_++];
  }
  std::optional<std::uint64_t> number() {
    std::uint64_t number = 0;
    for (int shift = 0; shift < 63; shift += 7) {
      const auto next = byte();
      if (!next) return std::nullopt;
      number |= static_cast<std::uint64_t>(*next & std::byte{0x7F}) << shift;
      if ((*next & std::byte{0x80}) == std::byte{0}) return number;
    }
    return std::nullopt;
  }
  bool ended() const { return at_ == bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

/// Expands one placement's runs into `row`. Returns false if the runs do not match the row's size.
bool read_runs(Reader& in, std::span<std::byte> row) {
  const auto runs = in.number();
  if (!runs) return false;
  std::size_t at = 0;
  for (std::uint64_t r = 0; r < *runs; ++r) {
    const auto value = in.byte();
    const auto length = value ? in.number() : std::nullopt;
    if (!length || *length == 0 || *length > row.size() - at) return false;
    std::fill_n(row.begin() + static_cast<std::ptrdiff_t>(at), *length, *value);
    at += *length;
  }
  return at == row.size();
}

}  // namespace

Bytes pack_placements(std::span<const std::byte> placements, std::size_t count) {
  const std::size_t ops = count == 0 ? 0 : placements.size() / count;
  Bytes out(kMagic.begin(), kMagic.end()), runs, differs(ops);
  put(out, count);
  put(out, ops);
  Bytes apart;  // Encoding of the row itself, compared with that of the difference.
  for (std::size_t p = 0; p < count; ++p) {
    const auto row = placements.subspan(p * ops, ops);
    const std::size_t most = ops / kShortRun + 1;
    if (p > 0) {
      std::transform(row.begin(), row.end(), row.begin() - static_cast<std::ptrdiff_t>(ops), differs.begin(),
                     [](std::byte a, std::byte b) { return a ^ b; });
      apart.clear();
      const std::size_t before = out.size();
      const bool fits = put_runs(differs, std::byte{1}, most, runs, out);
      // A difference of a few runs is short enough.
      if (fits && out.size() - before < 64) continue;
      if (put_runs(row, std::byte{0}, most, runs, apart) && (!fits || apart.size() < out.size() - before)) {
        out.resize(before);
        out.insert(out.end(), apart.begin(), apart.end());
      } else if (!fits) {
        return compress_zstd(placements, 1);
      }
    } else if (!put_runs(row, std::byte{0}, most, runs, out)) {
      return compress_zstd(placements, 1);
    }
  }
  return out;
}

Result<Bytes> unpack_placements(Bytes packed, std::string_view what) {
  if (packed.size() < kMagic.size() || !std::equal(kMagic.begin(), kMagic.end(), packed.begin()))
    return decompress(std::move(packed), what);
  const auto damaged = [&] { return invalid(std::string{what}, "is damaged"); };
  Reader in{std::span{packed}.subspan(kMagic.size())};
  const auto count = in.number(), ops = in.number();
  // A placement takes at least two bytes.
  if (!count || !ops || *count > packed.size() || (*count > 0 && *ops > kMaxPlacementBytes / *count))
    return damaged();
  Bytes placements(*count * *ops);
  for (std::uint64_t p = 0; p < *count; ++p) {
    const auto row = std::span{placements}.subspan(p * *ops, *ops);
    const auto kind = in.byte();
    if (!kind || *kind > std::byte{1} || (*kind == std::byte{1} && p == 0) || !read_runs(in, row))
      return damaged();
    if (*kind == std::byte{1})
      std::transform(row.begin(), row.end(), row.begin() - static_cast<std::ptrdiff_t>(*ops), row.begin(),
                     [](std::byte a, std::byte b) { return a ^ b; });
  }
  if (!in.ended()) return damaged();
  return placements;
}

std::int64_t episode_bytes(std::span<const std::byte> placements, std::size_t count,
                           std::span<const std::byte> actions, std::size_t devices) {
  // Measured on runs of 100,000 episodes: keys, names and hashes of the rows, SQLite's overhead and free
  // space, and an index entry per measurement.
  constexpr std::size_t kEpisode = 230, kMeasurement = 120, kPeak = 12, kUpdateOfEpisode = 60;
  const std::size_t bytes = pack_placements(placements, count).size() + compress_zstd(actions, 1).size() +
                            kEpisode + kUpdateOfEpisode +
                            count * (kMeasurement + kPeak * devices + sizeof(float));
  return static_cast<std::int64_t>(bytes);
}

}  // namespace emplace::record
