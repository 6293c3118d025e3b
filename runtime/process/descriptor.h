#pragma once
/// Pipes and sockets. All are close-on-exec: a child inherits only what it is given.

#include <utility>

#include "base/descriptor.h"
#include "base/result.h"

namespace emplace::process {

using emplace::Descriptor;

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
