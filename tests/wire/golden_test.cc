// Goal: a released version of the wire format does not change. Method: golden/vN has one frame of each
// message of version N, with their hashes in manifest.txt. Files are only added: a changed or missing file
// fails, and so does a message without a file. The current decoder reads all versions, except for what a
// version has retired; the current encoder writes all fields of the versions whose nodes may still join, and
// may add fields. To write the frame of a new message:
//   EMPLACE_WRITE_GOLDEN=1 wire_test --gtest_filter='Golden*'      (never writes over a file)
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/file.h"
#include "base/hash.h"
#include "tests/wire/samples.h"

namespace emplace::messages {
namespace {

const std::filesystem::path kGolden = std::filesystem::path{EMPLACE_SOURCE_DIR} / "tests/wire/golden";

std::vector<std::filesystem::path> versions() {
  std::vector<std::filesystem::path> folders;
  for (const auto& entry : std::filesystem::directory_iterator{kGolden})
    if (entry.path().filename().string().starts_with("v")) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  return folders;
}
std::filesystem::path newest() { return kGolden / ("v" + std::to_string(kWireVersion)); }

std::vector<Sample> every_sample() {
  std::vector<Sample> samples = all_samples();
  for (Sample& sample : session_samples()) samples.push_back(std::move(sample));
  return samples;
}

std::vector<std::span<const std::byte>> frames_of(std::span<const std::byte> all) {
  std::vector<std::span<const std::byte>> frames;
  while (all.size() >= 4) {
    std::uint32_t size = 0;
    std::memcpy(&size, all.data(), sizeof size);
    frames.push_back(all.subspan(4, size));
    all = all.subspan(4 + size);
  }
  return frames;
}

/// Names and hashes of the manifest.
std::map<std::string, std::string> manifest(const std::filesystem::path& folder) {
  std::map<std::string, std::string> hashes;
  std::ifstream in{folder / "manifest.txt"};
  for (std::string hash, name; in >> hash >> name;) hashes[name] = hash;
  return hashes;
}

/// The fields of a MessagePack map by name, each value as its bytes.
std::map<std::string, Bytes> fields_of(std::span<const std::byte> body) {
  std::map<std::string, Bytes> fields;
  Reader reader{body};
  std::size_t count = 0;
  EXPECT_TRUE(reader.map(count));
  for (; count > 0; --count) {
    std::string_view name;
    EXPECT_TRUE(reader.text(name));
    const std::size_t begin = reader.position();
    EXPECT_TRUE(reader.skip());
    const auto value = body.subspan(begin, reader.position() - begin);
    fields[std::string{name}] = {value.begin(), value.end()};
  }
  return fields;
}

/// The elements of a MessagePack array, each as its bytes; empty for other values.
std::vector<Bytes> elements_of(std::span<const std::byte> body) {
  std::vector<Bytes> elements;
  Reader reader{body};
  std::size_t count = 0;
  if (!reader.array(count)) return elements;
  for (; count > 0; --count) {
    const std::size_t begin = reader.position();
    EXPECT_TRUE(reader.skip());
    const auto value = body.subspan(begin, reader.position() - begin);
    elements.emplace_back(value.begin(), value.end());
  }
  return elements;
}

/// Whether a peer of that version finds its value in today's: the same, or, for a map, each of its fields. A
/// nested struct may have more fields now, and so may those of an array.
bool holds(const Bytes& today, const Bytes& then) {
  const auto is_map = [](const Bytes& value) {
    const auto first = static_cast<unsigned>(value.front());
    return (first & 0xf0) == 0x80 || first == 0xde || first == 0xdf;
  };
  if (today == then) return true;
  if (today.empty() || then.empty()) return false;
  if (!is_map(today) || !is_map(then)) {
    const auto now = elements_of(today), before = elements_of(then);
    return !before.empty() && now.size() == before.size() &&
           std::equal(now.begin(), now.end(), before.begin(), holds);
  }
  const auto fields = fields_of(today);
  for (const auto& [then_name, value] : fields_of(then)) {
    const std::string name{EpisodeMeasured::name_now(then_name)};
    if (!fields.contains(name) || !holds(fields.at(name), value)) return false;
  }
  return true;
}

/// A stored frame and today's message of the same number, null if the message is retired.
struct Stored {
  std::string name;
  std::vector<std::span<const std::byte>> frames;
  const Sample* today;
  Bytes bytes;
};
std::vector<Stored> stored_frames(const std::filesystem::path& folder, const std::vector<Sample>& samples) {
  std::vector<Stored> all;
  for (const auto& [name, hash] : manifest(folder)) {
    Stored one{name, {}, nullptr, read_file(folder / (name + ".bin")).value()};
    one.frames = frames_of(one.bytes);
    EXPECT_EQ(one.frames.size(), 3u) << name;
    const auto envelope = decode_envelope(one.frames[0]);
    EXPECT_TRUE(envelope.ok()) << name;
    for (const Sample& sample : samples)
      if (sample.type == envelope->type) one.today = &sample;
    all.push_back(std::move(one));
  }
  return all;
}

/// Fields that version 3 no longer has, by the name that the message had then.
const std::map<std::string, std::set<std::string>> kRetiredFields{
    {"PlacementProposed",
     {"attempt", "lease_epoch", "deadline_ms", "host", "executor", "synthetic_share", "executor_epoch"}},
    {"PlacementMeasured",
     {"episode", "controller", "policy_version", "graph_sha256", "attempt", "synthetic_share"}},
    {"ExecutorJoined", {"speed"}},
    {"StopRun", {"drain_ms"}},
    {"EpisodesKnown", {"unlearned"}},
    {"PlacementRan", {"code", "error", "schedule", "verification", "profile"}},
    {"StatusDelivered", {"updates", "staleness", "progress"}},
    {"RunProgress", {"from",      "episodes",         "measurements", "valid",
                     "updates",   "policy_version",   "lost",         "committed",
                     "in_flight", "best_step_time_s", "elapsed_s",    "recent_step_time_s",
                     "executors", "issued",           "counted",      "open",
                     "expired",   "refused",          "ending",       "staleness",
                     "credits",   "quarantined",      "disk_waits_s"}}};
const std::set<std::string> kRetiredMessages{"BestFound", "ActorFailed", "HistoryRequested"};
bool is_retired(const std::string& message, const std::string& field) {
  const auto fields = kRetiredFields.find(message);
  return fields != kRetiredFields.end() && fields->second.contains(field);
}

void write_new_frames() {
  std::filesystem::create_directories(newest());
  std::ofstream list{newest() / "manifest.txt", std::ios::app};
  for (const Sample& sample : every_sample()) {
    const auto path = newest() / (sample.name + ".bin");
    const bool there = std::filesystem::exists(path);
    ASSERT_TRUE(there || write_file(path, std::span<const std::byte>{sample.frames}).ok());
    if (!manifest(newest()).contains(sample.name))
      list << sha256_hex(*read_file(path)) << ' ' << sample.name << std::endl;
  }
}

TEST(Golden, FilesHaveTheirHashes) {
  if (std::getenv("EMPLACE_WRITE_GOLDEN") != nullptr) write_new_frames();
  EXPECT_EQ(versions().size(), kWireVersion) << "one folder per version";
  for (const auto& folder : versions()) {
    std::set<std::string> stored;
    for (const auto& entry : std::filesystem::directory_iterator{folder})
      if (entry.path().extension() == ".bin") stored.insert(entry.path().stem().string());
    std::set<std::string> listed;
    for (const auto& [name, hash] : manifest(folder)) {
      listed.insert(name);
      const auto bytes = read_file(folder / (name + ".bin"));
      ASSERT_TRUE(bytes.ok()) << bytes.error().context;
      EXPECT_EQ(sha256_hex(*bytes), hash) << name << " of " << folder.filename() << " was changed";
    }
    EXPECT_EQ(stored, listed);
  }
}

TEST(Golden, EveryMessageHasAFrame) {
  const auto stored = manifest(newest());
  std::set<std::string> names;
  for (const Sample& sample : every_sample()) {
    EXPECT_TRUE(stored.contains(sample.name)) << sample.name << " has no golden frame";
    names.insert(sample.name);
  }
  EXPECT_EQ(all_samples().size(), std::tuple_size_v<AllMessages>) << "a message without a sample";
  EXPECT_EQ(names.size(), every_sample().size());
}

// The other direction: a peer of an earlier version that may still join can read what we send.
TEST(Golden, MessagesContainAllFieldsOfOlderVersions) {
  const std::vector<Sample> samples = every_sample();
  for (unsigned version = kOldestWireVersion; version <= kWireVersion; ++version) {
    for (const Stored& then : stored_frames(kGolden / ("v" + std::to_string(version)), samples)) {
      ASSERT_NE(then.today, nullptr) << then.name;
      const auto now = frames_of(then.today->frames);
      Envelope ours = *decode_envelope(now[0]);
      ours.version = static_cast<std::uint8_t>(version);
      EXPECT_EQ(ours, *decode_envelope(then.frames[0])) << then.name;
      const auto today = fields_of(now[1]);
      for (const auto& [name, value] : fields_of(then.frames[1])) {
        ASSERT_TRUE(today.contains(name)) << then.name << "." << name << " is gone";
        EXPECT_TRUE(holds(today.at(name), value)) << then.name << "." << name << " is written otherwise";
      }
      EXPECT_TRUE(std::equal(now[2].begin(), now[2].end(), then.frames[2].begin(), then.frames[2].end()))
          << then.name;
    }
  }
}

TEST(Golden, EveryVersionIsReadable) {
  const std::vector<Sample> samples = every_sample();
  for (const auto& folder : versions()) {
    for (const Stored& then : stored_frames(folder, samples)) {
      EXPECT_EQ(then.today == nullptr, kRetiredMessages.contains(then.name)) << then.name;
      if (then.today == nullptr) continue;
      const auto again = then.today->round_trip(then.frames[1]);
      ASSERT_TRUE(again.ok()) << folder << " " << then.name;
      const auto fields = fields_of(*again);
      for (const auto& [name, value] : fields_of(then.frames[1])) {
        if (is_retired(then.name, name)) continue;
        ASSERT_TRUE(fields.contains(name)) << folder << " " << then.name << "." << name;
        EXPECT_TRUE(holds(fields.at(name), value)) << folder << " " << then.name << "." << name;
      }
    }
  }
}

TEST(Golden, RetiredNumbersAreNotInTheRegister) {
  for (const auto& folder : versions())
    for (const Stored& then : stored_frames(folder, every_sample()))
      EXPECT_EQ(is_known(decode_envelope(then.frames[0])->type) ||
                    decode_envelope(then.frames[0])->type >= kFirstRuntimeType,
                !kRetiredMessages.contains(then.name))
          << then.name;
}

/// Encodes a map of fields as a body.
Bytes rebuilt(const std::map<std::string, Bytes>& fields) {
  Bytes body;
  Writer writer{body};
  writer.map(fields.size());
  for (const auto& [name, value] : fields) {
    writer.text(name);
    body.insert(body.end(), value.begin(), value.end());
  }
  return body;
}

TEST(Upgrade, MissingFieldsHaveTheirDefaults) {
  for (const Sample& sample : every_sample()) {
    const auto whole = fields_of(frames_of(sample.frames)[1]);
    const auto defaults = fields_of(sample.round_trip(rebuilt({})).value());
    for (const auto& [name, value] : whole) {
      auto without = whole;
      without.erase(name);
      const auto read = sample.round_trip(rebuilt(without));
      ASSERT_TRUE(read.ok()) << sample.name << " without " << name;
      const auto got = fields_of(*read);
      for (const auto& [other, kept] : whole)
        EXPECT_EQ(got.at(other), other == name ? defaults.at(name) : kept);
    }
  }
}

TEST(Upgrade, FieldsOfANewerPeerAreSkipped) {
  const Bytes nested = rebuilt({{"deep", rebuilt({{"er", Bytes{std::byte{0xc0}}}})}});
  const Bytes extension{std::byte{0xc7}, std::byte{2}, std::byte{9}, std::byte{1}, std::byte{2}};
  for (const Sample& sample : every_sample()) {
    const auto frames = frames_of(sample.frames);
    auto more = fields_of(frames[1]);
    more["a_field_of_version_9"] = nested;
    more["zz"] = extension;
    const auto read = sample.round_trip(rebuilt(more));
    ASSERT_TRUE(read.ok()) << sample.name;
    EXPECT_TRUE(std::equal(read->begin(), read->end(), frames[1].begin(), frames[1].end())) << sample.name;
  }
}

TEST(Upgrade, EnvelopeOfALaterVersionMayHaveMoreElements) {
  Bytes bytes;
  Writer writer{bytes};
  writer.array(9);
  for (const std::uint64_t value : {9, 66, 3, 4, 5, 6, 7}) writer.unsigned_int(value);
  writer.text("an eighth element");
  writer.map(0);
  const auto read = decode_envelope(bytes);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read,
            (Envelope{.version = 9, .type = 66, .from = ActorId{3}, .to = ActorId{4}, .seq = 5, .trace = 7}));
}

}  // namespace
}  // namespace emplace::messages
