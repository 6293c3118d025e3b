#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/text/words.h"
#include "graph/formats/emplace/emplace_graph.h"
#include "graph/formats/torch/aten_ops.h"

namespace emplace {
namespace {

using nlohmann::json;

// The MessagePack parser recurses; attributes need three or four levels.
constexpr std::size_t kMaxDepth = 64;
constexpr std::string_view kFormat = "emplace-graph v1";

/// Reads one op; the first error wins.
class OpReader {
 public:
  OpReader(const json& op, std::size_t id) : op_{op}, id_{id} {}

  Result<OpSpec> read() {
    if (!op_.is_object()) return fail("is not an object");
    OpSpec spec;
    spec.name = name_ = string("name", true);
    check_id();
    spec.type = string("type", true);
    if (const json* work = find("flops", false); work == nullptr || !work->is_null())
      spec.flops = integer("flops", 0);
    spec.param_bytes = integer("param_bytes", 0);
    spec.group = string("group", false);
    read_inputs(spec);
    read_outputs(spec);
    read_attrs(spec);
    read_phase(spec);
    read_colocate(spec);
    read_measured(spec);
    read_devices(spec);
    read_results(spec);
    if (!error_.empty()) return fail(error_);
    return spec;
  }

 private:
  Error fail(std::string_view what) const {
    std::string where = fmt::format("op {}", id_);
    if (!name_.empty()) where += " '" + printable(name_, 80) + "'";
    return invalid(where, what);
  }
  void note(std::string what) {
    if (error_.empty()) error_ = std::move(what);
  }

  /// The value of a key, or null if it is absent.
  const json* find(const char* key, bool required) {
    const auto it = op_.find(key);
    if (it != op_.end()) return &*it;
    if (required) note(std::string{"has no "} + key);
    return nullptr;
  }
  std::string string(const char* key, bool required) {
    const json* value = find(key, required);
    if (value == nullptr) return {};
    if (!value->is_string()) return note(std::string{key} + " is not a string"), std::string{};
    return value->get<std::string>();
  }
  std::int64_t whole(const json& value, const std::string& what) {
    constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (!value.is_number_integer()) return note(what + " is not a whole number of 64 bits"), 0;
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > kMax)
      return note(what + " is too large"), 0;
    return value.get<std::int64_t>();
  }
  std::int64_t integer(const char* key, std::int64_t otherwise) {
    const json* value = find(key, false);
    return value == nullptr ? otherwise : whole(*value, key);
  }
  std::uint32_t number(const json& value, const std::string& what) {
    const std::int64_t n = whole(value, what);
    if (n < 0 || n >= std::numeric_limits<std::uint32_t>::max()) return note(what + " is out of range"), 0;
    return static_cast<std::uint32_t>(n);
  }
  const json* array(const char* key, bool required) {
    const json* value = find(key, required);
    if (value != nullptr && !value->is_array()) return note(std::string{key} + " is not a list"), nullptr;
    return value;
  }
  const json* object(const char* key) {
    const json* value = find(key, false);
    if (value != nullptr && !value->is_object()) return note(std::string{key} + " is not an object"), nullptr;
    return value;
  }

