#include "tests/clusters/world.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>

namespace emplace::testing {

ScriptedWorld::ScriptedWorld(const std::string& script, const std::string& folder, int number)
    : folder_{folder} {
  int in[2], out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) {
    missing_ = "no pipes";
    return;
  }
  const std::string count = std::to_string(number);
  const std::string path = shipped("tests/clusters/" + script);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::execlp("bash", "bash", path.c_str(), folder.c_str(), count.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  in_ = in[1];
  out_ = out[0];
  std::string line;
  char c = 0;
  while (::read(out_, &c, 1) == 1 && c != '\n') line += c;
  if (line != "ready") missing_ = line.empty() ? script + " ended without a word" : line;
}

ScriptedWorld::~ScriptedWorld() {
  if (in_ >= 0) ::close(in_);
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  if (out_ >= 0) ::close(out_);
}

Output shell(const std::string& command) {
  Output output;
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "re");
  if (pipe == nullptr) return output;
  std::array<char, 4096> block{};
  for (std::size_t n = 0; (n = std::fread(block.data(), 1, block.size(), pipe)) > 0;)
    output.text.append(block.data(), n);
  const int status = ::pclose(pipe);
  output.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return output;
}

}  // namespace emplace::testing
