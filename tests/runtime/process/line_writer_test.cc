// Goal: output never waits for its reader: the newest line of progress arrives, notes arrive in order, every
// line is whole, and other users of the file are not affected. Method: pipes of one page without a reader.
#include "runtime/process/line_writer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <sstream>
#include <vector>

#include "base/file.h"
#include "tests/support/scratch_folder.h"

namespace emplace::launcher {
namespace {

constexpr int kPage = 4096;  // The smallest pipe.

class LineWriterTest : public ::testing::Test {
 protected:
  LineWriterTest() : pipe_{*process::make_pipe()} {
    EXPECT_EQ(::fcntl(pipe_.read_end.get(), F_SETPIPE_SZ, kPage), kPage);
    process::make_non_blocking(
        pipe_.read_end.get());  // Affects only the test's end; the writer's is another open file.
  }
  /// Contents of the pipe.
  std::string read_now() {
    std::string text;
    std::array<char, kPage> piece{};
    for (ssize_t got = 0; (got = ::read(pipe_.read_end.get(), piece.data(), piece.size())) > 0;)
      text.append(piece.data(), static_cast<std::size_t>(got));
    return text;
  }
  static std::vector<std::string> lines_of(const std::string& text) {
    EXPECT_TRUE(text.empty() || text.ends_with('\n')) << "the last line is whole";
    std::vector<std::string> lines;
    std::istringstream in{text};
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  static std::string numbered(int i) { return std::to_string(i) + std::string(100, '.') + "\n"; }

  process::Pipe pipe_;
};

TEST_F(LineWriterTest, WritesImmediatelyIfThereIsRoom) {
  process::LineWriter writer{pipe_.write_end.get()};
  writer.note("a\n");
  writer.show("b\n");
  EXPECT_FALSE(writer.pending());
  EXPECT_EQ(read_now(), "a\nb\n");
}

TEST_F(LineWriterTest, KeepsOnlyTheNewestProgressLine) {
  process::LineWriter writer{pipe_.write_end.get()};
  constexpr int kShown = 10'000;
  for (int i = 0; i < kShown; ++i) writer.show(numbered(i));  // A megabyte into a pipe of one page.
  EXPECT_TRUE(writer.pending());
  std::string text = read_now();
  writer.flush();
  text += read_now();
  EXPECT_FALSE(writer.pending());
  const auto lines = lines_of(text);
  EXPECT_LE(lines.size(), kPage / numbered(0).size() + 2);
  int before = -1;
  for (const std::string& line : lines) {
    EXPECT_EQ(line.size(), std::to_string(std::stoi(line)).size() + 100) << "no two lines are mixed";
    EXPECT_GT(std::stoi(line), before);
    before = std::stoi(line);
  }
  EXPECT_EQ(before, kShown - 1);
}

TEST_F(LineWriterTest, NotesStayInOrderAndAreNotReplacedByProgress) {
  process::LineWriter writer{pipe_.write_end.get()};
  for (int i = 0; i < 200; ++i) {
    writer.note("note " + numbered(i));
    writer.show("progress " + numbered(i));
  }
  std::string text;
  for (std::string some = read_now(); !some.empty(); some = read_now()) {
    text += some;
    writer.flush();
  }
  std::vector<int> notes;
  const auto lines = lines_of(text);
  for (const std::string& line : lines)
    if (line.starts_with("note ")) notes.push_back(std::stoi(line.substr(5)));
  ASSERT_EQ(notes.size(), 200u);
  EXPECT_TRUE(std::is_sorted(notes.begin(), notes.end()));
  EXPECT_EQ(lines.back() + "\n", "progress " + numbered(199));
}

TEST_F(LineWriterTest, DropsNotesBeyondItsBoundAndReportsTheirNumber) {
  process::LineWriter writer{pipe_.write_end.get()};
  for (int i = 0; i < 1'000; ++i) writer.note(numbered(i));
  std::string text;
  for (std::string some = read_now(); !some.empty(); some = read_now()) {
    text += some;
    writer.flush();
  }
  std::size_t left_out = 0;
  const auto lines = lines_of(text);
  for (const std::string& line : lines)
    if (line.starts_with("(")) left_out = std::stoul(line.substr(1));
  EXPECT_GT(left_out, 0u);
  EXPECT_EQ(lines.size() - 1 + left_out, 1'000u);
  EXPECT_EQ(lines.back() + "\n", numbered(999));
}

TEST_F(LineWriterTest, LineLongerThanThePipeArrivesWhole) {
  process::LineWriter writer{pipe_.write_end.get()};
  const std::string longer(3 * kPage, 'x');
  writer.note(longer + "\n");
  writer.show("replaced\n");
  writer.show("newest\n");
  std::string text;
  for (std::string some = read_now(); !some.empty(); some = read_now()) {
    text += some;
    writer.flush();
  }
  EXPECT_EQ(text, longer + "\nnewest\n");
}

TEST_F(LineWriterTest, DoesNotChangeTheFlagsOfASharedFile) {
  const process::LineWriter writer{pipe_.write_end.get()};
  EXPECT_EQ(::fcntl(pipe_.write_end.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(LineWriterTest, DropsLinesWhenItsReaderIsGone) {
  const auto before = ::signal(SIGPIPE, SIG_IGN);
  process::LineWriter writer{pipe_.write_end.get()};
  pipe_.read_end.reset();
  writer.note("no reader\n");
  EXPECT_FALSE(writer.pending());
  EXPECT_TRUE(writer.finish(std::chrono::milliseconds{0}));
  ::signal(SIGPIPE, before);
}

TEST_F(LineWriterTest, FinishGivesUpOnAStuckReader) {
  process::LineWriter writer{pipe_.write_end.get()};
  for (int i = 0; i < 100; ++i) writer.note(numbered(i));
  EXPECT_FALSE(writer.finish(std::chrono::milliseconds{1}));
}

TEST(LineWriter, AppendsToASharedFile) {
  const emplace::testing::ScratchFolder folder{"line_writer"};
  const std::string path = (folder.path() / "log").string();
  const process::Descriptor file{::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
  ASSERT_EQ(::write(file.get(), "before\n", 7), 7);
  process::LineWriter writer{file.get()};
  writer.note("after\n");
  const auto bytes = read_file(path);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()), "before\nafter\n");
}

TEST(LineWriter, StoppedTerminalDoesNotBlock) {
  int screen = -1, terminal = -1;
  ASSERT_EQ(::openpty(&screen, &terminal, nullptr, nullptr, nullptr), 0);
  const process::Descriptor ours{screen}, theirs{terminal};
  ASSERT_EQ(::tcflow(theirs.get(), TCOOFF), 0);  // Ctrl-S.
  process::LineWriter writer{theirs.get()};
  for (int i = 0; i < 1'000; ++i) writer.show("progress " + std::to_string(i) + "\r\n");
  EXPECT_TRUE(writer.pending());
  ASSERT_EQ(::tcflow(theirs.get(), TCOON), 0);
  EXPECT_TRUE(writer.finish(std::chrono::seconds{10}));
  std::string text;
  std::array<char, 4096> piece{};
  while (!text.ends_with("progress 999\r\n") && !text.ends_with("progress 999\r\r\n")) {
    const ssize_t got = ::read(ours.get(), piece.data(), piece.size());
    ASSERT_GT(got, 0) << text;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
}

TEST(LineWriter, FullSocketDoesNotBlock) {
  auto [ours, theirs] = *process::make_socket_pair();
  process::LineWriter writer{theirs.get()};
  for (int i = 0; i < 20'000; ++i) writer.show(std::string(100, '.') + "\n");
  EXPECT_TRUE(writer.pending());
  EXPECT_EQ(::fcntl(theirs.get(), F_GETFL) & O_NONBLOCK, 0);
}

}  // namespace
}  // namespace emplace::launcher
