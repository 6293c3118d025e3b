#include "placement/machine/machine_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/text/words.h"
#include "placement/machine/catalogue.h"
#include "placement/machine/device_file.h"

namespace emplace {
namespace {

enum class TokenKind : std::uint8_t { kWord, kMemory, kNumber, kTimes, kBy, kComma, kOpen, kClose, kEnd };

/// A piece of the text; `at` is the number of its first letter, from 1.
struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;
  std::size_t at = 1;
};

bool is_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_times(char c) { return c == 'x' || c == 'X'; }

bool is_by(std::string_view word) { return word == "by" || word == "BY" || word == "By"; }

/// Splits a text into tokens. "h100x4" and "2x" are split where a name of the catalogue does not explain the
/// letters, "h100:60GiB" at the colon.
class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_{text} {}

  std::vector<Token> tokens() {
    constexpr std::string_view kSpace = " \t\n\v\f\r", kEndOfWord = " \t\n\v\f\r,()";
    for (std::size_t at = 0; (at = text_.find_first_not_of(kSpace, at)) != std::string_view::npos;) {
      const std::size_t end = std::min(text_.find_first_of(kEndOfWord, at), text_.size());
      if (end > at) {
        split(at, end - at);
        at = end;
      } else {
        const char c = text_[at];
        add(c == ',' ? TokenKind::kComma : c == '(' ? TokenKind::kOpen : TokenKind::kClose, at++, 1);
      }
    }
    add(TokenKind::kEnd, text_.size(), 0);
    return std::move(tokens_);
  }

 private:
  void add(TokenKind kind, std::size_t at, std::size_t size) {
    tokens_.push_back({kind, text_.substr(at, size), at + 1});
  }

  void split(std::size_t at, std::size_t size) {
    const std::string_view word = text_.substr(at, size);
    if (const std::size_t colon = word.find(':'); colon != std::string_view::npos) {
      if (colon > 0) split(at, colon);
      const std::size_t memory = std::min(word.find_first_of("xX", colon), size);
      add(TokenKind::kMemory, at + colon + 1, memory - colon - 1);
      if (memory < size) split_rest(at + memory, size - memory);  // "h100:60GiBx4"
      return;
    }
    if (is_digits(word)) return add(TokenKind::kNumber, at, size);
    if (size == 1 && is_times(word.front())) return add(TokenKind::kTimes, at, 1);
    if (is_by(word)) return add(TokenKind::kBy, at, size);
    if (known_device(word) != nullptr || known_link(word) != nullptr) return add(TokenKind::kWord, at, size);
    const std::size_t digits = std::min(word.find_first_not_of("0123456789"), size);
    if (digits > 0 && digits < size && is_times(word[digits])) {  // "2x…"
      add(TokenKind::kNumber, at, digits);
      return split_rest(at + digits, size - digits);
    }
    if (is_times(word.front()) && is_digits(word.substr(1))) return split_rest(at, size);  // "x4"
    const std::size_t last = word.find_last_not_of("0123456789");
    const bool names = last != std::string_view::npos && last > 0 && is_times(word[last]) &&
                       known_device(word.substr(0, last)) != nullptr;
    if (!names) return add(TokenKind::kWord, at, size);
    add(TokenKind::kWord, at, last);  // "h100x4"
    split_rest(at + last, size - last);
  }

  /// Adds an 'x' and what follows it.
  void split_rest(std::size_t at, std::size_t size) {
    add(TokenKind::kTimes, at, 1);
    if (size > 1) split(at + 1, size - 1);
  }

  std::string_view text_;
  std::vector<Token> tokens_;
};

/// Devices of one kind, and the link among them if the text names one.
struct Group {
  const CatalogueDevice* device = nullptr;
  std::int64_t memory_bytes = 0;  ///< 0: that of the catalogue.
  std::size_t count = 1;
  std::optional<Link> by;
};

/// Equal hosts and their network.
struct Hosts {
  std::size_t count = 1;
  std::vector<Group> groups;
  std::optional<Link> by;
};

/// The parsed text; a single machine is one Hosts that is not in parentheses.
struct MachineText {
  std::vector<Hosts> hosts;
  bool cluster = false;
};

class MachineParser {
 public:
  MachineParser(std::string_view text, std::vector<Token> tokens, CostVersion costs)
      : text_{text}, tokens_{std::move(tokens)}, costs_{costs} {}

  Result<MachineText> parse() {
    if (here().kind == TokenKind::kEnd)
      return invalid("devices ''", "is empty", "write e.g. \"h100 x 4, epyc9654\", a device file, or here");
    MachineText machine;
    machine.cluster = opens_hosts();
    if (machine.cluster) {
      EMPLACE_TRY_ASSIGN(machine.hosts, cluster());
    } else {
      Hosts& host = machine.hosts.emplace_back();
      EMPLACE_TRY_ASSIGN(host.groups, groups());
    }
    if (here().kind == TokenKind::kClose) return wrong(here(), "')' has no '('", "");
    if (here().kind != TokenKind::kEnd)
      return wrong(here(), "expected ',' or the end of the text", "separate devices by commas");
    if (without_network_)
      return wrong(*without_network_, "several hosts need a network",
                   "write e.g. \"2 x (h100 x 8) by ib-ndr\"");
    return machine;
  }

