#include "runtime/zmq/guard.h"

#include <sys/stat.h>

#include <array>
#include <cstring>
#include <utility>

#include "base/text/words.h"
#include "runtime/log.h"

#ifndef ZMQ_ZAP_ENFORCE_DOMAIN  // In the library since 4.3.1, in the header of draft builds only.
#define ZMQ_ZAP_ENFORCE_DOMAIN 93
#endif

namespace emplace::runtime {
namespace {

constexpr int kAnswersPerTurn = 64;
constexpr std::size_t kRequestParts = 7;  // version, request, domain, address, routing id, mechanism, key.
constexpr std::size_t kMaxRefusedLogged = 256;
constexpr std::chrono::seconds kLookEvery{1};
constexpr int kHandshakeEvents = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                 ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

/// All parts of the next message; empty if none waits.
std::vector<std::string> receive_parts(zmq::socket_t& socket) {
  std::vector<std::string> parts;
  zmq::message_t part;
  do {
    part.rebuild();
    if (zmq_msg_recv(part.handle(), socket.handle(), ZMQ_DONTWAIT) < 0) break;
    parts.emplace_back(static_cast<const char*>(part.data()), part.size());
  } while (part.more());
  return parts;
}

}  // namespace

Guard::Guard(zmq::context_t& context, std::string allow_list, std::string node)
    : path_{std::move(allow_list)},
      node_{std::move(node)},
      domain_{"emplace/" + make_key_pair({}).public_key.substr(0, 20)},
      zap_{context, zmq::socket_type::rep} {
  zap_.set(zmq::sockopt::linger, 0);
  zap_.bind("inproc://zeromq.zap.01");
}

Result<std::unique_ptr<Guard>> Guard::make(zmq::context_t& context, std::string allow_list,
                                           std::string node) {
  auto guard = std::unique_ptr<Guard>{new Guard{context, std::move(allow_list), std::move(node)}};
  if (const auto read = guard->read_list(); !read) return read.error();
  return guard;
}

void Guard::protect(zmq::socket_t& router, const KeyPair& own) const {
  router.set(zmq::sockopt::curve_server, true);
  router.set(zmq::sockopt::curve_secretkey, own.secret_key);
  router.set(zmq::sockopt::zap_domain, domain_);
  // Without an answer to its question a connection is refused, not let in.
  const int enforce = 1;
  EMPLACE_CHECK(zmq_setsockopt(router.handle(), ZMQ_ZAP_ENFORCE_DOMAIN, &enforce, sizeof enforce) == 0,
                "ZAP cannot be enforced by this libzmq");
}

std::optional<Roles> Guard::roles(std::string_view key) const {
  const auto found = allowed_.find(key);
  return found == allowed_.end() ? std::nullopt : std::optional{found->second.roles};
}

std::string Guard::name(std::string_view key) const {
  const auto found = allowed_.find(key);
  return found == allowed_.end() ? "a key that was taken out" : found->second.name;
}

void Guard::answer() {
  for (int i = 0; i < kAnswersPerTurn; ++i) {
    const std::vector<std::string> request = receive_parts(zap_);
    if (request.empty()) return;
    std::array<char, 41> key{};
    const bool asks_for_us = request.size() == kRequestParts && request[0] == "1.0" &&
                             request[2] == domain_ && request[5] == "CURVE" && request[6].size() == 32;
    if (asks_for_us)
      zmq_z85_encode(key.data(), reinterpret_cast<const std::uint8_t*>(request[6].data()), request[6].size());
    const bool welcome = asks_for_us && allowed_.contains(std::string_view{key.data()});
    if (!welcome && refused_.size() < kMaxRefusedLogged && refused_.insert(key.data()).second)
      log(LogLevel::kWarning, node_,
          "refused a connection from " + printable(request.size() > 3 ? request[3] : "", 80) + ": the key " +
              key.data() + " is not in " + path_);
    const std::string id = request.size() > 1 ? request[1] : std::string{};
    const std::array<std::string, 6> reply{
        "1.0", id, welcome ? "200" : "400", welcome ? "" : "not allowed", welcome ? key.data() : "", ""};
    for (std::size_t part = 0; part < reply.size(); ++part)
      zmq_send(zap_.handle(), reply[part].data(), reply[part].size(),
               ZMQ_DONTWAIT | (part + 1 < reply.size() ? ZMQ_SNDMORE : 0));
  }
}

Guard::Stamp Guard::stamp() const {
  struct stat info {};
  if (::stat(path_.c_str(), &info) != 0) return {};
  return {info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_size, info.st_ino};
}

Result<bool> Guard::read_list() {
  read_at_ = stamp();  // Before reading: what is written meanwhile is read next time.
  auto list = load_allow_list(path_);
  if (!list) return list.error();
  std::map<std::string, AllowedKey, std::less<>> now;
  for (AllowedKey& key : *list) now.emplace(key.public_key, std::move(key));
  bool less = false;
  for (const auto& [key, was] : allowed_) {
    const auto found = now.find(key);
    less |= found == now.end() || !(found->second.roles == was.roles);
  }
  allowed_ = std::move(now);
  refused_.clear();
  return less;
}

bool Guard::refresh(Nanos now) {
  if (now < next_look_) return false;
  next_look_ = now + kLookEvery;
  if (stamp() == read_at_) return false;
  const auto read = read_list();
  // A list that is gone or broken says nothing about who is to go: the old one stays until it is mended.
  if (!read) log(LogLevel::kError, node_, "the allow-list as it was stays in force: " + read.error().context);
  return read && *read;
}

HandshakeMonitor::HandshakeMonitor(zmq::context_t& context, zmq::socket_t& watched, int number)
    : watched_{watched.handle()}, events_{context, zmq::socket_type::pair} {
  const std::string endpoint = "inproc://handshakes-" + std::to_string(number);
  EMPLACE_CHECK(zmq_socket_monitor(watched.handle(), endpoint.c_str(), kHandshakeEvents) == 0,
                "socket monitor");
  events_.set(zmq::sockopt::linger, 0);
  // ZeroMQ's own thread waits when this queue is full; so it never is.
  events_.set(zmq::sockopt::rcvhwm, 0);
  events_.connect(endpoint);
}

HandshakeMonitor::~HandshakeMonitor() { zmq_socket_monitor(watched_, nullptr, 0); }

std::uint64_t HandshakeMonitor::take_failures(std::string& why) {
  std::uint64_t failures = 0;
  for (std::vector<std::string> event; !(event = receive_parts(events_)).empty();) {
    std::uint16_t what = 0;
    if (event[0].size() < sizeof what) continue;
    std::memcpy(&what, event[0].data(), sizeof what);
    ++failures;
    why = what == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH
              ? "the head refuses this key; is it in its allow-list?"
              : "the handshake fails; is the head's public key the right one, and "
                "do both ends use keys?";
  }
  return failures;
}

}  // namespace emplace::runtime
