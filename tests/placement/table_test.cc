// Goal: the table shows which method is fastest, its distance to the bound, and what does not fit; and no
// name can control the terminal.
#include "placement/table.h"

#include <gtest/gtest.h>

namespace emplace {
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

TEST(Table, NamesMeasuredRowsAndDoesNotCompareThemWithSimulatedOnes) {
  TableRow simulated, measured;
  simulated.method = "expert", simulated.found = true;
  simulated.measurement.valid = true, simulated.measurement.step_time_s = 0.1;
  measured.method = "learned", measured.found = true;
  measured.measurement.valid = true, measured.measurement.step_time_s = 0.3;
  measured.measurement.label = MeasurementLabel::kPartlySynthetic;
  for (TableRow* row : {&simulated, &measured}) row->measurement.peak_bytes = {1 << 20};
  const std::string plain = render_table({simulated}, 0.05, {"gpu:0"});
  EXPECT_EQ(plain.find("which is"), std::string::npos);
  EXPECT_NE(plain.find("* expert"), std::string::npos);
  const std::string text = render_table({simulated, measured}, 0.05, {"gpu:0"});
  EXPECT_NE(text.find("which is"), std::string::npos) << text;
  EXPECT_NE(text.find("* learned"), std::string::npos) << "the faster one is no measurement";
  EXPECT_EQ(text.find("* expert"), std::string::npos);
  EXPECT_NE(text.find("measured, partly synthetic"), std::string::npos);
  EXPECT_NE(text.find("+100 %"), std::string::npos) << "of the simulated one";
  EXPECT_EQ(text.find("+500 %"), std::string::npos) << "a simulator's bound bounds no device";
  EXPECT_NE(text.find("in the simulator (proven bound)"), std::string::npos);
}

TEST(Table, ShowsTheSpreadOfNoisyRows) {
  TableRow with{.method = "a", .found = true}, without{.method = "b", .found = true};
  with.measurement.valid = without.measurement.valid = true;
  with.measurement.step_time_s = without.measurement.step_time_s = 0.1;
  EXPECT_EQ(render_table({with, without}, 0, {}).find("under noise"), std::string::npos);
  with.p95_s = 0.105;
  const std::string text = render_table({with, without}, 0, {});
  EXPECT_NE(text.find("95 % under noise"), std::string::npos) << text;
  EXPECT_NE(text.find("105.0 ms (+5.0 %)"), std::string::npos) << text;
}

}  // namespace
}  // namespace emplace