 private:
  const Token& here() const { return tokens_[next_]; }
  const Token& ahead(std::size_t by) const { return tokens_[std::min(next_ + by, tokens_.size() - 1)]; }
  bool take(TokenKind kind) {
    if (here().kind != kind) return false;
    ++next_;
    return true;
  }
  Error wrong(const Token& token, std::string_view what, std::string_view cure) const {
    return invalid(fmt::format("devices '{}', letter {}", printable(text_, 80), token.at), what, cure);
  }
  static std::string quoted(const Token& token) {
    return token.kind == TokenKind::kEnd ? "the end of the text" : "'" + printable(token.text, 40) + "'";
  }

  bool opens_hosts() const {
    return here().kind == TokenKind::kOpen ||
           (here().kind == TokenKind::kNumber && ahead(1).kind == TokenKind::kTimes &&
            ahead(2).kind == TokenKind::kOpen);
  }

  Result<std::vector<Hosts>> cluster() {
    std::vector<Hosts> all;
    std::size_t hosts = 0, devices = 0;
    std::optional<Token> without_network;
    do {
      const Token start = here();
      if (!opens_hosts())
        return wrong(start, "expected '(' but found " + quoted(start),
                     "write every host of a cluster in parentheses");
      Hosts& some = all.emplace_back();
      if (here().kind == TokenKind::kNumber) {
        EMPLACE_TRY_ASSIGN(some.count, count());
        ++next_;  // The 'x'.
      }
      const Token open = here();
      ++next_;
      EMPLACE_TRY_ASSIGN(some.groups, groups());
      if (!take(TokenKind::kClose)) {
        if (here().kind == TokenKind::kEnd) return wrong(open, "'(' is not closed", "add ')'");
        return wrong(here(), "expected ',' or ')' but found " + quoted(here()), "");
      }
      EMPLACE_TRY_ASSIGN(some.by, by());
      if (!some.by && !without_network) without_network = start;
      hosts += some.count;
      for (const Group& group : some.groups) devices += some.count * group.count;
      if (devices > kMaxDevices) return too_many(start, devices);
    } while (take(TokenKind::kComma));
    if (hosts > 1) without_network_ = without_network;
    return all;
  }

  Result<std::vector<Group>> groups() {
    std::vector<Group> all;
    std::size_t devices = 0;
    do {
      const Token start = here();
      Group group;
      bool counted = false;
      if (start.kind == TokenKind::kNumber) {
        EMPLACE_TRY_ASSIGN(group.count, count());
        counted = true;
        if (!take(TokenKind::kTimes))
          return wrong(here(), "expected 'x' behind the count but found " + quoted(here()),
                       "write e.g. \"4 x h100\"");
      }
      EMPLACE_TRY_ASSIGN(group.device, device());
      if (here().kind == TokenKind::kMemory) {
        EMPLACE_TRY_ASSIGN(group.memory_bytes, memory());
      }
      if (!counted && take(TokenKind::kTimes)) {
        if (here().kind != TokenKind::kNumber)
          return wrong(here(), "expected a count but found " + quoted(here()), "write e.g. \"h100 x 4\"");
        EMPLACE_TRY_ASSIGN(group.count, count());
      }
      EMPLACE_TRY_ASSIGN(group.by, by());
      devices += group.count;
      if (devices > kMaxDevices) return too_many(start, devices);
      all.push_back(group);
    } while (take(TokenKind::kComma));
    return all;
  }

  Error too_many(const Token& token, std::size_t devices) const {
    return wrong(token, fmt::format("{} devices exceed the limit of {}", devices, kMaxDevices), "");
  }

  Result<std::size_t> count() {
    const Token token = here();
    ++next_;
    std::size_t value = 0;
    const auto [end, failure] =
        std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    if (failure != std::errc{} || value < 1 || value > kMaxDevices)
      return wrong(token, "count " + printable(token.text, 20) + " is out of range", "use 1 to 256");
    return value;
  }

  Result<std::int64_t> memory() {
    const Token token = here();
    ++next_;
    const auto bytes = parse_bytes(token.text);
    if (!bytes || *bytes < 1)
      return wrong(token, quoted(token) + " is no memory", "write e.g. \"h100:60GiB x 4\"");
    return bytes;
  }

  Result<const CatalogueDevice*> device() {
    const Token token = here();
    if (token.kind == TokenKind::kOpen)
      return wrong(token, "parentheses cannot be within a host", "write one pair per kind of host");
    if (token.kind != TokenKind::kWord)
      return wrong(token, "expected a device but found " + quoted(token),
                   "write e.g. \"h100 x 4, epyc9654\"");
    ++next_;
    if (const CatalogueDevice* const known = known_device(token.text)) return known;
    const std::string_view near = nearest_device(token.text);
    return wrong(token, "device '" + printable(token.text, 40) + "' is unknown",
                 near.empty() ? "docs/reference/machines.md lists the known ones, and no file has this name"
                              : "did you mean '" + std::string{near} + "'?");
  }

