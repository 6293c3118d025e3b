#include "base/text/toml_reader.h"

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <algorithm>

#include "base/file.h"
#include "base/text/words.h"
#include "base/units.h"

namespace emplace {

struct TomlDocument::State {
  struct Visited {
    const toml::table* table;
    std::vector<std::string> known;  // Keys that somebody asked for.
  };
  std::string name;
  toml::table root;
  std::vector<Visited> visited;
  std::optional<Error> error;

  std::size_t visit(const toml::table& table) {
    for (std::size_t i = 0; i < visited.size(); ++i) {
      if (visited[i].table == &table) return i;
    }
    visited.push_back({&table, {}});
    return visited.size() - 1;
  }
  const toml::node* get(std::size_t number, std::string_view key) {
    auto& known = visited[number].known;
    if (std::find(known.begin(), known.end(), key) == known.end()) known.emplace_back(key);
    return visited[number].table->get(key);
  }
  std::string at(const toml::source_region& source) const {
    return name + ":" + std::to_string(source.begin.line);
  }
};

Result<TomlDocument> TomlDocument::parse(std::string_view text, std::string_view where) {
  toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return invalid(std::string{where} + ":" + std::to_string(error.source().begin.line),
                   "is not TOML: " + printable(error.description(), 160));
  }
  TomlDocument document;
  document.state_ = std::make_shared<State>();
  document.state_->name = where;
  document.state_->root = std::move(parsed).table();
  return document;
}

Result<TomlDocument> TomlDocument::load(const std::filesystem::path& path) {
  const auto bytes = read_file(path, std::size_t{16} << 20);
  if (!bytes) return bytes.error();
  return parse({reinterpret_cast<const char*>(bytes->data()), bytes->size()},
               printable(path.filename().string()));
}

TomlTable TomlDocument::root() { return {state_, state_->visit(state_->root)}; }

Result<Unit> TomlDocument::finish() {
  if (state_->error) return *state_->error;
  for (const State::Visited& visited : state_->visited) {
    for (const auto& [key, node] : *visited.table) {
      if (std::find(visited.known.begin(), visited.known.end(), key.str()) != visited.known.end()) continue;
      const std::vector<std::string_view> known(visited.known.begin(), visited.known.end());
      const std::string_view near = nearest_word(key.str(), known);
      std::string all;
      for (const std::string_view word : known) all.append(all.empty() ? "known keys: " : ", ").append(word);
      return invalid(state_->at(node.source()), "unknown key '" + printable(key.str(), 60) + "'",
                     near.empty() ? all : "did you mean '" + std::string{near} + "'?");
    }
  }
  return Unit{};
}

std::string TomlTable::where(std::string_view key) const {
  const toml::table& table = *state_->visited[number_].table;
  const toml::node* node = key.empty() ? nullptr : table.get(key);
  return state_->at(node != nullptr ? node->source() : table.source());
}

void TomlTable::fail(std::string_view key, std::string_view what, std::string_view cure) {
  if (state_->error) return;
  state_->error = invalid(
      where(key), key.empty() ? std::string{what} : "'" + std::string{key} + "' " + std::string{what}, cure);
}

std::optional<std::string> TomlTable::text(std::string_view key) {
  const toml::node* node = state_->get(number_, key);
  if (node == nullptr) return std::nullopt;
  if (const auto* value = node->as_string()) return value->get();
  return fail(key, "must be a text"), std::nullopt;
}

std::optional<double> TomlTable::number(std::string_view key) {
  const toml::node* node = state_->get(number_, key);
  if (node == nullptr) return std::nullopt;
  if (const auto* value = node->as_floating_point()) return value->get();
  if (const auto* value = node->as_integer()) return static_cast<double>(value->get());
  return fail(key, "must be a number"), std::nullopt;
}

std::optional<std::int64_t> TomlTable::integer(std::string_view key) {
  const toml::node* node = state_->get(number_, key);
  if (node == nullptr) return std::nullopt;
  if (const auto* value = node->as_integer()) return value->get();
  return fail(key, "must be a whole number"), std::nullopt;
}

std::optional<bool> TomlTable::boolean(std::string_view key) {
  const toml::node* node = state_->get(number_, key);
  if (node == nullptr) return std::nullopt;
  if (const auto* value = node->as_boolean()) return value->get();
  return fail(key, "must be true or false"), std::nullopt;
}

std::optional<std::vector<std::string>> TomlTable::texts(std::string_view key) {
  const toml::node* node = state_->get(number_, key);
  if (node == nullptr) return std::nullopt;
  std::vector<std::string> list;
  if (const auto* array = node->as_array()) {
    for (const toml::node& element : *array) {
      const auto* value = element.as_string();
      if (value == nullptr) return fail(key, "must be a list of texts"), std::nullopt;
      list.push_back(value->get());
    }
    return list;
  }
  return fail(key, "must be a list of texts"), std::nullopt;
}

template <class T, class Parse>
std::optional<T> TomlTable::unit(std::string_view key, Parse parse) {
  const toml::node* node = state_->get(number_, key);
  if (node == nullptr) return std::nullopt;
  const auto* value = node->as_string();
  if (value == nullptr)
    return fail(key, "must be a text with a unit", "write it like \"12GiB\", \"7.6GB/s\" or \"25us\""),
           std::nullopt;
  const auto parsed = parse(value->get());
  if (!parsed) return fail(key, "= " + parsed.error().context), std::nullopt;
  return *parsed;
}

std::optional<std::int64_t> TomlTable::bytes(std::string_view key) {
  return unit<std::int64_t>(key, parse_bytes);
}
std::optional<double> TomlTable::bytes_per_s(std::string_view key) {
  return unit<double>(key, parse_bytes_per_s);
}
std::optional<double> TomlTable::flops_per_s(std::string_view key) {
  return unit<double>(key, parse_flops_per_s);
}
std::optional<double> TomlTable::seconds(std::string_view key) { return unit<double>(key, parse_seconds); }

std::optional<TomlTable> TomlTable::table(std::string_view key) {
  const toml::node* node = state_->get(number_, key);
  if (node == nullptr) return std::nullopt;
  if (const auto* value = node->as_table()) return TomlTable{state_, state_->visit(*value)};
  return fail(key, "must be a table"), std::nullopt;
}

std::vector<TomlTable> TomlTable::tables(std::string_view key) {
  const toml::node* node = state_->get(number_, key);
  std::vector<TomlTable> list;
  if (node == nullptr) return list;
  const auto* array = node->as_array();
  if (array == nullptr)
    return fail(key, "must be a list of tables", "write [[" + std::string{key} + "]]"), list;
  for (const toml::node& element : *array) {
    const auto* value = element.as_table();
    if (value == nullptr)
      return fail(key, "must be a list of tables", "write [[" + std::string{key} + "]]"),
             std::vector<TomlTable>{};
    list.push_back(TomlTable{state_, state_->visit(*value)});
  }
  return list;
}

}  // namespace emplace
