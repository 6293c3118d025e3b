#pragma once
/// Nodes on other hosts: what is run there, and what brings it there. Schedulers and ssh place the processes;
/// we write down what they are to run.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/cluster/cluster.h"
#include "launcher/cluster/supervised.h"

namespace emplace::launcher {

/// `emplace join` as it is to be run there, word by word. The node's environment is not in it: whoever may
/// list processes reads command lines.
std::vector<std::string> join_words(const NodePlan& node, const std::string& head);
/// Lines of a POSIX shell that export these variables ("NAME=value"); values may be any text.
std::string export_lines(const std::vector<std::string>& environment);
/// Words as a POSIX shell reads them back.
std::string shell_line(const std::vector<std::string>& words);
/// One word, in single quotes where it needs them.
std::string shell_word(const std::string& word);

// A program of ours that stands for a node elsewhere: it ends when the node does, and ends the node when its
// standard input does.

/// Over OpenSSH, with the user's keys, agent and known hosts; it never asks for a password. The node's
/// environment goes over standard input, first of all.
Program ssh_program(const NodePlan& node, const std::string& head);
/// Copies this program, and the node's key, to the hosts of ssh nodes that lack them, and makes the nodes use
/// the copies. Errors (kInvalid): a host that refuses, whose CPU cannot run the program, or that lacks a
/// library.
Result<Unit> push_program(const std::string& program, std::span<NodePlan* const> nodes);

/// A batch job of Slurm: one step with a task for each process. `processes`: those of one node of the
/// cluster. Writes its script to `script`, with mode 0600: their environment is in it. Errors: kIo.
Result<Program> slurm_program(const std::vector<NodePlan>& processes, const std::string& head,
                              const std::string& run_name, const std::filesystem::path& script);

}  // namespace emplace::launcher
