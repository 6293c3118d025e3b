// Goal: an export contains every row as it was recorded, in files that other tools accept, whatever the names
// are; and a file is written whole or not at all. Method: a small record with hostile names, read back by our
// own readers that share no code with the writers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text/words.h"
#include "placement/export/placement_export.h"
#include "record/export/run_export.h"
#include "record/run_writer.h"
#include "tests/support/sample_graphs.h"
#include "tests/support/scratch_folder.h"

namespace emplace::record {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Rows = std::vector<std::vector<std::string>>;

const std::vector<std::string> kHostile{"=cmd|' /C calc'!A0",
                                        "\"];x[\"",
                                        "a,b\r\nc",
                                        "+1",
                                        "-1",
                                        "@sum",
                                        "\t=1",
                                        "half \xff\xfe bytes",
                                        std::string{"nul\0nul", 7},
                                        "\xed\xa0\x80",
                                        "\x1b[31mred\x07",
                                        "\xe2\x80\xaeturned",
                                        "\xf0\x9f\x90\x8d ok"};

std::string content(const std::filesystem::path& path) {
  const auto bytes = read_file(path);
  EXPECT_TRUE(bytes.ok()) << path;
  return bytes ? std::string{reinterpret_cast<const char*>(bytes->data()), bytes->size()} : "";
}

/// Reads CSV by RFC 4180, character by character.
Rows parse_csv(const std::string& text) {
  Rows rows{{""}};
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string& cell = rows.back().back();
    if (quoted && text[i] == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      cell += text[++i];
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && text[i] == ',') {
      rows.back().emplace_back();
    } else if (!quoted && text[i] == '\n') {
      rows.push_back({""});
    } else {
      cell += text[i];
    }
  }
  EXPECT_EQ(rows.back(), std::vector<std::string>{""}) << "the last line has no end";
  rows.pop_back();
  return rows;
}

template <class T>
T little(const std::string& bytes, std::size_t at) {
  T value{};
  EXPECT_LE(at + sizeof value, bytes.size());
  if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

class ExportTest : public ::testing::Test {
 protected:
  ExportTest() {
    RunFacts facts;
    facts.method = "hierarchical";
    facts.host = "a/host\n";
    facts.started_wall_ns = 1'700'000'000'123'456'789;
    facts.num_ops = 3;
    facts.num_devices = 2;
    db_ = *RunWriter::create(folder_.path() / "run", facts);
    for (std::uint64_t seq = 1; seq <= kEpisodes; ++seq) {
      EpisodeRow e{seq, seq + 10, 1, 3, 2, "graph", Bytes(6, std::byte{1}), {}, 2 * seq};
      e.wall_ns = facts.started_wall_ns + static_cast<std::int64_t>(seq) * 100'000'000;  // Ten a second.
      e.placements[5] = static_cast<std::byte>(seq % 250);
      std::vector<MeasurementRow> rows(2);
      for (std::uint32_t i = 0; i < 2; ++i) {
        MeasurementRow& m = rows[i];
        m.placement_id = 2 * seq + i;
        m.episode = seq + 10;
        m.number = i;
        m.valid = i == 1;
        m.step_time_s = 0.1 + 1.0 / static_cast<double>(seq);
        m.bytes_over = -static_cast<std::int64_t>(seq);
        if (i == 1) m.peak_bytes = {10, std::int64_t{1} << 40};
        m.host = kHostile[(seq + 1) % kHostile.size()];
        m.executor = kHostile[seq % kHostile.size()];
        m.executor_kind = "sim";
      }
      EXPECT_TRUE(db_->add_episode(e, rows).ok());
    }
    EXPECT_TRUE(
        db_->add_update({{1, 1, {11, 12}, {1.5f, -2}, 0.5, 1, 2.0, -1.25, 0.7, "abc", 0.1, 0.01}}).ok());
    EXPECT_TRUE(db_->add_update({{2, 2, {13}, {0.5f}, 0.5, 1, 0, 0.1, 0.7, "abd", 0.1, 0.01}}).ok());
    EXPECT_TRUE(db_->commit().ok());
  }

  Result<Exported> exported(const std::string& format, RunExport what = {}) {
    if (what.output.empty()) what.output = at("out");
    what.facts = db_->header().facts().value();
    what.devices = {"cpu:0", "gpu:\xff"};
    auto exporter = make_run_exporter(format, what);
    if (!exporter) return exporter.error();
    return export_run(*db_, **exporter);
  }
  std::filesystem::path at(const std::string& name) const { return folder_.path() / name; }
  std::vector<std::string> names_in_folder() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator{folder_.path()})
      names.push_back(entry.path().filename().string());
    return names;
  }

  static constexpr std::uint64_t kEpisodes = 600;  // More than a page of rows.
  const testing::ScratchFolder folder_{"export"};
  std::unique_ptr<RunWriter> db_;
};

