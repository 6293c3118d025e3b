#include "launcher/session/stop_signal.h"

#include <csignal>
#include <initializer_list>

namespace emplace::launcher {
namespace {

volatile std::sig_atomic_t g_received = 0;  // A handler may touch nothing else.

void set(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  // The second signal finds the default: whoever presses twice means it.
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
