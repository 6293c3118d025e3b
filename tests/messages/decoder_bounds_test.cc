// Goal: no bytes of an unknown peer make the decoder read past their end, recurse without bound, or allocate
// beyond the frame.
#include <gtest/gtest.h>

#include "messages/all.h"
#include "messages/codec.h"

namespace emplace::messages {
namespace {

Bytes raw(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}
Bytes operator+(Bytes left, const Bytes& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}
/// A map with the key "executors" of RunProgress, an array of maps, or with another key.
Bytes keyed(std::string_view key, const Bytes& value) {
  Bytes body = raw({0x81});
  Writer writer{body};
  writer.text(key);
  return body + value;
}

TEST(BoundedDecoder, RefusesCountsAboveTheBytesLeft) {
  EXPECT_FALSE(decode_body<DispatchProgress>(raw({0xdf, 0xff, 0xff, 0xff, 0xff})).ok());
  EXPECT_FALSE(decode_body<DispatchProgress>(keyed("executors", raw({0xdd, 0xff, 0xff, 0xff, 0xff}))).ok());
  EXPECT_FALSE(decode_body<DispatchProgress>(keyed("from", raw({0xdb, 0xff, 0xff, 0xff, 0xff, 'x'}))).ok());
  EXPECT_FALSE(decode_body<UpdateApplied>(keyed("episodes", raw({0xc6, 0xff, 0xff, 0xff, 0xff, 1}))).ok());
  EXPECT_FALSE(decode_body<UpdateApplied>(keyed("unknown", raw({0xc9, 0xff, 0xff, 0xff, 0xff, 1, 1}))).ok());
}

TEST(BoundedDecoder, RefusesMoreElementsThanAnyMessageHas) {
  Bytes many =
      raw({0xdd, 0, 2, 0, 0});  // 131,072 empty maps: one byte each on the wire, sixty-four in memory.
  many.resize(many.size() + 131'072, std::byte{0x80});
  EXPECT_FALSE(decode_body<DispatchProgress>(keyed("executors", many)).ok());
}

TEST(BoundedDecoder, RefusesNestingBeyondItsDepth) {
  const auto nested = [](int levels) {
    Bytes value(static_cast<std::size_t>(levels), std::byte{0x91});
    value.push_back(std::byte{0xc0});
    return keyed("unknown", value);
  };
  EXPECT_TRUE(decode_body<DispatchProgress>(nested(Reader::kMaxDepth - 1)).ok())
      << "the map itself is one level";
  EXPECT_FALSE(decode_body<DispatchProgress>(nested(Reader::kMaxDepth)).ok());
  EXPECT_FALSE(decode_body<DispatchProgress>(nested(1'000'000)).ok());
}

TEST(BoundedDecoder, RefusesTheWrongKindTrailingBytesAndHalfValues) {
  EXPECT_FALSE(decode_body<DispatchProgress>(raw({})).ok());
  EXPECT_FALSE(decode_body<DispatchProgress>(raw({0x90})).ok()) << "an array";
  EXPECT_FALSE(decode_body<DispatchProgress>(raw({0x80, 0x80})).ok()) << "two values";
  EXPECT_FALSE(decode_body<DispatchProgress>(raw({0x81, 0x01, 0x01})).ok()) << "a key that is no string";
  EXPECT_FALSE(decode_body<DispatchProgress>(keyed("episodes", raw({0xa1, 'x'}))).ok())
      << "text for a number";
  EXPECT_FALSE(decode_body<DispatchProgress>(keyed("episodes", raw({0xff}))).ok()) << "negative for unsigned";
  EXPECT_FALSE(decode_body<UpdateApplied>(keyed("episodes", raw({0xc4, 7, 1, 2, 3, 4, 5, 6, 7}))).ok())
      << "7 of 8 bytes";
  EXPECT_FALSE(decode_body<DispatchProgress>(raw({0xc1})).ok()) << "the byte that is never used";
  EXPECT_FALSE(decode_body<RunPlacement>(keyed("placement", raw({0x93, 1, 2, 3}))).ok())
      << "a section of three";
}

TEST(BoundedDecoder, SkipsEveryKindOfValue) {
  const Bytes kinds[] = {raw({0xc0}),
                         raw({0xc2}),
                         raw({0xc3}),
                         raw({0xc4, 1, 9}),
                         raw({0xc5, 0, 1, 9}),
                         raw({0xc6, 0, 0, 0, 1, 9}),
                         raw({0xc7, 1, 5, 9}),
                         raw({0xc8, 0, 1, 5, 9}),
                         raw({0xc9, 0, 0, 0, 1, 5, 9}),
                         raw({0xca, 1, 2, 3, 4}),
                         raw({0xcb, 1, 2, 3, 4, 5, 6, 7, 8}),
                         raw({0xcc, 1}),
                         raw({0xcd, 1, 2}),
                         raw({0xce, 1, 2, 3, 4}),
                         raw({0xcf, 255, 2, 3, 4, 5, 6, 7, 8}),
                         raw({0xd0, 1}),
                         raw({0xd1, 1, 2}),
                         raw({0xd2, 1, 2, 3, 4}),
                         raw({0xd3, 1, 2, 3, 4, 5, 6, 7, 8}),
                         raw({0xd4, 1, 2}),
                         raw({0xd5, 1, 2, 3}),
                         raw({0xd6, 1, 2, 3, 4, 5}),
                         raw({0xd7, 1, 2, 3, 4, 5, 6, 7, 8, 9}),
                         raw({0xd8, 1, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}),
                         raw({0xd9, 1, 'x'}),
                         raw({0xda, 0, 1, 'x'}),
                         raw({0xdb, 0, 0, 0, 1, 'x'}),
                         raw({0xdc, 0, 1, 7}),
                         raw({0xdd, 0, 0, 0, 1, 7}),
                         raw({0xde, 0, 1, 7, 7}),
                         raw({0xdf, 0, 0, 0, 1, 7, 7}),
                         raw({0x7f}),
                         raw({0xe0}),
                         raw({0x92, 1, 2}),
                         raw({0x81, 1, 2}),
                         raw({0xa2, 'x', 'y'})};
  for (const Bytes& kind : kinds) {
    EXPECT_TRUE(decode_body<DispatchProgress>(keyed("unknown", kind)).ok()) << std::to_integer<int>(kind[0]);
    Bytes cut = kind;
    cut.pop_back();
    EXPECT_FALSE(decode_body<DispatchProgress>(keyed("unknown", cut)).ok()) << std::to_integer<int>(kind[0]);
  }
}

}  // namespace
}  // namespace emplace::messages
