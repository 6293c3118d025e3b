// Goal: --json prints valid JSON for any values. Method: the whole text is compared.

#include "launcher/terminal/json_text.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace emplace::launcher {
namespace {

TEST(JsonText, KeepsTheOrderOfKeysAndNestsObjects) {
  const Json inner{{"b", true}, {"a", nullptr}};
  const Json json{{"z", -1}, {"y", 0.5}, {"x", "text"}, {"inner", inner}};
  EXPECT_EQ(json_text(json),
            "{\n  \"z\": -1,\n  \"y\": 0.5,\n  \"x\": \"text\",\n  \"inner\": {\n    \"b\": true,\n    "
            "\"a\": null\n  }\n}");
}

TEST(JsonText, ReplacesValuesThatJsonCannotRepresent) {
  const Json json{{"nan", std::numeric_limits<double>::quiet_NaN()}, {"bytes", "\xff\x1b"}};
  EXPECT_EQ(json_text(json), "{\n  \"nan\": null,\n  \"bytes\": \"\xEF\xBF\xBD\\u001b\"\n}");
}

}  // namespace
}  // namespace emplace::launcher