  /// Reads "by LINK" if it is there.
  Result<std::optional<Link>> by() {
    if (!take(TokenKind::kBy)) return std::optional<Link>{};
    const Token token = here();
    if (token.kind != TokenKind::kWord)
      return wrong(token, "expected a link but found " + quoted(token), "write e.g. \"by nvlink4\"");
    ++next_;
    const auto link = find_link(token.text);
    if (!link) {
      const std::string& reason = link.error().context;  // "link 'x' is unknown; did you mean 'y'?"
      return wrong(token, reason, "");
    }
    return std::optional{link->link_of(costs_)};
  }

  std::string_view text_;
  std::vector<Token> tokens_;
  CostVersion costs_;
  std::size_t next_ = 0;
  std::optional<Token> without_network_;  // The first of several hosts that have none.
};

Link slower_of(const Link& a, const Link& b) { return a.bytes_per_s <= b.bytes_per_s ? a : b; }

/// A device of the machine, and where in the text it is from.
struct PlacedDevice {
  const CatalogueDevice* kind = nullptr;
  const Group* group = nullptr;
  const Hosts* hosts = nullptr;
  std::size_t host = 0;
};

Link link_between(const PlacedDevice& a, const PlacedDevice& b, CostVersion costs) {
  if (a.host == b.host) {
    if (a.group == b.group && a.group->by) return *a.group->by;
    return default_link(*a.kind, *b.kind, costs);
  }
  // The network, which no device can use faster than its host link.
  Link link = slower_of(*a.hosts->by, *b.hosts->by);
  const double host_rate = default_link(*a.kind, *b.kind, costs).bytes_per_s;
  if (host_rate < link.bytes_per_s) link.bytes_per_s = host_rate, link.name = {};
  return link;
}

}  // namespace

std::vector<SharedLink> nics_of(const DeviceSet& devices) {
  std::map<std::string, std::vector<DeviceId>> of_host;
  for (std::size_t d = 0; d < devices.size(); ++d)
    of_host[devices[static_cast<DeviceId>(d)].host].push_back(static_cast<DeviceId>(d));
  std::vector<SharedLink> nics;
  if (of_host.size() < 2) return nics;
  for (std::size_t d = 0; d < devices.size(); ++d) {  // In the order of the devices.
    const std::string& host = devices[static_cast<DeviceId>(d)].host;
    if (of_host[host].front() == static_cast<DeviceId>(d)) nics.push_back({host + "/nic", of_host[host], 1});
  }
  return nics;
}

Result<DeviceSet> parse_machine(std::string_view text, const Reserve& reserve, CostVersion costs) {
  EMPLACE_TRY_ASSIGN(const MachineText machine, MachineParser(text, Splitter{text}.tokens(), costs).parse());
  std::vector<PlacedDevice> placed;
  std::vector<Device> devices;
  std::size_t host = 0;
  for (const Hosts& hosts : machine.hosts) {
    for (std::size_t h = 0; h < hosts.count; ++h, ++host) {
      std::array<std::size_t, 2> numbers{};  // Next number of a GPU, and of a CPU.
      for (const Group& group : hosts.groups) {
        for (std::size_t i = 0; i < group.count; ++i) {
          const Profile& profile = group.device->profile_of(costs);
          Device& device = devices.emplace_back();
          device.host = machine.cluster ? fmt::format("host{}", host) : "";
          device.name = fmt::format("{}{}:{}", machine.cluster ? device.host + "/" : "", profile.kind,
                                    numbers[profile.kind == "cpu" ? 1 : 0]++);
          device.profile = profile;
          const std::int64_t memory = group.memory_bytes > 0 ? group.memory_bytes : profile.memory_bytes;
          device.memory_bytes = memory - reserve.of(memory);
          placed.push_back({group.device, &group, &hosts, host});
        }
      }
    }
  }
  std::vector<Link> links(placed.size() * placed.size());
  for (std::size_t s = 0; s < placed.size(); ++s)
    for (std::size_t t = 0; t < placed.size(); ++t)
      links[s * placed.size() + t] = link_between(placed[s], placed[t], costs);
  auto set = DeviceSet::make(std::move(devices), std::move(links));
  if (!set) return invalid("devices '" + printable(text, 80) + "'", set.error().context);
  return set->with_shared(nics_of(*set));
}

Result<DeviceSet> parse_recorded_devices(std::string_view recorded, std::string_view where,
                                         const Reserve& reserve, CostVersion costs) {
  // A device file has tables; a text has no bracket.
  if (recorded.find('[') != std::string_view::npos) return parse_devices(recorded, where, reserve);
  return parse_machine(recorded, reserve, costs);
}

}  // namespace emplace
