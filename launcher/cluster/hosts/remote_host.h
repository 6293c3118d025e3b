#pragma once
/// Nodes on other hosts: their commands, and copying the program there. ssh and schedulers start the
/// processes.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/cluster/cluster.h"
#include "launcher/cluster/supervision/supervised.h"

namespace emplace::launcher {

/// Returns the `emplace join` command of a node, as words. It does not contain the node's environment,
/// because other users can read command lines.
std::vector<std::string> join_words(const NodePlan& node, const std::string& head);
/// Returns POSIX shell lines that export these variables ("NAME=value"); values may be any text.
std::string export_lines(const std::vector<std::string>& environment);
/// Quotes words for a POSIX shell.
std::string shell_line(const std::vector<std::string>& words);

// The functions below return a local program that represents a remote node: it exits when the node does, and
// ends the node when its standard input closes.

/// Returns an OpenSSH command, with the user's keys, agent and known hosts, and without password prompts. The
/// node's environment is passed over standard input.
Program ssh_program(const NodePlan& node, const std::string& head);
/// Copies this program and the node's key to hosts of ssh nodes that lack them, and makes the nodes use the
/// copies. Errors (kInvalid): a host that refuses the connection, whose CPU cannot run the program, or that
/// lacks a library.
Result<Unit> push_program(const std::string& program, std::span<NodePlan* const> nodes);

/// Returns a program that submits a Slurm batch job: one step with a task per process, or, for an elastic
/// node, a job array that follows the lines "tasks N" on the standard input of the program. `processes`:
/// those of one cluster node. Writes the job script to `script`, with mode 0600 because it contains their
/// environment. Errors: kIo.
Result<Program> slurm_program(const std::vector<NodePlan>& processes, const std::string& head,
                              const std::string& run_name, const std::filesystem::path& script);

/// Facts of a start of the run for ray_program().
struct RayStart {
  std::string head, beside;  ///< Endpoints of the head: for the nodes of Ray, and on this machine (or empty).
  std::filesystem::path log;  ///< File for what Ray prints.
  int restarts = 0;           ///< Number of earlier incarnations.
};
/// Returns the program that keeps executors on a Ray cluster: `python3 -m emplace.ray`. Errors: kInvalid,
/// there is no Python; kIo.
Result<Program> ray_program(const NodePlan& node, const RayStart& start);
/// Returns the environment of that program, which includes that of the node.
std::vector<std::string> ray_environment(const NodePlan& node);
/// Starts Python to ask for the package emplace and for Ray. Blocks, for about a second. Errors (kInvalid):
/// one of them is missing, and how to get it.
Result<Unit> check_ray(const NodePlan& node);

}  // namespace emplace::launcher
