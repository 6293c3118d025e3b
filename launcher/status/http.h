#pragma once
/// Requests and replies of the status port, as plain values.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace emplace::launcher {

struct HttpRequest {
  std::string method;                        ///< "GET"
  std::string path;                          ///< "/status.json", without the query; not decoded.
  std::map<std::string, std::string> query;  ///< Decoded names and values; of equal names the last counts.
  std::string host;                          ///< The Host header, with its port.
  std::string authorization, cookie, body;
  bool accepts_gzip = false;
};

struct HttpReply {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::shared_ptr<const std::string> body;  ///< Null: empty.
  std::vector<std::pair<std::string, std::string>> headers;
  bool stream = false;  ///< An endless stream of server-sent events instead of `body`.
};

/// Receives a reply. Thread: any, also after the client has left or the server has ended.
using Respond = std::function<void(HttpReply)>;

/// Makes a reply of one text.
HttpReply reply(int status, std::string type, std::string body);
/// Makes a reply of one line for people and scripts; appends the newline.
HttpReply line_reply(int status, std::string_view line);

/// Splits the target of a request into `path` and `query`. Malformed escapes stay as they are.
void parse_target(std::string_view target, HttpRequest& request);
/// Decodes application/x-www-form-urlencoded text, such as a query or the body of a form.
std::map<std::string, std::string> parse_form(std::string_view text);

/// One event of a stream. A newer event of the same name replaces one that a slow reader has not got yet.
struct HttpEvent {
  std::string name;
  std::string data;  ///< One line.
};

}  // namespace emplace::launcher
