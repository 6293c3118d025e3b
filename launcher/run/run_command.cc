#include "launcher/run/run_command.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>

namespace emplace::launcher {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

std::string all_of(const File& file) {
  std::rewind(file.get());
  std::string text;
  std::array<char, 4096> block{};
  for (std::size_t n = 0; (n = std::fread(block.data(), 1, block.size(), file.get())) > 0;)
    text.append(block.data(), n);
  return text;
}

}  // namespace

std::string Ran::last_line() const {
  for (const std::string& text : {errors, output}) {
    const std::size_t end = text.find_last_not_of(" \r\n\t");
    if (end == std::string::npos) continue;
    const std::size_t newline = text.rfind('\n', end);
    const std::size_t begin = newline == std::string::npos ? 0 : newline + 1;
    return text.substr(begin, end + 1 - begin);
  }
  return "";
}

Result<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* const path = std::getenv("PATH");
  std::istringstream folders{path == nullptr ? "/usr/bin:/bin" : path};
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string at = folder + "/" + name;
    if (!folder.empty() && ::access(at.c_str(), X_OK) == 0) return at;
  }
  return invalid(name, "is not installed here", "install it, or start the node another way");
}

Result<Ran> run_command(const std::string& program, const std::vector<std::string>& arguments,
                        const std::string& input) {
  const auto path = find_program(program);
  if (!path) return path.error();
  const File out{std::tmpfile(), &std::fclose}, err{std::tmpfile(), &std::fclose};
  if (!out || !err) return Error{Errc::kIo, program + ": no place for what it writes"};
  std::vector<std::string> words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files{};
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, input.empty() ? "/dev/null" : input.c_str(),
                                     O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files, ::fileno(out.get()), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, ::fileno(err.get()), STDERR_FILENO);
  pid_t child = 0;
  const int failure = ::posix_spawn(&child, path->c_str(), &files, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  if (failure != 0) return invalid(program, std::string{"cannot be started: "} + std::strerror(failure));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  Ran ran;
  ran.output = all_of(out);
  ran.errors = all_of(err);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

}  // namespace emplace::launcher
