// Goal: a live view never floods, never flickers and never leaves the terminal dirty. Method: a clock that
// the test moves; the output is compared byte by byte.

#include "launcher/terminal/terminal.h"
#include "tests/support/manual_clock.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <string>

namespace emplace::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Screen {
  ManualClock clock;
  std::string written;
  std::string take() { return std::exchange(written, {}); }
  LiveView view(Terminal terminal, bool enabled = true) {
    return LiveView{terminal, clock, enabled, [this](std::string_view text) { written += text; }};
  }
};
const Terminal kTty{.is_tty = true, .colour = true, .columns = 20};
const Terminal kPipe{};
const std::array<std::string, 2> kBlock{"one", "two"};

TEST(LiveView, RedrawsItsBlockInPlaceAndErasesIt) {
  Screen screen;
  LiveView view = screen.view(kTty);
  view.show(kBlock, "plain");
  EXPECT_EQ(screen.take(), "\rone\x1b[K\n\rtwo\x1b[K\n\x1b[J");
  screen.clock.advance(milliseconds{100});
  view.show(kBlock, "plain");
  EXPECT_EQ(screen.take(), "\x1b[2A\rone\x1b[K\n\rtwo\x1b[K\n\x1b[J");
  view.clear();
  EXPECT_EQ(screen.take(), "\x1b[2A\r\x1b[J");
  view.clear();
  EXPECT_EQ(screen.take(), "");
}

TEST(LiveView, DrawsAtMostTenTimesASecond) {
  Screen screen;
  LiveView view = screen.view(kTty);
  for (int ms = 0; ms < 1000; ++ms, screen.clock.advance(milliseconds{1})) view.show(kBlock, "plain");
  std::size_t frames = 0;
  for (std::size_t at = 0; (at = screen.written.find("\x1b[J", at)) != std::string::npos; ++at) ++frames;
  EXPECT_EQ(frames, 10u);
}

TEST(LiveView, WritesOnePlainLineEveryFiveSecondsWithoutATerminal) {
  Screen screen;
  LiveView view = screen.view(kPipe);
  for (int s = 0; s <= 11; ++s, screen.clock.advance(seconds{1}))
    view.show(kBlock, "at " + std::to_string(s));
  EXPECT_EQ(screen.take(), "at 5\nat 10\n");
  view.clear();
  EXPECT_EQ(screen.take(), "");
}

TEST(LiveView, WritesNothingWhenDisabled) {
  Screen screen;
  {
    LiveView view = screen.view(kTty, /*enabled=*/false);
    EXPECT_FALSE(view.due());
    view.show(kBlock, "plain");
    view.show_now(kBlock, "plain");
  }
  EXPECT_EQ(screen.written, "");
}

TEST(LiveView, CutsLinesThatWouldWrap) {
  Screen screen;
  LiveView view = screen.view(kTty);
  view.show(std::array<std::string, 1>{std::string(50, 'x')}, "");
  EXPECT_EQ(screen.take(), "\r" + std::string(19, 'x') + "…\x1b[K\n\x1b[J");
}

TEST(LiveView, CutsABlockThatIsHigherThanTheTerminal) {
  Screen screen;
  LiveView view = screen.view({.is_tty = true, .columns = 20, .rows = 4});
  view.show(std::array<std::string, 5>{"1", "2", "3", "4", "5"}, "");
  EXPECT_EQ(screen.take(), "\r1\x1b[K\n\r2\x1b[K\n\r… 3 more lines\x1b[K\n\x1b[J");
  view.clear();
  EXPECT_EQ(screen.take(), "\x1b[3A\r\x1b[J");
}

TEST(Width, CountsCodePointsAndNotEscapes) {
  EXPECT_EQ(display_width("abc"), 3u);
  EXPECT_EQ(display_width("müß…"), 4u);
  EXPECT_EQ(display_width("\x1b[32mok\x1b[0m"), 2u);
  EXPECT_EQ(fit_width("short", 20), "short");
  EXPECT_EQ(fit_width("\x1b[32mlong text\x1b[0m", 5), "\x1b[32mlong…\x1b[0m");
}

TEST(Styles, AppearOnlyInColour) {
  EXPECT_EQ(kTty.styled(Style::kGreen, "ok"), "\x1b[32mok\x1b[0m");
  EXPECT_EQ(kPipe.styled(Style::kGreen, "ok"), "ok");
  EXPECT_EQ(kTty.styled(Style::kPlain, "ok"), "ok");
}

}  // namespace
}  // namespace emplace::launcher
