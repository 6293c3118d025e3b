#include "launcher/command.h"
#include "launcher/commands/commands.h"
#include "launcher/process/signals.h"

int main(int argc, char** argv) {
  using namespace emplace::launcher;
  prepare_process();
  return run_command_line(argc, argv, all_commands());
}