  void check_id() {
    const json* value = find("id", true);
    if (value == nullptr) return;
    const std::int64_t id = whole(*value, "id");
    if (id == static_cast<std::int64_t>(id_)) return;
    const bool earlier = id >= 0 && id < static_cast<std::int64_t>(id_);
    note(fmt::format("has the id {}{}; ids must be 0, 1, 2, … in order", id,
                     earlier ? " of an earlier op" : ""));
  }
  void read_inputs(OpSpec& spec) {
    const json* inputs = array("inputs", true);
    if (inputs == nullptr) return;
    for (const json& input : *inputs) {
      if (!input.is_array() || input.size() != 2) return note("an input is not [producer id, output index]");
      spec.inputs.push_back(
          {number(input[0], "an input's producer"), number(input[1], "an input's output index")});
    }
  }
  void read_outputs(OpSpec& spec) {
    const json* outputs = array("outputs", true);
    if (outputs == nullptr) return;
    for (const json& output : *outputs) {
      if (!output.is_object()) return note("an output is not {dtype, shape}");
      const auto dtype = output.find("dtype"), shape = output.find("shape");
      if (dtype == output.end() || !dtype->is_string() || shape == output.end() || !shape->is_array()) {
        return note("an output is not {dtype, shape}");
      }
      const auto parsed = parse_dtype(dtype->get_ref<const std::string&>());
      if (!parsed) return note(parsed.error().context);
      TensorSpec tensor{*parsed, {}};
      for (const json& dim : *shape) tensor.shape.push_back(whole(dim, "a dimension"));
      spec.outputs.push_back(std::move(tensor));
    }
  }
  void read_attrs(OpSpec& spec) {
    const json* attrs = object("attrs");
    if (attrs == nullptr) return;
    spec.attrs_json = attrs->dump(-1, ' ', false, json::error_handler_t::replace);
    if (const auto view = attrs->find("view"); view != attrs->end()) spec.view = *view == json(true);
    if (const auto groups = attrs->find("groups"); groups != attrs->end() && groups->is_number_integer()) {
      spec.conv_groups = whole(*groups, "attrs.groups");
    }
  }
  void read_phase(OpSpec& spec) {
    const json* value = find("phase", false);
    if (value == nullptr) return;
    const auto phase = parse_phase(string("phase", false));
    if (!phase) return note(phase.error().context);
    spec.phase = *phase;
  }
  void read_colocate(OpSpec& spec) {
    const json* target = find("colocate", false);
    if (target != nullptr && !target->is_null()) spec.colocate = OpId{number(*target, "colocate")};
  }
  void read_measured(OpSpec& spec) {
    const json* measured = object("measured_us");
    if (measured == nullptr) return;
    for (const auto& [device_class, us] : measured->items()) {
      if (!us.is_number())
        return note("measured_us of '" + printable(device_class, 40) + "' is not a number");
      spec.measured_us.emplace_back(device_class, us.get<double>());
    }
  }
  void read_results(OpSpec& spec) {
    const json* results = array("results", false);
    if (results == nullptr) return;
    for (const json& output : *results) spec.results.push_back(number(output, "a result"));
  }
  void read_devices(OpSpec& spec) {
    const json* devices = array("devices", false);
    if (devices == nullptr) return;
    spec.has_allowed_devices = true;
    for (const json& device : *devices) {
      if (!device.is_string()) return note("devices is not a list of names");
      spec.allowed_devices.push_back(device.get<std::string>());
    }
  }