TEST_F(ExportTest, CsvHasALinePerMeasurementWithoutFormulas) {
  const auto done = exported("csv");
  ASSERT_TRUE(done.ok()) << done.error().context;
  EXPECT_EQ(done->measurements, 2 * kEpisodes);
  const std::string text = content(at("out"));
  EXPECT_TRUE(is_utf8(text));
  EXPECT_EQ(text.find('\0'), std::string::npos);
  const Rows rows = parse_csv(text);
  ASSERT_EQ(rows.size(), 1 + 2 * kEpisodes);
  const std::vector<std::string>& head = rows[0];
  const auto column = [&](const std::string& name) {
    return static_cast<std::size_t>(std::find(head.begin(), head.end(), name) - head.begin());
  };
  EXPECT_THAT(head, Contains("peak_bytes cpu:0"));
  EXPECT_EQ(column("seq"), 0u);
  for (std::uint64_t seq = 1; seq <= kEpisodes; ++seq) {
    const auto &invalid = rows[2 * seq - 1], &valid = rows[2 * seq];
    ASSERT_EQ(valid.size(), head.size());
    EXPECT_EQ(valid[column("seq")], std::to_string(seq));
    EXPECT_EQ(valid[column("valid")], "true");
    EXPECT_EQ(std::stod(valid[column("step_time_s")]), 0.1 + 1.0 / static_cast<double>(seq));
    EXPECT_EQ(valid[column("bytes_over")], std::to_string(-static_cast<std::int64_t>(seq)));
    EXPECT_EQ(valid[column("peak_bytes cpu:0") + 1], "1099511627776");
    EXPECT_EQ(invalid[column("step_time_s")], "");
    EXPECT_EQ(invalid[column("peak_bytes cpu:0")], "");
    for (const char* name : {"host", "executor"})
      EXPECT_EQ(std::string{"=+-@\t\r\n"}.find(valid[column(name)].at(0)), std::string::npos);
    const std::string& name = kHostile[seq % kHostile.size()];
    const std::string& read = valid[column("executor")];
    EXPECT_EQ(without_controls(read, "\t\r\n"), read) << "it has no effect in a terminal";
    if (is_utf8(name) && name.find('\0') == std::string::npos) {
      EXPECT_EQ(read.front() == '\'' ? read.substr(1) : read, without_controls(name, "\t\r\n"));
    }
  }
}

TEST_F(ExportTest, CsvAlsoHasTablesOfEpisodesAndUpdates) {
  ASSERT_TRUE(exported("csv", {.output = at("e"), .table = "episodes"}).ok());
  const Rows episodes = parse_csv(content(at("e")));
  ASSERT_EQ(episodes.size(), 1 + kEpisodes);
  EXPECT_THAT(episodes[2],
              ElementsAre("2", "12", "1", "3", "2", "1", "0.6", "graph", "4", "1700000000323456789"));
  ASSERT_TRUE(exported("csv", {.output = at("u"), .table = "updates"}).ok());
  const Rows updates = parse_csv(content(at("u")));
  ASSERT_EQ(updates.size(), 3u);
  EXPECT_EQ(updates[1][2], "11 12");
  EXPECT_EQ(updates[1][6], "-1.25") << "a negative number is no formula";
}

