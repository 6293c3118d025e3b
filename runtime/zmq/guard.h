#pragma once
/// The door of a node: who may connect (ZAP), what its key's roles are, and what became of those who were
/// refused.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <zmq.hpp>

#include "base/clock.h"
#include "base/keys.h"
#include "base/result.h"
#include "runtime/zmq/watch.h"

namespace emplace::runtime {

/// Thread: the I/O loop; make() before any socket of the context is bound.
class Guard {
 public:
  /// Reads the allow-list and answers ZAP from now on. Errors: kIo, kInvalid, as the list's reader.
  static Result<std::unique_ptr<Guard>> make(zmq::context_t& context, std::string allow_list,
                                             std::string node);

  /// Sets a ROUTER up so that what it binds from now on is encrypted and asks here who may connect.
  void protect(zmq::socket_t& router, const KeyPair& own) const;

  /// The roles of a key that may be connected. Empty: not, or no longer.
  std::optional<Roles> roles(std::string_view key) const;
  /// What the list calls a key.
  std::string name(std::string_view key) const;

  zmq::socket_t& socket() { return zap_; }
  /// Answers those who wait, a bounded number of them.
  void answer();
  /// Reads the list again if its file changed, at most once a second. True: keys went or changed their roles.
  bool refresh(Nanos now);

  Watch watch;  ///< Of socket().

 private:
  struct Stamp {
    std::int64_t seconds = 0, nanoseconds = 0, size = 0;
    std::uint64_t inode = 0;
    bool operator==(const Stamp&) const = default;
  };
  Guard(zmq::context_t& context, std::string allow_list, std::string node);
  Result<bool> read_list();
  Stamp stamp() const;

  const std::string path_;
  const std::string node_;
  const std::string domain_;  ///< Of this run: a request of another is refused.
  zmq::socket_t zap_;
  std::map<std::string, AllowedKey, std::less<>> allowed_;  ///< By public key.
  std::set<std::string> refused_;                           ///< Keys, logged already.
  Stamp read_at_;
  Nanos next_look_{0};
};

/// Counts handshakes that failed, as ZeroMQ tells them. Ends before the socket that it watches: ZeroMQ's
/// thread would wait for ever to tell one that is gone. Thread: the I/O loop.
class HandshakeMonitor {
 public:
  /// `number`: unique in the context.
  HandshakeMonitor(zmq::context_t& context, zmq::socket_t& watched, int number);
  ~HandshakeMonitor();
  HandshakeMonitor(const HandshakeMonitor&) = delete;
  HandshakeMonitor& operator=(const HandshakeMonitor&) = delete;
  zmq::socket_t& socket() { return events_; }
  /// How many failed since the last call; `why` gets the last one's reason, in words for the side that dials.
  std::uint64_t take_failures(std::string& why);

  Watch watch;  ///< Of socket().

 private:
  void* const watched_;
  zmq::socket_t events_;
};

}  // namespace emplace::runtime