  const json& op_;
  const std::size_t id_;
  std::string name_;
  std::string error_;
};

/// An input iterator over the text that reports the parser's position.
class Cursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor(const char* at, const char** reached) : at_{at}, reached_{reached} {}
  reference operator*() const { return *at_; }
  Cursor& operator++() { return *reached_ = ++at_, *this; }
  Cursor operator++(int) {
    const Cursor before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Cursor& other) const { return at_ == other.at_; }
  bool operator!=(const Cursor& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

/// Receives the parser's events; collects one value at a time (an op, or a key beside `ops`) and discards it
/// after use.
class GraphSax {
 public:
  GraphSax(std::string_view text, std::string_view where)
      : text_{text}, where_{where}, reached_{text.data()} {}

  Result<OpGraph> read() {
    const char first = text_[std::min(text_.find_first_not_of(" \t\r\n"), text_.size() - 1)];
    const bool is_text = first == '{' || text_.starts_with("\xEF\xBB\xBF");
    const bool is_map =
        (static_cast<unsigned char>(first) & 0xf0) == 0x80 || first == '\xde' || first == '\xdf';
    if (!is_text && !is_map) return invalid(where_, "is neither JSON nor MessagePack");
    lines_ = is_text;
    bool complete = false;
    try {
      const char* end = text_.data() + text_.size();
      complete = is_text ? json::sax_parse(Cursor{text_.data(), &reached_}, Cursor{end, &reached_}, this)
                         : json::sax_parse(text_.data(), end, this, json::input_format_t::msgpack);
    } catch (const json::exception& error) {
      failure_ = invalid(where_, "is damaged: " + printable(error.what(), 160));
    }
    if (complete && !has_format_) return not_ours();
    if (failure_) return *failure_;
    if (!complete) return invalid(where_, "is damaged");
    if (!has_ops_) return invalid(where_, "has no list of ops");
    if (name_.empty()) name_ = std::filesystem::path{where_}.stem().string();
    for (const std::size_t op : to_count_) count(builder_[OpId{static_cast<std::uint32_t>(op)}]);
    if (!uncounted_.empty()) {
      json& listed = meta_["uncounted"];
      if (listed.is_array())
        for (const json& type : listed)
          if (type.is_string()) uncounted_.insert(type.get<std::string>());
      listed = uncounted_;
    }
    builder_.set_name(std::move(name_))
        .set_meta_json(meta_.dump(-1, ' ', false, json::error_handler_t::replace));
    auto graph = std::move(builder_).build();
    if (!graph) return invalid(where_, graph.error().context);
    return graph;
  }

  // Parser events; false ends the parse.
  bool null() {
    return scalar([](auto& dom) { return dom.null(); });
  }
  bool boolean(bool value) {
    return scalar([=](auto& dom) { return dom.boolean(value); });
  }
  bool number_integer(json::number_integer_t value) {
    return scalar([=](auto& dom) { return dom.number_integer(value); });
  }
  bool number_unsigned(json::number_unsigned_t value) {
    return scalar([=](auto& dom) { return dom.number_unsigned(value); });
  }
  bool number_float(json::number_float_t value, const std::string& text) {
    return scalar([&](auto& dom) { return dom.number_float(value, text); });
  }
  bool string(std::string& value) {
    return scalar([&](auto& dom) { return dom.string(value); });
  }
  bool binary(json::binary_t& value) {
    return scalar([&](auto& dom) { return dom.binary(value); });
  }
  bool key(std::string& name) {
    if (dom_) return dom_->key(name);
    key_ = name;
    return true;
  }
  bool start_object(std::size_t size) {
    if (depth_ == 0) return ++depth_, true;
    return enter() && dom_->start_object(size);
  }
  bool start_array(std::size_t size) {
    if (depth_ == 1 && key_ == "ops") {
      if (has_ops_) return fail("has two lists of ops");
      in_ops_ = has_ops_ = true;
      return ++depth_, true;
    }
    if (depth_ == 0) return not_ours_now();
    return enter() && dom_->start_array(size);
  }
  bool end_object() { return --depth_ == 0 || (dom_->end_object() && left()); }
  bool end_array() {
    if (--depth_ == 1 && in_ops_ && !dom_) return in_ops_ = false, true;
    return dom_->end_array() && left();
  }
  template <class Exception>
  bool parse_error(std::size_t, const std::string&, const Exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, …"
    const std::string_view text = error.what();
    const std::size_t skip = text.find("] ");
    const std::string why = printable(skip == std::string_view::npos ? text : text.substr(skip + 2), 160);
    return fail((lines_ ? "is not JSON: " : "is not MessagePack: ") + why);
  }

 private:
  using Dom = nlohmann::detail::json_sax_dom_parser<json>;

  Error not_ours() const {
    return invalid(where_, "is not an emplace graph",
                   "its `format` must be \"emplace-graph v1\"; `emplace import` reads other formats");
  }
  bool not_ours_now() { return failure_ = not_ours(), false; }
  bool fail(std::string_view what) { return failure_ = invalid(where_, what), false; }

  bool begin_value() {
    if (depth_ == 0) return not_ours_now();
    if (depth_ == 1 && key_ == "ops") return fail("`ops` is not a list");
    value_ = json{};
    dom_.emplace(value_, /*allow_exceptions=*/false);
    started_ = reached_;
    return true;
  }
  bool enter() {
    if (!dom_ && !begin_value()) return false;
    return ++depth_ <= kMaxDepth || fail(fmt::format("is nested deeper than {} levels", kMaxDepth));
  }
  template <class Event>
  bool scalar(Event event) {
    const bool whole_value = !dom_;
    if (whole_value && !begin_value()) return false;
    return event(*dom_) && (!whole_value || finish());
  }
  bool left() { return depth_ > (in_ops_ ? 2u : 1u) || finish(); }

  bool finish() {
    dom_.reset();
    return in_ops_ ? finish_op() : finish_head();
  }
  bool finish_op() {
    if (failure_) return true;  // After a failure, read on only to check the format.
    auto op = OpReader{value_, builder_.size()}.read();
    if (op) {
      if (const auto work = value_.find("flops"); work != value_.end() && work->is_null())
        to_count_.push_back(builder_.size());
      return builder_.add(*std::move(op)), true;
    }
    failure_ = invalid(here(), op.error().context);
    return !has_format_;
  }
  /// Counts the work of an op of torch that the file leaves to the table of op kinds. All ops are there: an
  /// op may read one that is listed after it.
  void count(OpSpec& op) {
    std::vector<AtenTensor> inputs;
    for (const EdgeSpec& edge : op.inputs) {
      if (edge.op >= builder_.size()) return;  // An error of build().
      const std::vector<TensorSpec>& made = builder_[OpId{edge.op}].outputs;
      if (edge.output >= made.size()) return;
      inputs.push_back({edge, made[edge.output]});
    }
    const auto work = aten_work(op, std::move(inputs));
    op.flops = work.value_or(0);
    if (!work) uncounted_.insert(op.type);
  }
  bool finish_head() {
    const auto text = [&](std::string& target) {
      if (!value_.is_string()) return fail(key_ + " is not a string");
      target = value_.get<std::string>();
      return true;
    };
    if (key_ == "format") return has_format_ = value_ == kFormat, has_format_ || not_ours_now();
    if (key_ == "name") return text(name_);
    if (key_ == "source") {
      std::string source;
      return text(source) && (builder_.set_source(std::move(source)), true);
    }
    if (key_ == "meta") {
      if (!value_.is_object()) return fail("meta is not an object");
      meta_ = std::move(value_);
    }
    return true;
  }
  /// "file:line" of the last value; without a line in MessagePack.
  std::string here() const {
    if (!lines_) return std::string{where_};
    return fmt::format("{}:{}", where_, 1 + std::count(text_.data(), started_, '\n'));
  }

  const std::string_view text_, where_;
  const char* reached_;
  const char* started_ = nullptr;
  OpGraphBuilder builder_;
  std::string name_, key_;
  std::size_t depth_ = 0;  // Number of open objects and lists.
  bool lines_ = false, has_format_ = false, has_ops_ = false, in_ops_ = false;
  json value_, meta_ = json::object();
  std::vector<std::size_t> to_count_;  // Ops whose work the file leaves to the table of op kinds.
  std::set<std::string> uncounted_;    // Types of ops that it cannot count.
  std::optional<Dom> dom_;             // Set while inside a value.
  std::optional<Error> failure_;
};

}  // namespace

Result<OpGraph> read_emplace_graph(std::span<const std::byte> bytes, std::string_view where) {
  if (bytes.empty()) return invalid(where, "is empty");
  return GraphSax{{reinterpret_cast<const char*>(bytes.data()), bytes.size()}, where}.read();
}

}  // namespace emplace
