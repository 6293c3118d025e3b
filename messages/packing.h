#pragma once
/// msgpack-cxx's packer, for .cc files of this folder only: the header is heavy.

#define MSGPACK_NO_BOOST
#include <msgpack/pack.hpp>

#include <cstddef>

namespace emplace::messages {

/// The packer's sink: any type with `append(const std::byte*, std::size_t)`.
template <class Sink>
struct PackTarget {
  Sink& sink;
  void write(const char* data, std::size_t size) {
    sink.append(reinterpret_cast<const std::byte*>(data), size);
  }
};

}  // namespace emplace::messages
