// Goal: messages round-trip, also through msgpack-cxx, and peers of different versions understand each other.
#include "messages/codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <msgpack.hpp>
#include <set>

#include "messages/all.h"
#include "messages/envelope.h"

namespace emplace::messages {
namespace {

struct Inner {
  std::string name;
  double value = 0;
  EMPLACE_FIELDS(name, value)
  bool operator==(const Inner&) const = default;
};
enum class Colour : std::uint8_t { kRed = 1, kBlue = 200 };
struct Everything {
  static constexpr std::uint16_t kType = 50;
  bool yes = false;
  std::uint64_t large = 0;
  std::int64_t negative = 0;
  std::uint8_t small = 0;
  double real = 0;
  float single = 0;
  std::string text;
  Colour colour = Colour::kRed;
  Section section;
  std::vector<double> reals;
  std::vector<std::uint8_t> bytes;
  std::vector<std::string> words;
  Inner inner;
  std::vector<Inner> many;
  EMPLACE_FIELDS(yes, large, negative, small, real, single, text, colour, section, reals, bytes, words, inner,
                 many)
  bool operator==(const Everything&) const = default;
};

struct Numbers {
  static constexpr std::uint16_t kType = 51;
  std::int64_t value = 0;
  EMPLACE_FIELDS(value)
};
// Messages of two versions: `added` is new, `gone` was removed, the order differs.
struct Old {
  static constexpr std::uint16_t kType = 52;
  std::uint32_t kept = 1;
  std::string gone = "default";
  EMPLACE_FIELDS(kept, gone)
};
struct New {
  static constexpr std::uint16_t kType = 52;
  std::vector<Inner> added;
  Section section;
  double real = 7;
  std::vector<float> floats;
  std::uint32_t kept = 2;
  EMPLACE_FIELDS(added, section, real, floats, kept)
};
struct Wide {
  static constexpr std::uint16_t kType = 53;
  std::int64_t value = 0;
  EMPLACE_FIELDS(value)
};
struct Narrow {
  static constexpr std::uint16_t kType = 53;
  std::uint8_t value = 0;
  EMPLACE_FIELDS(value)
};

Everything sample() {
  return {.yes = true,
          .large = std::numeric_limits<std::uint64_t>::max(),
          .negative = std::numeric_limits<std::int64_t>::min(),
          .small = 255,
          .real = 0.1,
          .single = 0.1f,
          .text = std::string(300, 'x'),
          .colour = Colour::kBlue,
          .section = {1u << 20, 77},
          .reals = {1.5, -2.5, 1e300},
          .bytes = std::vector<std::uint8_t>(70'000, 9),
          .words = {"", "a", std::string(40, 'b')},
          .inner = {"in", 1},
          .many = {{"one", 1}, {"two", 2}}};
}

TEST(Codec, RoundTrips) {
  const auto read = decode_body<Everything>(encode_body(sample()));
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(*read == sample());
}

TEST(Codec, RoundTripsIntegersOfEveryWidth) {
  for (int shift = 0; shift < 63; ++shift) {
    for (const std::int64_t sign : {1, -1})
      for (const std::int64_t off : {-1, 0, 1}) {
        const std::int64_t value = sign * ((std::int64_t{1} << shift) + off);
        EXPECT_EQ(decode_body<Numbers>(encode_body(Numbers{value}))->value, value);
      }
  }
}

TEST(Codec, WritesStandardMessagePack) {
  const Bytes body = encode_body(sample());
  const auto handle = msgpack::unpack(reinterpret_cast<const char*>(body.data()), body.size());
  const auto map = handle->as<std::map<std::string, msgpack::object>>();
  EXPECT_EQ(map.size(), 14u);
  EXPECT_EQ(map.at("large").as<std::uint64_t>(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(map.at("words").as<std::vector<std::string>>().size(), 3u);
  EXPECT_EQ(map.at("reals").type, msgpack::type::BIN);
  EXPECT_EQ((map.at("many")
                 .as<std::vector<std::map<std::string, msgpack::object>>>()
                 .at(1)
                 .at("name")
                 .as<std::string>()),
            "two");
}

TEST(Codec, ReadsStandardMessagePack) {
  msgpack::sbuffer buffer;
  msgpack::packer<msgpack::sbuffer> packer{buffer};
  packer.pack_map(3);
  packer.pack(std::string{"text"});
  packer.pack(std::string(70'000, 'y'));
  packer.pack(std::string{"real"});
  packer.pack(std::int32_t{-3});  // An integer in place of a real.
  packer.pack(std::string{"negative"});
  packer.pack(std::int8_t{-100});
  const auto read = decode_body<Everything>(std::as_bytes(std::span{buffer.data(), buffer.size()}));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->text.size(), 70'000u);
  EXPECT_EQ(read->real, -3.0);
  EXPECT_EQ(read->negative, -100);
}

TEST(Codec, SkipsUnknownFieldsAndDefaultsMissingOnes) {
  const auto old_reads_new = decode_body<Old>(
      encode_body(New{.added = {{"a", 1}}, .section = {1, 2}, .real = -1, .floats = {1, 2}, .kept = 5}));
  ASSERT_TRUE(old_reads_new.ok());
  EXPECT_EQ(old_reads_new->kept, 5u);
  EXPECT_EQ(old_reads_new->gone, "default");
  const auto new_reads_old = decode_body<New>(encode_body(Old{.kept = 6}));
  ASSERT_TRUE(new_reads_old.ok());
  EXPECT_EQ(new_reads_old->kept, 6u);
  EXPECT_EQ(new_reads_old->real, 7.0);
}

TEST(Codec, RefusesNumbersThatDoNotFit) {
  EXPECT_EQ(decode_body<Narrow>(encode_body(Wide{255}))->value, 255);
  EXPECT_FALSE(decode_body<Narrow>(encode_body(Wide{256})).ok());
  EXPECT_FALSE(decode_body<Narrow>(encode_body(Wide{-1})).ok());
}

TEST(Envelope, RoundTripsAndStaysWithinItsBound) {
  const Envelope full{.version = 255,
                      .type = 65'535,
                      .from = ActorId{~0ull},
                      .to = ActorId{~0ull},
                      .seq = ~0ull,
                      .trace = ~0ull};
  std::array<std::byte, kMaxEnvelopeBytes> bytes;
  const std::size_t size = encode_envelope(full, bytes.data());
  ASSERT_LE(size, kMaxEnvelopeBytes);
  std::size_t used = 0;
  const auto read = decode_envelope(bytes, &used);
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(*read == full);
  EXPECT_EQ(used, size);
}

TEST(Envelope, SkipsElementsThatANewerPeerAppended) {
  msgpack::sbuffer buffer;
  msgpack::packer<msgpack::sbuffer> packer{buffer};
  packer.pack_array(9);
  for (int i = 2; i < 9; ++i) packer.pack(i);
  packer.pack(std::vector<std::string>{"new", "things"});
  packer.pack_nil();
  const auto read = decode_envelope(std::as_bytes(std::span{buffer.data(), buffer.size()}));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->version, 2);
  EXPECT_EQ(read->trace, 8u);
}

TEST(Envelope, RefusesInvalidEnvelopes) {
  const auto refused = [](std::initializer_list<int> raw) {
    Bytes bytes;
    for (const int b : raw) bytes.push_back(static_cast<std::byte>(b));
    return !decode_envelope(bytes).ok();
  };
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused({0x80}));                          // A map.
  EXPECT_TRUE(refused({0x96, 1, 2, 3, 4, 5, 6}));        // Six elements.
  EXPECT_TRUE(refused({0x97, 0, 2, 3, 4, 5, 6, 7}));     // Version 0.
  EXPECT_TRUE(refused({0x97, 1, 2, 3, 4, 5, 6}));        // Truncated.
  EXPECT_TRUE(refused({0x97, 1, 2, 3, 4, 5, 6, 0xff}));  // A negative trace.
  EXPECT_TRUE(refused({0xdd, 0xff, 0xff, 0xff, 0xff, 1}));
  EXPECT_FALSE(refused({0x97, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(WireVersion, EachSideMustReadTheVersionOfTheOther) {
  EXPECT_TRUE(check_wire_version(kWireVersion, kOldestWireVersion).ok());
  EXPECT_TRUE(check_wire_version(kOldestWireVersion, kOldestWireVersion).ok()) << "an older node";
  EXPECT_TRUE(check_wire_version(kWireVersion + 1, kWireVersion).ok()) << "a newer one that knows ours";
  const auto newer = check_wire_version(kWireVersion + 1, kWireVersion + 1);
  ASSERT_FALSE(newer.ok());
  EXPECT_EQ(newer.error().code, Errc::kUnsupported);
  const std::string ours = std::to_string(kWireVersion), next = std::to_string(kWireVersion + 1);
  EXPECT_EQ(newer.error().context, "node uses wire version " + next + " and accepts " + next +
                                       " and later, head uses " + ours + " and accepts " +
                                       std::to_string(kOldestWireVersion) +
                                       " and later; use the same release on both");
  EXPECT_FALSE(check_wire_version(kOldestWireVersion - 1, 0).ok()) << "one that is too old";
}

TEST(ActorId, IsTheHashOfTheNameAndNeverNoActor) {
  EXPECT_EQ(actor_id("sampler/0"), actor_id(std::string{"sampler/"} + "0"));
  EXPECT_NE(actor_id("sampler/0"), actor_id("sampler/1"));
  EXPECT_NE(actor_id(""), kNoActor);
}

TEST(Bulk, SectionsAreCheckedAgainstTheirFrame) {
  BulkBuilder builder;
  const std::vector<float> floats{1, 2, 3};
  const std::vector<std::uint8_t> devices{4, 5};
  const Section first = builder.add(std::as_bytes(std::span{devices}));
  const Section second = builder.add(std::as_bytes(std::span{floats}));
  const SharedBytes bulk = builder.finish();
  EXPECT_EQ(copy_as<float>(*section_of(bulk.bytes(), second)), floats) << "unaligned";
  EXPECT_EQ(view_as<std::uint8_t>(*section_of(bulk.bytes(), first))[1], 5);
  EXPECT_EQ(section_of(bulk, second)->owner(), bulk.owner()) << "shared, not copied";
  EXPECT_TRUE(section_of(bulk.bytes(), {14, 0}).ok());
  for (const Section outside :
       {Section{14, 1}, Section{15, 0}, Section{1, 14}, Section{~0ull, 2}, Section{2, ~0ull}})
    EXPECT_FALSE(section_of(bulk.bytes(), outside).ok()) << outside.offset;
}

TEST(Register, ContainsEveryMessageOnceAndNoOther) {
  std::set<std::uint16_t> numbers;
  std::apply([&](const auto&... m) { (numbers.insert(std::remove_cvref_t<decltype(m)>::kType), ...); },
             AllMessages{});
  EXPECT_EQ(numbers.size(), std::tuple_size_v<AllMessages>);
  std::size_t known = 0;
  for (std::uint32_t type = 0; type < 65'536; ++type)
    known += is_known(static_cast<std::uint16_t>(type)) ? 1 : 0;
  EXPECT_EQ(known, numbers.size());
  for (const std::uint16_t type : numbers) EXPECT_TRUE(is_known(type)) << type;
}

TEST(Register, RangeOfANumberIsItsClass) {
  EXPECT_TRUE(travels_on_control(Heartbeat::kType));
  EXPECT_TRUE(travels_on_control(StopRun::kType));
  EXPECT_FALSE(travels_on_control(PlacementProposed::kType));
  EXPECT_FALSE(travels_on_control(ParametersPublished::kType));
  EXPECT_TRUE(keeps_latest_only(ParametersPublished::kType));
  EXPECT_FALSE(keeps_latest_only(ParametersDelivered::kType));
}

}  // namespace
}  // namespace emplace::messages
