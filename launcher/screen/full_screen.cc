#include "launcher/screen/full_screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include "base/check.h"

namespace emplace::launcher {
namespace {

// Alternate screen; the cursor hidden; no wrapping, so that a line that is too wide cannot shift the others.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[H\x1b[2J";
constexpr std::string_view kLeave = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";
constexpr std::chrono::milliseconds kSlowTerminal{500};

/// Signals that end the program: by another program, or by a bug.
constexpr std::array kEnding{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE};

// What the handlers need. Written while no handler is installed; the flags by handlers too.
termios g_before{}, g_raw{};
std::array<struct sigaction, kEnding.size()> g_ending_before{};
struct sigaction g_stop_before {
}, g_continue_before{}, g_stop_handler{};
std::atomic<bool> g_entered{false}, g_retaken{false};
static_assert(std::atomic<bool>::is_always_lock_free, "handlers may only use atomics without locks");

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(STDOUT_FILENO, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

// enter() and leave() use only functions that a signal handler may call.

void enter() {
  ::tcsetattr(STDIN_FILENO, TCSANOW, &g_raw);
  if (!g_entered.exchange(true)) write_all(kEnter);
}

void leave() {
  if (g_entered.exchange(false)) write_all(kLeave);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &g_before);
}

void unblock(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

extern "C" void end_by(int signal) {
  leave();
  struct sigaction none {};
  none.sa_handler = SIG_DFL;
  ::sigaction(signal, &none, nullptr);
  unblock(signal);
  (void)::raise(signal);
}

extern "C" void stop_by(int signal) {
  const int kept = errno;
  leave();
  struct sigaction none {};
  none.sa_handler = SIG_DFL;
  ::sigaction(signal, &none, nullptr);
  (void)::raise(signal);
  unblock(signal);  // The program stops here until it is continued.
  ::sigaction(signal, &g_stop_handler, nullptr);
  // A group without a shell does not stop, and is not continued.
  enter();
  g_retaken = true;
  errno = kept;
}

extern "C" void continue_by(int) {
  const int kept = errno;
  enter();
  g_retaken = true;
  errno = kept;
}

/// Installs a handler unless the signal is ignored, which a parent has asked for.
void install(int signal, void (*handler)(int), struct sigaction& before) {
  ::sigaction(signal, nullptr, &before);
  if ((before.sa_flags & SA_SIGINFO) == 0 && before.sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

Result<std::unique_ptr<FullScreen>> FullScreen::open() {
  const char* const term = std::getenv("TERM");
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDOUT_FILENO) != 1)
    return Error{Errc::kUnsupported, "standard input and output are not a terminal"};
  if (term == nullptr || *term == '\0' || std::string_view{term} == "dumb")
    return Error{Errc::kUnsupported, "the terminal (TERM) cannot position its cursor"};
  if (::tcgetattr(STDIN_FILENO, &g_before) != 0)
    return Error{Errc::kUnsupported, "the settings of the terminal cannot be read"};
  return std::unique_ptr<FullScreen>{new FullScreen};
}

FullScreen::FullScreen() : out_{STDOUT_FILENO} {
  EMPLACE_CHECK(!g_entered, "one full screen at a time");
  g_raw = g_before;
  // Signals of keys (Ctrl-C, Ctrl-Z) and flow control stay.
  g_raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | IEXTEN);
  g_raw.c_cc[VMIN] = 0;
  g_raw.c_cc[VTIME] = 0;
  for (std::size_t i = 0; i < kEnding.size(); ++i) install(kEnding[i], &end_by, g_ending_before[i]);
  install(SIGTSTP, &stop_by, g_stop_before);
  ::sigaction(SIGTSTP, nullptr, &g_stop_handler);
  install(SIGCONT, &continue_by, g_continue_before);
  enter();
}

FullScreen::~FullScreen() {
  (void)out_.finish(kSlowTerminal);
  ::sigaction(SIGCONT, &g_continue_before, nullptr);
  ::sigaction(SIGTSTP, &g_stop_before, nullptr);
  leave();
  for (std::size_t i = 0; i < kEnding.size(); ++i) ::sigaction(kEnding[i], &g_ending_before[i], nullptr);
}

ScreenSize FullScreen::size() const {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) return {};
  return {size.ws_row, size.ws_col};
}

std::string FullScreen::typed() {
  out_.flush();
  std::string text;
  pollfd one{STDIN_FILENO, POLLIN, 0};
  std::array<char, 256> bytes;
  while (::poll(&one, 1, 0) > 0) {
    gone_ |= (one.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
    if (gone_ || (one.revents & POLLIN) == 0) break;
    const ssize_t got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (got <= 0) break;
    text.append(bytes.data(), static_cast<std::size_t>(got));
    constexpr std::size_t kMost = 4096;  // A pasted file must not keep the screen from being drawn.
    if (text.size() >= kMost) break;
  }
  return text;
}

void FullScreen::show(std::span<const std::string> lines) {
  const std::size_t rows = size().rows;
  // Each line is cleared before it is written: behind a full line the cursor is on the last character.
  std::string frame = "\x1b[H";
  for (std::size_t row = 0; row < rows; ++row) {
    frame += row > 0 ? "\r\n\x1b[2K" : "\x1b[2K";
    if (row < lines.size()) frame += lines[row];
  }
  out_.show(std::move(frame));
}

bool FullScreen::retaken() { return g_retaken.exchange(false); }

}  // namespace emplace::launcher
