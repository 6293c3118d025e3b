#pragma once
/// Checks the public keys of those who connect (ZAP, the ZeroMQ Authentication Protocol) against the
/// allow-list: without it CURVE accepts every key. What a key may do once it is in: runtime/zmq/admission.h.

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include <zmq.hpp>

#include "base/clock.h"
#include "base/keys.h"
#include "base/result.h"
#include "runtime/core/allowed_keys.h"
#include "runtime/zmq/watch.h"

namespace emplace::runtime {

/// Thread: the I/O loop; make() before any socket of the context is bound. Must outlive the sockets that it
/// protects.
class Authenticator {
 public:
  /// Reads the allow-list and answers ZAP from now on. Errors: kIo, kInvalid, as the list's reader.
  static Result<std::unique_ptr<Authenticator>> make(zmq::context_t& context, std::string allow_list,
                                                     std::string node);

  /// Sets a ROUTER up so that what it binds from now on is encrypted and asks here who may connect.
  void protect(zmq::socket_t& router, const KeyPair& own) const;
  /// The list as it was last read.
  const AllowedKeys& keys() const { return keys_; }

  void add_to(Waiter& waiter) { waiter.add(zap_, watch_); }
  bool readable() const { return watch_.readable; }
  /// Answers those who wait, a bounded number of them.
  void answer();
  /// Reads the list again if its file changed, at most once a second. True: keys are gone, or their roles
  /// changed.
  bool refresh(Nanos now);

 private:
  /// Tells versions of the file apart.
  struct Stamp {
    std::int64_t seconds = 0, nanoseconds = 0, size = 0;
    std::uint64_t inode = 0;
    bool operator==(const Stamp&) const = default;
  };
  Authenticator(zmq::context_t& context, std::string allow_list, std::string node);
  Result<bool> read_list();
  Stamp stamp() const;

  const std::string path_;
  const std::string node_;
  const std::string domain_;  // Random: a request that names another domain is refused.
  zmq::socket_t zap_;
  Watch watch_;
  AllowedKeys keys_;
  std::set<std::string> refused_;  // Keys that were logged since the list was read.
  Stamp read_at_;
  Nanos next_look_{0};
};

}  // namespace emplace::runtime
