// Goal: the table tells who is fastest, how far from the bound, and what does not fit; and no name can steer
// the terminal.
#include "record/table.h"

#include <gtest/gtest.h>

namespace emplace::record {
namespace {

TEST(Table, MarksTheFastestValidRowAndItsDistanceToTheBound) {
  TableRow slow{"slow", true, {true, 0.5, {1 << 20}, {}, 0, 0, 0}, 3, 0.1, ""};
  TableRow fast{"fast\x1b[31m", true, {true, 0.2, {1 << 20}, {}, 0, 0, 0}, 3, 0.1, ""};
  TableRow broken{"broken", true, {false, 0.1, {4 << 20}, {}, 0, 3 << 20, 0}, 3, 0.1, ""};
  TableRow none{"none", false, {}, 0, 0, "there is no GPU"};
  const std::string text = render_table({slow, fast, broken, none}, 0.1, {"gpu:0"});
  EXPECT_NE(text.find("* fast\\x1b[31m"), std::string::npos) << text;
  EXPECT_NE(text.find("+100 %"), std::string::npos);
  EXPECT_NE(text.find("does not fit"), std::string::npos);
  EXPECT_NE(text.find("+3.00 MiB"), std::string::npos);
  EXPECT_NE(text.find("there is no GPU"), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace emplace::record