TEST_F(ExportTest, JsonLinesHaveAnEpisodePerLine) {
  ASSERT_TRUE(exported("jsonl").ok());
  std::istringstream lines{content(at("out"))};
  std::uint64_t seq = 0;
  for (std::string line; std::getline(lines, line);) {
    ASSERT_TRUE(is_utf8(line));
    const auto row = nlohmann::json::parse(line);
    ++seq;
    EXPECT_EQ(row["seq"], seq);
    ASSERT_EQ(row["measurements"].size(), 2u);
    EXPECT_TRUE(row["measurements"][0]["step_time_s"].is_null());
    EXPECT_EQ(row["measurements"][1]["step_time_s"].get<double>(), 0.1 + 1.0 / static_cast<double>(seq));
    const std::string& name = kHostile[seq % kHostile.size()];
    if (is_utf8(name)) {
      EXPECT_EQ(row["measurements"][1]["executor"], name);
    }
  }
  EXPECT_EQ(seq, kEpisodes);
}

/// CRC-32C bit by bit.
std::uint32_t slow_crc32c(const std::string& bytes) {
  std::uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

std::uint32_t masked(const std::string& bytes) {
  const std::uint32_t crc = slow_crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

TEST_F(ExportTest, EventFilesAreFramedAsTensorBoardReadsThem) {
  ASSERT_EQ(slow_crc32c("123456789"), 0xe3069283u);
  const auto done = exported("tensorboard", {.output = at("board")});
  ASSERT_TRUE(done.ok()) << done.error().context;
  EXPECT_EQ(done->path.filename().string(), "events.out.tfevents.1700000000.a-host\\n");
  const std::string file = content(done->path);
  std::vector<std::string> events;
  for (std::size_t at = 0; at < file.size();) {
    const auto length = little<std::uint64_t>(file, at);
    ASSERT_EQ(little<std::uint32_t>(file, at + 8), masked(file.substr(at, 8)));
    events.push_back(file.substr(at + 12, length));
    ASSERT_EQ(little<std::uint32_t>(file, at + 12 + length), masked(events.back()));
    at += 16 + length;
  }
  ASSERT_EQ(events.size(), 1 + kEpisodes + 2);
  // wall_time (field 1, 64 bits), file_version (field 3, a text of 13 bytes).
  EXPECT_EQ(events[0].substr(0, 1), "\x09");
  EXPECT_NEAR(little<double>(events[0], 1), 1'700'000'000.123, 0.01);
  EXPECT_EQ(events[0].substr(9),
            "\x1a\x0d"
            "brain.Event:2");
  EXPECT_THAT(events[1], HasSubstr("cost/step_time_best"));
  EXPECT_NEAR(little<double>(events[5], 1), 1'700'000'000.623, 0.01) << "when it was recorded";
  // Once a second, for the second before: ten episodes of two placements.
  const std::string rate = "throughput/placements_per_s";
  EXPECT_EQ(std::count_if(events.begin(), events.end(),
                          [&](const std::string& event) { return event.find(rate) != std::string::npos; }),
            kEpisodes / 10);
  ASSERT_NE(events[10].find(rate), std::string::npos);
  EXPECT_NEAR(little<float>(events[10], events[10].find(rate) + rate.size() + 1), 20, 0.01);
  EXPECT_THAT(events.back(), HasSubstr("learner/loss"));
  // value: tag "learner/loss" (field 1), simple_value (field 2, 32 bits).
  const std::size_t loss = events.back().find("learner/loss") + std::strlen("learner/loss");
  EXPECT_EQ(events.back()[loss], '\x15');
  EXPECT_EQ(little<float>(events.back(), loss + 1), 0.1f);
  // Its episode had no gradient: a 0 is a value, not the lack of one.
  const std::size_t norm = events.back().find("learner/gradient_norm") + std::strlen("learner/gradient_norm");
  EXPECT_EQ(events.back().substr(norm, 5), std::string("\x15\0\0\0\0", 5));
}

TEST_F(ExportTest, UnknownNamesAreRefusedWithTheListOfKnownOnes) {
  EXPECT_THAT(exported("parquet").error().context, HasSubstr("expected one of: csv, jsonl, tensorboard"));
  EXPECT_THAT(exported("csv", {.table = "actors"}).error().context,
              HasSubstr("expected one of: measurements, episodes, updates"));
  EXPECT_THAT(exported("tensorboard", {.table = "updates"}).error().context, HasSubstr("only csv and jsonl"));
}

TEST_F(ExportTest, PartialFilesAreRemoved) {
  const auto before = names_in_folder();
  std::filesystem::create_directory(at("folder"));
  for (const char* format : {"csv", "jsonl"}) {
    EXPECT_EQ(exported(format, {.output = at("no") / "such"}).error().code, Errc::kIo) << format;
    EXPECT_EQ(exported(format, {.output = at("folder")}).error().code, Errc::kIo) << format;
  }
  std::filesystem::remove(at("folder"));
  EXPECT_EQ(names_in_folder(), before);
}

class PlacementExport : public ::testing::Test {
 protected:
  static OpGraph hostile_graph() {
    std::vector<testing::SampleOp> ops;
    for (const std::string& name : kHostile)
      if (is_utf8(name)) ops.push_back({.name = name, .inputs = {}});
    ops[1].inputs = {{0, 0}};
    ops[2].inputs = {{1, 0}};
    return testing::sample_graph(ops);
  }
  Result<std::string> text_of(std::string_view format) const {
    const auto made =
        interop::export_placement(format, {.graph = graph_, .devices = devices_, .placement = placement_});
    if (!made) return made.error();
    EXPECT_EQ(made->moved_ops, 0u);
    EXPECT_EQ(made->applied, placement_);
    return made->content;
  }
  const OpGraph graph_ = hostile_graph();
  const std::vector<std::string> devices_{"cpu:0", "\"; evil [\\"};
  Placement placement_ = [this] {
    Placement placement(graph_.num_ops(), DeviceId{0});
    placement[1] = DeviceId{1};
    return placement;
  }();
};

TEST_F(PlacementExport, CsvNamesTheDeviceOfEveryOp) {
  const auto text = text_of("csv");
  ASSERT_TRUE(text.ok());
  const Rows rows = parse_csv(*text);
  ASSERT_EQ(rows.size(), 1 + graph_.num_ops());
  EXPECT_THAT(rows[0], ElementsAre("op", "device", "id", "type", "scope"));
  EXPECT_EQ(rows[1][0], "'=cmd|' /C calc'!A0");
  EXPECT_EQ(rows[2][0], "\"];x[\"");
  EXPECT_EQ(rows[2][1], devices_[1]);
}

TEST_F(PlacementExport, NamesAreEscapedInDotFiles) {
  const auto text = text_of("dot");
  ASSERT_TRUE(text.ok());
  // The text outside of quotes is written by the exporter alone.
  std::string bare;
  bool quoted = false;
  for (std::size_t i = 0; i < text->size(); ++i) {
    const char c = (*text)[i];
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
      bare += '"';
    } else if (!quoted) {
      bare += c;
    }
  }
  EXPECT_FALSE(quoted);
  EXPECT_THAT(bare, Not(HasSubstr("evil")));
  EXPECT_THAT(bare, Not(HasSubstr("x[")));
  EXPECT_THAT(bare, HasSubstr("  n0 -> n1 [color=red, label=\"\"];\n"));
  EXPECT_THAT(*text, HasSubstr("n1 [label=\"\\\"];x[\\\"\""));
  EXPECT_EQ(std::count(bare.begin(), bare.end(), '\n'),
            static_cast<std::ptrdiff_t>(3 + devices_.size() + graph_.num_ops() + 2));
}

}  // namespace
}  // namespace emplace::record
