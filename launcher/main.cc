#include "launcher/command.h"
#include "launcher/commands/commands.h"

int main(int argc, char** argv) {
  using namespace emplace::launcher;
  return run_command_line(argc, argv, all_commands());
}
