#pragma once
/// Owned file descriptors. All are close-on-exec: a child inherits only what it is given.

#include <utility>

#include "base/result.h"

namespace emplace::process {

/// Closes the descriptor it owns; -1: owns none. Thread: one.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_{fd} {}
  Descriptor(Descriptor&& other) noexcept : fd_{other.release()} {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    reset(other.release());
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(); }

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

struct Pipe {
  Descriptor read_end, write_end;
};
/// Errors (kIo): out of descriptors.
Result<Pipe> make_pipe();

/// Connected ends of a stream socket. Errors (kIo): out of descriptors.
Result<std::pair<Descriptor, Descriptor>> make_socket_pair();

/// Duplicates `fd` to a number of at least `least`. Errors (kIo): out of descriptors.
Result<Descriptor> duplicate(int fd, int least = 0);

void make_non_blocking(int fd);

/// Error of an errno value: "what: Too many open files".
Error system_error(const char* what, int number);

}  // namespace emplace::process
