#pragma once
/// Checks the public keys of connecting nodes against the allow-list (ZAP, the ZeroMQ Authentication
/// Protocol); without it CURVE accepts every key. For the permissions of a key see runtime/zmq/admission.h.

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include <zmq.hpp>

#include "base/clock.h"
#include "base/keys.h"
#include "base/result.h"
#include "runtime/core/allowed_keys.h"
#include "runtime/zmq/sockets/watch.h"

namespace emplace::runtime {

/// Thread: the I/O loop. Call make() before any socket of the context is bound. Must outlive the sockets that
/// it protects.
class Authenticator {
 public:
  /// Reads the allow-list and starts to answer ZAP requests. Errors: kIo, kInvalid, from reading the list.
  static Result<std::unique_ptr<Authenticator>> make(zmq::context_t& context, std::string allow_list,
                                                     std::string node);

  /// Configures a ROUTER: later binds are encrypted and authenticate here.
  void protect(zmq::socket_t& router, const KeyPair& own) const;
  /// Allow-list as last read.
  const AllowedKeys& keys() const { return keys_; }

  void add_to(Waiter& waiter) { waiter.add(zap_, watch_); }
  bool readable() const { return watch_.readable; }
  /// Answers pending requests, a bounded number of them.
  void answer();
  /// Rereads the list if its file changed, at most once a second. Returns true if keys were removed or roles
  /// changed.
  bool refresh(Nanos now);

 private:
  /// Identifies a version of the file.
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
  std::set<std::string> refused_;  // Keys logged as refused since the list was read.
  Stamp read_at_;
  Nanos next_check_{0};
};

}  // namespace emplace::runtime
