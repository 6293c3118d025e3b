#include "runtime/zmq/keys/authenticator.h"

#include <sys/stat.h>

#include <array>
#include <utility>

#include "base/text/words.h"
#include "runtime/log.h"
#include "runtime/zmq/sockets/parts.h"

#ifndef ZMQ_ZAP_ENFORCE_DOMAIN  // Since libzmq 4.3.1; declared only in draft builds.
#define ZMQ_ZAP_ENFORCE_DOMAIN 93
#endif

namespace emplace::runtime {
namespace {

constexpr int kAnswersPerTurn = 64;
constexpr std::size_t kRequestParts = 7;  // Version, request, domain, address, routing id, mechanism, key.
constexpr std::size_t kMaxRefusedLogged = 256;
constexpr std::chrono::seconds kCheckInterval{1};

}  // namespace

Authenticator::Authenticator(zmq::context_t& context, std::string allow_list, std::string node)
    : path_{std::move(allow_list)},
      node_{std::move(node)},
      domain_{"emplace/" + make_key_pair({}).public_key.substr(0, 20)},
      zap_{context, zmq::socket_type::rep} {
  zap_.set(zmq::sockopt::linger, 0);
  zap_.bind("inproc://zeromq.zap.01");
}

Result<std::unique_ptr<Authenticator>> Authenticator::make(zmq::context_t& context, std::string allow_list,
                                                           std::string node) {
  auto authenticator =
      std::unique_ptr<Authenticator>{new Authenticator{context, std::move(allow_list), std::move(node)}};
  EMPLACE_TRY(authenticator->read_list());
  return authenticator;
}

void Authenticator::protect(zmq::socket_t& router, const KeyPair& own) const {
  router.set(zmq::sockopt::curve_server, true);
  router.set(zmq::sockopt::curve_secretkey, own.secret_key);
  router.set(zmq::sockopt::zap_domain, domain_);
  // Refuse a connection if no ZAP answer arrives.
  const int enforce = 1;
  EMPLACE_CHECK(zmq_setsockopt(router.handle(), ZMQ_ZAP_ENFORCE_DOMAIN, &enforce, sizeof enforce) == 0,
                "ZAP cannot be enforced by this libzmq");
}

void Authenticator::answer() {
  for (int i = 0; i < kAnswersPerTurn; ++i) {
    const std::vector<std::string> request = receive_parts(zap_);
    if (request.empty()) return;
    std::array<char, 41> key{};
    const bool asks_for_us = request.size() == kRequestParts && request[0] == "1.0" &&
                             request[2] == domain_ && request[5] == "CURVE" && request[6].size() == 32;
    if (asks_for_us)
      zmq_z85_encode(key.data(), reinterpret_cast<const std::uint8_t*>(request[6].data()), request[6].size());
    const bool allowed = asks_for_us && keys_.contains(std::string_view{key.data()});
    if (!allowed && refused_.size() < kMaxRefusedLogged && refused_.insert(key.data()).second)
      log(LogLevel::kWarning, node_,
          "refused a connection from " + printable(request.size() > 3 ? request[3] : "", 80) + ": the key " +
              key.data() + " is not in " + path_);
    const std::string id = request.size() > 1 ? request[1] : std::string{};
    const std::array<std::string, 6> reply{
        "1.0", id, allowed ? "200" : "400", allowed ? "" : "not allowed", allowed ? key.data() : "", ""};
    for (std::size_t part = 0; part < reply.size(); ++part)
      zmq_send(zap_.handle(), reply[part].data(), reply[part].size(),
               ZMQ_DONTWAIT | (part + 1 < reply.size() ? ZMQ_SNDMORE : 0));
  }
}

Authenticator::Stamp Authenticator::stamp() const {
  struct stat info {};
  if (::stat(path_.c_str(), &info) != 0) return {};
  return {info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_size, info.st_ino};
}

Result<bool> Authenticator::read_list() {
  read_at_ = stamp();  // Stamp before reading: a change meanwhile is detected next time.
  EMPLACE_TRY_ASSIGN(auto list, load_allow_list(path_));
  refused_.clear();
  return keys_.replace(std::move(list));
}

bool Authenticator::refresh(Nanos now) {
  if (now < next_check_) return false;
  next_check_ = now + kCheckInterval;
  if (stamp() == read_at_) return false;
  const auto read = read_list();
  // A missing or broken list revokes nothing: keep the old one until it is fixed.
  if (!read) log(LogLevel::kError, node_, "the previous allow-list stays in force: " + read.error().context);
  return read && *read;
}

}  // namespace emplace::runtime
