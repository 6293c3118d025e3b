#include "placement/machine/catalogue.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <initializer_list>
#include <sstream>
#include <utility>

#include "base/text/toml_reader.h"
#include "base/text/words.h"

namespace emplace {
namespace {

struct Catalogue {
  std::vector<CatalogueDevice> devices;
  std::vector<CatalogueLink> links;
};

/// Reads the keys that the table has; the other values stay.
void read_keys(TomlTable& table, std::initializer_list<std::pair<std::string_view, std::string*>> texts,
               std::initializer_list<std::pair<std::string_view, double*>> numbers) {
  for (const auto& [key, value] : texts)
    if (auto text = table.text(key)) *value = *std::move(text);
  for (const auto& [key, value] : numbers)
    if (const auto number = table.number(key)) *value = *number;
}

void read_efficiencies(TomlTable& table, Profile& profile) {
  auto& [state, view, matmul, conv, conv_grouped, norm, reduce, gather, elementwise] = profile.efficiency;
  read_keys(table, {},
            {{"bandwidth_efficiency", &profile.bandwidth_efficiency},
             {"launch_us", &profile.launch_us},
             {"matmul", &matmul},
             {"conv", &conv},
             {"conv_grouped", &conv_grouped},
             {"rest", &norm}});
  state = view = 1;
  reduce = gather = elementwise = norm;
}

/// The memory that a program can use of `gib`: all, or a share, in whole MiB.
std::int64_t usable_bytes(double gib, std::optional<double> share) {
  const std::int64_t bytes = std::llround(gib * 1073741824 * share.value_or(1));
  return share ? bytes >> 20 << 20 : bytes;
}

/// Reads what cost version 2 adds to a profile of version 1. `known` has the values of the row's base; those
/// of the table replace them.
void read_version_2(TomlTable& row, const Profile& known, CatalogueDevice& device) {
  Profile& p = device.profile_2;
  p = device.profile;
  p.cost_version = CostVersion::k2;
  p.peaks_gflops = known.peaks_gflops;
  p.l2_bytes = known.l2_bytes;
  p.tables = known.tables;
  p.family = known.family;
  auto table = row.table("v2");
  if (!table) return;
  for (const auto& [arithmetic, word] : enum_words(Arithmetic{}).words)
    if (const auto peak = table->number(std::string{word} + "_gflops"))
      p.peaks_gflops[static_cast<std::size_t>(arithmetic)] = *peak;
  if (const auto mib = table->number("l2_mib")) p.l2_bytes = std::llround(*mib * 1048576);
  if (auto tables = table->texts("tables")) p.tables = *std::move(tables);
  if (const auto units = table->integer("units")) device.units = static_cast<std::uint32_t>(*units);
  read_keys(*table, {{"family", &p.family}, {"source", &device.source_2}}, {});
}

/// @pre a device of the name `base` is among those read before.
CatalogueDevice read_device(TomlTable& table, std::vector<TomlTable>& priors,
                            const std::vector<CatalogueDevice>& before) {
  CatalogueDevice device;
  const auto base = table.text("base");
  if (base) {
    device = *std::find_if(before.begin(), before.end(),
                           [&](const CatalogueDevice& known) { return known.profile.name == *base; });
    device.alias = device.reported = {};
  }
  Profile& p = device.profile;
  read_keys(table,
            {{"name", &p.name},
             {"alias", &device.alias},
             {"title", &device.title},
             {"matrix", &device.matrix},
             {"host_link", &device.host_link},
             {"reported", &device.reported},
             {"source", &device.source}},
            {{"peak_gflops", &p.peak_gflops}, {"bandwidth_gbs", &p.bandwidth_gbs}});
  p.matrix_peak_gflops =
      table.number("matrix_peak_gflops").value_or(base ? p.matrix_peak_gflops : p.peak_gflops);
  if (const auto family = table.text("family")) device.family = parse_word<DeviceFamily>(*family).value();
  p.kind = word_of(device.family).starts_with("CPU") ? "cpu" : "gpu";
  const auto share = table.number("usable");
  if (const auto gib = table.number("memory_gib")) p.memory_bytes = usable_bytes(*gib, share);
  if (const auto cores = table.integer("cores")) device.cores = static_cast<std::uint32_t>(*cores);
  const auto prior = table.text("prior");
  for (TomlTable& known : priors)
    if (known.text("family") == prior) read_efficiencies(known, p);
  read_efficiencies(table, p);
  if (const auto since = table.integer("since"))
    device.since = parse_word<CostVersion>(std::to_string(*since)).value();
  read_version_2(table, Profile{device.profile_2}, device);
  return device;
}

Catalogue read_catalogue() {
  TomlDocument document = TomlDocument::parse(kCatalogueToml, "catalogue.toml").value();
  TomlTable root = document.root();
  Catalogue read;
  std::vector<TomlTable> priors = root.tables("prior");
  for (TomlTable& table : root.tables("device"))
    read.devices.push_back(read_device(table, priors, read.devices));
  for (TomlTable& table : root.tables("link")) {
    CatalogueLink& link = read.links.emplace_back();
    read_keys(table, {{"name", &link.name}, {"title", &link.title}, {"source", &link.source}},
              {{"bytes_per_s", &link.link.bytes_per_s}, {"latency_s", &link.link.latency_s}});
    link.link_2 = link.link;
    if (auto measured = table.table("v2"))
      read_keys(*measured, {{"source", &link.source_2}},
                {{"bytes_per_s", &link.link_2.bytes_per_s}, {"latency_s", &link.link_2.latency_s}});
  }
  document.finish().value();
  for (CatalogueLink& link : read.links) link.link_2.name = link.name;  // They stay where they are.
  return read;
}

const Catalogue& catalogue() {
  static const Catalogue read = read_catalogue();
  return read;
}

/// A name without differences of case and separators.
std::string folded(std::string_view name) {
  std::string text;
  for (const char c : name)
    if (c != '-' && c != '_') text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// The words of a reported name, in lower case: letters and digits.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool within = false;
  for (const char c : text) {
    const bool part = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (part && !within) words.emplace_back();
    if (part) words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    within = part;
  }
  return words;
}

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Number of words of `pattern` ("k40m|k40c" is either) that `words` has; 0 unless it has all.
std::size_t matched_words(const std::string& pattern, const std::vector<std::string>& words) {
  std::size_t matched = 0;
  std::istringstream wanted{pattern};
  for (std::string any; wanted >> any; ++matched)
    if (std::none_of(words.begin(), words.end(), [&](const std::string& word) {
          return ("|" + any + "|").find("|" + word + "|") != std::string::npos;
        }))
      return 0;
  return matched;
}

/// Whether the name is of another variant of the device, whose rates differ.
bool is_other_variant(std::string_view pattern, const std::vector<std::string>& words) {
  constexpr std::array<std::string_view, 6> kVariants{"ti", "super", "laptop", "mobile", "max", "ada"};
  const std::vector<std::string> known = words_of(pattern);
  return std::any_of(kVariants.begin(), kVariants.end(), [&](std::string_view variant) {
    return contains(words, variant) && !contains(known, variant);
  });
}

/// The cure of an unknown name: the nearest one, or where all are.
std::string nearest_or_list(std::string_view near) {
  return near.empty() ? "docs/reference/machines.md lists the known ones"
                      : "did you mean '" + std::string{near} + "'?";
}

}  // namespace

std::span<const CatalogueDevice> catalogue_devices() { return catalogue().devices; }
std::span<const CatalogueLink> catalogue_links() { return catalogue().links; }

const CatalogueDevice* known_device(std::string_view name) {
  const std::string wanted = folded(name);
  for (const CatalogueDevice& device : catalogue_devices())
    if (folded(device.profile.name) == wanted || (!device.alias.empty() && folded(device.alias) == wanted))
      return &device;
  return nullptr;
}

const CatalogueLink* known_link(std::string_view name) {
  const std::string wanted = folded(name);
  for (const CatalogueLink& link : catalogue_links())
    if (folded(link.name) == wanted) return &link;
  return nullptr;
}

std::string_view nearest_device(std::string_view name) {
  std::vector<std::string_view> names;
  for (const CatalogueDevice& device : catalogue_devices()) {
    names.push_back(device.profile.name);
    if (!device.alias.empty()) names.push_back(device.alias);
  }
  return nearest_word(name, names);
}

Result<Profile> find_profile(std::string_view name, CostVersion costs) {
  if (const CatalogueDevice* const device = known_device(name)) return device->profile_of(costs);
  return invalid("profile '" + printable(name, 60) + "'", "is unknown",
                 nearest_or_list(nearest_device(name)));
}

Result<CatalogueLink> find_link(std::string_view name) {
  if (const CatalogueLink* const link = known_link(name)) return *link;
  std::vector<std::string_view> names;
  for (const CatalogueLink& link : catalogue_links()) names.push_back(link.name);
  return invalid("", "link '" + printable(name, 60) + "' is unknown",
                 nearest_or_list(nearest_word(name, names)));
}

const CatalogueDevice* recognised_device(std::string_view reported, std::int64_t memory_bytes) {
  const std::vector<std::string> words = words_of(reported);
  const CatalogueDevice* best = nullptr;
  std::size_t best_words = 0;
  double best_distance = 0;
  for (const CatalogueDevice& device : catalogue_devices()) {
    const std::size_t matched = matched_words(device.reported, words);
    if (matched == 0 || is_other_variant(device.reported, words)) continue;
    const double known = static_cast<double>(device.profile.memory_bytes);
    const double distance = memory_bytes == 0 ? 0 : std::abs(static_cast<double>(memory_bytes) / known - 1);
    // A GPU with another amount of memory is another product: the RTX 3060 with 8 GB has a narrower bus.
    if (distance > 0.15) continue;
    if (best != nullptr && (matched < best_words || (matched == best_words && distance >= best_distance)))
      continue;
    best = &device;
    best_words = matched;
    best_distance = distance;
  }
  return best;
}

Link default_link(const CatalogueDevice& a, const CatalogueDevice& b, CostVersion costs) {
  const Link x = known_link(a.host_link)->link_of(costs), y = known_link(b.host_link)->link_of(costs);
  return x.bytes_per_s <= y.bytes_per_s ? x : y;
}

}  // namespace emplace
