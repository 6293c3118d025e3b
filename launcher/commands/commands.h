#pragma once
/// Every command of `emplace`. To add one, add its file, a line here and one in commands.cc (the order of
/// `--help`). Those that place are in launcher/placing.

#include <memory>

#include "launcher/commands/laboratory.h"
#include "launcher/terminal/command.h"

namespace emplace::launcher {

/// In the order of `--help`.
Commands all_commands(const Laboratory& laboratory);

std::unique_ptr<Command> make_run();
std::unique_ptr<Command> make_node();
std::unique_ptr<Command> make_up();
std::unique_ptr<Command> make_join();
std::unique_ptr<Command> make_ps();
std::unique_ptr<Command> make_top();
std::unique_ptr<Command> make_down();
std::unique_ptr<Command> make_report();
std::unique_ptr<Command> make_runs();
std::unique_ptr<Command> make_generate(const Laboratory& laboratory);
std::unique_ptr<Command> make_replay();
std::unique_ptr<Command> make_calibrate();
std::unique_ptr<Command> make_keygen();
std::unique_ptr<Command> make_doctor();
std::unique_ptr<Command> make_version();

}  // namespace emplace::launcher
