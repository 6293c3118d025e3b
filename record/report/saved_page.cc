#include "record/report/saved_page.h"

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "record/report/html.h"
#include "record/report/page_files.h"

namespace emplace::record {
namespace {

std::string csp_hash(std::string_view script) {
  const Sha256Digest digest = sha256(std::as_bytes(std::span{script}));
  return "'sha256-" + to_base64(std::as_bytes(std::span{digest})) + "'";
}

/// Replaces the placeholders of the template. Inserted text is not scanned again.
std::string filled(std::string_view skeleton, const std::map<std::string, std::string, std::less<>>& parts) {
  std::string out;
  while (!skeleton.empty()) {
    const std::size_t begin = skeleton.find("{{"), end = skeleton.find("}}", begin);
    out.append(skeleton.substr(0, begin));
    if (end == std::string_view::npos) break;
    out += parts.at(std::string{skeleton.substr(begin + 2, end - begin - 2)});
    skeleton.remove_prefix(end + 2);
  }
  return out;
}

}  // namespace

std::string_view without_source_map(std::string_view script) {
  return script.substr(0, script.rfind("//# sourceMappingURL="));
}

std::string saved_page(std::string_view title, std::string_view body, const nlohmann::json& data,
                       std::span<const std::string_view> scripts) {
  std::string hashes, elements;
  for (const std::string_view script : scripts) {
    hashes += (hashes.empty() ? "" : " ") + csp_hash(script);
    elements += element("script", script) + "\n";
  }
  return filled(page::kHtml, {{"hashes", std::move(hashes)},
                              {"title", std::string{title}},
                              {"css", std::string{page::kCss}},
                              {"body", std::string{body}},
                              {"data", inert(data)},
                              {"scripts", std::move(elements)}});
}

}  // namespace emplace::record
