#include "launcher/session/stop_signal.h"

#include <csignal>
#include <initializer_list>

namespace emplace::launcher {
namespace {

volatile std::sig_atomic_t g_received = 0;  // The only type that a signal handler may write portably.

void set(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  // SA_RESETHAND restores the default action, so that a second Ctrl-C ends the process at once.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

StopSignal::StopSignal() {
  g_received = 0;
  for (const int signal : {SIGINT, SIGTERM}) set(signal, [](int received) { g_received = received; });
}

StopSignal::~StopSignal() {
  for (const int signal : {SIGINT, SIGTERM}) set(signal, SIG_DFL);
}

int StopSignal::received() const { return g_received; }

}  // namespace emplace::launcher
