#include "launcher/status/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/file.h"
#include "tests/support/scratch_folder.h"

namespace emplace::launcher {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kToken = "c0ffee-c0ffee-c0ffee";

HttpRequest from(const std::string& host, const std::string& authorization = "",
                 const std::string& cookie = "") {
  HttpRequest request;
  request.method = "GET";
  request.path = "/";
  request.host = host;
  request.authorization = authorization;
  request.cookie = cookie;
  return request;
}

TEST(StatusAddress, IsAnIpAddressWithAPort) {
  const auto plain = parse_status_address("127.0.0.1:9090");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->address, "127.0.0.1");
  EXPECT_EQ(plain->port, 9090);
  EXPECT_TRUE(plain->loopback);
  EXPECT_EQ(parse_status_address(":9090")->address, "127.0.0.1");
  EXPECT_EQ(parse_status_address("localhost:0")->address, "127.0.0.1");
  EXPECT_EQ(parse_status_address("[::1]:80")->address, "::1");
  EXPECT_TRUE(parse_status_address("[::1]:80")->loopback);
  EXPECT_FALSE(parse_status_address("0.0.0.0:9090")->loopback);
  EXPECT_FALSE(parse_status_address("[::]:9090")->loopback);
  EXPECT_FALSE(parse_status_address("10.1.2.3:9090")->loopback);
  for (const char* wrong :
       {"", ":", "9090", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:80x",
        "example.org:80", "127.0.0.1.5:80", "[::1:80", "[::1]80", "::1:80"})
    EXPECT_FALSE(parse_status_address(wrong)) << wrong;
}

TEST(StatusToken, IsReadFromAPrivateFileAndNeverShown) {
  const emplace::testing::ScratchFolder folder{"status_token"};
  const std::filesystem::path file = folder.path() / "token";
  const auto written = [&](const std::string& text, mode_t mode) {
    EXPECT_TRUE(write_private_file(file, text));
    ::chmod(file.c_str(), mode);
    return load_status_token(file);
  };
  EXPECT_EQ(*written(std::string{kToken} + "\n", 0600), kToken);
  EXPECT_EQ(*written(kToken, 0400), kToken);
  for (const mode_t open : {0640, 0604, 0644}) {
    const auto refused = written(kToken, open);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::kInvalid);
    EXPECT_THAT(refused.error().context, HasSubstr("others may read"));
    EXPECT_THAT(refused.error().context, Not(HasSubstr("c0ffee")));
  }
  for (const char* wrong : {"", "short", "two words of a token", "two-lines-of-a\ntoken-are-not-one",
                            "t\xc3\xb6ken-with-umlauts-in-it"}) {
    const auto refused = written(wrong, 0600);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_THAT(refused.error().context, Not(HasSubstr("token-are"))) << wrong;
  }
  EXPECT_EQ(load_status_token(folder.path() / "absent").error().code, Errc::kIo);
}

TEST(Gate, ChecksOnlyTheHostWithoutAToken) {
  const Gate gate{"", {"Trainer.Example.org"}};
  for (const char* known : {"localhost", "localhost:9090", "LOCALHOST:1", "127.0.0.1:9090", "[::1]:9090",
                            "[::1]", "10.0.0.7:9090", "trainer.example.org", "trainer.example.org:9090"})
    EXPECT_EQ(gate.check(from(known)), Gate::Answer::kOpen) << known;
  for (const char* unknown :
       {"", "evil.example", "evil.example:9090", "localhost.evil.example", "127.0.0.1.nip.io",
        "trainer.example.org.evil.example", "[::1", "localhost:port", "127.0.0.1:9090:1", "@localhost"})
    EXPECT_EQ(gate.check(from(unknown)), Gate::Answer::kUnknownHost) << unknown;
}

TEST(Gate, TakesTheTokenFromABearerHeader) {
  const Gate gate{kToken, {}};
  EXPECT_EQ(gate.check(from("localhost")), Gate::Answer::kNoToken);
  EXPECT_EQ(gate.check(from("localhost", std::string{"Bearer "} + kToken)), Gate::Answer::kOpen);
  EXPECT_EQ(gate.check(from("localhost", std::string{"bearer "} + kToken)), Gate::Answer::kOpen);
  for (const std::string& wrong :
       {std::string{"Bearer"}, std::string{"Bearer "}, std::string{kToken}, "Basic " + std::string{kToken},
        "Bearer " + std::string{kToken} + "x", "Bearer " + std::string{kToken}.substr(1),
        "Bearer  " + std::string{kToken}})
    EXPECT_EQ(gate.check(from("localhost", wrong)), Gate::Answer::kNoToken) << wrong;
  // A valid token does not admit a rebound host name.
  EXPECT_EQ(gate.check(from("evil.example", std::string{"Bearer "} + kToken)), Gate::Answer::kUnknownHost);
}

TEST(Gate, GivesABrowserACookieThatDoesNotRevealTheToken) {
  const Gate gate{kToken, {}};
  EXPECT_EQ(gate.login("wrong-wrong-wrong-wrong"), "");
  EXPECT_EQ(gate.login(""), "");
  const std::string set = gate.login(kToken);
  EXPECT_THAT(set, HasSubstr("HttpOnly"));
  EXPECT_THAT(set, HasSubstr("SameSite=Strict"));
  EXPECT_THAT(set, Not(HasSubstr(kToken)));
  const std::string cookie = set.substr(0, set.find(';'));
  EXPECT_EQ(gate.check(from("localhost", "", cookie)), Gate::Answer::kOpen);
  EXPECT_EQ(gate.check(from("localhost", "", "a=b; " + cookie + "; c=d")), Gate::Answer::kOpen);
  EXPECT_EQ(gate.check(from("localhost", "", cookie + "0")), Gate::Answer::kNoToken);
  EXPECT_EQ(gate.check(from("localhost", "", "not" + cookie)), Gate::Answer::kNoToken);
  EXPECT_EQ(gate.check(from("localhost", "", std::string{"emplace="} + kToken)), Gate::Answer::kNoToken);
  // Another token gives another cookie.
  EXPECT_EQ((Gate{"another-token-of-a-run", {}}.check(from("localhost", "", cookie))),
            Gate::Answer::kNoToken);
}

TEST(Gate, RefusesLoginWithoutAToken) { EXPECT_EQ((Gate{"", {}}.login("")), ""); }

}  // namespace
}  // namespace emplace::launcher
