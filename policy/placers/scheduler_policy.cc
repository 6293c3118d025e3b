#include "policy/placers/scheduler_policy.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace emplace::policy {
namespace {

constexpr std::string_view kMagic = "emplace scheduler";
constexpr std::size_t kMaxHeader = 256;

/// Returns the next word of a header line; empty at its end.
std::string_view next_word(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(text.size(), end + 1));
  return word;
}

bool read_number(std::string_view& text, std::uint32_t low, std::uint32_t high, std::uint32_t& value) {
  const std::string_view word = next_word(text);
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc{} && end == word.data() + word.size() && value >= low && value <= high;
}

}  // namespace

Bytes SchedulerPolicy::bytes() const {
  std::string header{kMagic};
  for (const std::size_t each :
       {std::size_t{version}, static_cast<std::size_t>(shape.embedding), static_cast<std::size_t>(shape.code),
        shape.rounds, shape.founders, shape.improvers})
    header += " " + std::to_string(each);
  header += " " + store.sha256() + "\n";
  const auto text = std::as_bytes(std::span{header});
  Bytes all(text.begin(), text.end());
  all.insert(all.end(), store.bytes().begin(), store.bytes().end());
  return all;
}

std::string SchedulerPolicy::name() const {
  return "version " + std::to_string(version) + ", " + store.sha256().substr(0, 12);
}

Result<SchedulerPolicy> parse_scheduler(std::span<const std::byte> bytes, const std::string& where) {
  const auto line_end = std::find(
      bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(std::min(bytes.size(), kMaxHeader)),
      std::byte{'\n'});
  const auto length = static_cast<std::size_t>(line_end - bytes.begin());
  std::string_view line{reinterpret_cast<const char*>(bytes.data()), length};
  const Error foreign = invalid(where, "no weights of a scheduler policy", "make them with emplace train");
  if (length == bytes.size() || !line.starts_with(kMagic)) return foreign;
  line.remove_prefix(std::min(line.size(), kMagic.size() + 1));
  std::uint32_t version = 0, embedding = 0, code = 0, rounds = 0, founders = 0, improvers = 0;
  if (!read_number(line, 0, 1'000'000, version) || !read_number(line, 1, 4096, embedding) ||
      !read_number(line, 1, 4096, code) || !read_number(line, 0, 64, rounds) ||
      !read_number(line, 1, 1024, founders) || !read_number(line, 1, 1024, improvers))
    return invalid(where, "its header has not the sizes of this policy",
                   "it is damaged, or made by another version of emplace train; make it again");
  const std::string_view hash = next_word(line);
  SchedulerPolicy policy{
      {.embedding = embedding, .code = code, .rounds = rounds, .founders = founders, .improvers = improvers}};
  policy.version = version;
  const auto weights = bytes.subspan(length + 1);
  if (weights.size() != policy.store.size() * sizeof(float))
    return invalid(where,
                   "has " + std::to_string(weights.size()) + " bytes of weights, not " +
                       std::to_string(policy.store.size() * sizeof(float)),
                   "it is cut off, or made by another version of emplace train");
  EMPLACE_TRY(policy.store.load(weights));
  if (policy.store.sha256() != hash)
    return invalid(where, "its checksum does not match", "the file is damaged; copy or make it again");
  return policy;
}

Result<SchedulerPolicy> load_scheduler(const std::filesystem::path& path) {
  EMPLACE_TRY_ASSIGN(const Bytes bytes, read_file(path, std::size_t{1} << 26));
  return parse_scheduler(bytes, path.string());
}

const SchedulerPolicy& shipped_scheduler() {
  static const SchedulerPolicy policy = [] {
    auto parsed = parse_scheduler(std::as_bytes(std::span{kEmbeddedWeights}), "the weights in the program");
    EMPLACE_CHECK(parsed.ok(), "the program contains valid weights");
    return *std::move(parsed);
  }();
  return policy;
}

}  // namespace emplace::policy
