#include "launcher/terminal/stop_signal.h"

#include <csignal>
#include <initializer_list>

namespace emplace::launcher {
namespace {

int g_instances = 0;
volatile std::sig_atomic_t g_received = 0;  // The only type that a signal handler may write portably.

void set(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  // SA_RESETHAND restores the default action, so that a second Ctrl-C ends the process at once.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  ::sigaction(signal, &action, nullptr);
}

void install() {
  for (const int signal : {SIGINT, SIGTERM}) set(signal, [](int received) { g_received = received; });
}

}  // namespace

StopSignal::StopSignal() {
  if (g_instances++ > 0) return;
  g_received = 0;
  install();
}

StopSignal::~StopSignal() {
  if (--g_instances > 0) return;
  for (const int signal : {SIGINT, SIGTERM}) set(signal, SIG_DFL);
}

void StopSignal::take_over(int signal) {
  if (signal != 0 && g_received == 0) g_received = signal;
  install();
}

int StopSignal::received() const { return g_received; }

}  // namespace emplace::launcher
