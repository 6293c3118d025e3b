// The commands that place, as a program of their own: it links nothing above the seam (scripts/layers.txt).
#include "launcher/placing/extensions.h"

int main(int argc, char** argv) {
  using namespace emplace::launcher;
  const Extensions extensions = no_extensions();
  return run_command_line(argc, argv, placing_commands(extensions));
}
