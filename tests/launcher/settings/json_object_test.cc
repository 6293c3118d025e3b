// Goal: the object that --json prints is JSON whatever is put in.
// Method: the text is compared as a whole.

#include "launcher/settings/json_object.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

namespace emplace::launcher {
namespace {

TEST(JsonObject, KeepsTheOrderOfItsKeysAndNestsObjects) {
  JsonObject inner;
  inner.add("b", true).add_null("a");
  JsonObject json;
  json.add("z", std::int64_t{-1}).add("y", 0.5).add("x", "text").add("inner", std::move(inner));
  EXPECT_EQ(json.text(),
            "{\n  \"z\": -1,\n  \"y\": 0.5,\n  \"x\": \"text\",\n  \"inner\": {\n    \"b\": true,\n    "
            "\"a\": null\n  }\n}");
}

TEST(JsonObject, MendsWhatJsonCannotSay) {
  JsonObject json;
  json.add("nan", std::numeric_limits<double>::quiet_NaN()).add("bytes", std::string_view{"\xff\x1b"});
  EXPECT_EQ(json.text(), "{\n  \"nan\": null,\n  \"bytes\": \"\xEF\xBF\xBD\\u001b\"\n}");
}

}  // namespace
}  // namespace emplace::launcher
