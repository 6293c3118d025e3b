#include "launcher/start/command.h"

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

std::string Ran::last_line() const {
  std::size_t end = output.find_last_not_of(" \r\n\t");
  if (end == std::string::npos) return "";
  const std::size_t begin = output.rfind('\n', end);
  return output.substr(begin == std::string::npos ? 0 : begin + 1,
                       end - (begin == std::string::npos ? -1 : begin));
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
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out{std::tmpfile(), &std::fclose};
  if (!out) return Error{Errc::kIo, program + ": no place for what it writes"};
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
  ::posix_spawn_file_actions_adddup2(&files, ::fileno(out.get()), STDERR_FILENO);
  pid_t child = 0;
  const int failure = ::posix_spawn(&child, path->c_str(), &files, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  if (failure != 0) return invalid(program, std::string{"cannot be started: "} + std::strerror(failure));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  Ran ran;
  std::rewind(out.get());
  std::array<char, 4096> block{};
  for (std::size_t n = 0; (n = std::fread(block.data(), 1, block.size(), out.get())) > 0;)
    ran.output.append(block.data(), n);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

}  // namespace emplace::launcher
