#include "launcher/commands/commands.h"
#include "launcher/commands/laboratory.h"
#include "launcher/terminal/command.h"
#include "runtime/process/signals.h"

int main(int argc, char** argv) {
  using namespace emplace::launcher;
  emplace::process::prepare_process();
  return run_command_line(argc, argv, all_commands(open_laboratory()));
}
