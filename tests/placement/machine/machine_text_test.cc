// Goal: a text of catalogue names is the machine that it describes, and a wrong text gives one line with a
// position. Method: texts and their devices and links; every rule of the grammar broken once.
#include "placement/machine/machine_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "placement/machine/catalogue.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

DeviceSet machine_of_text(std::string_view text) {
  const auto machine = parse_machine(text, {}, CostVersion::k1);
  EXPECT_TRUE(machine.ok()) << text << ": " << machine.error().context;
  return machine.value();
}

std::vector<std::string> names_in(const DeviceSet& machine) {
  std::vector<std::string> names;
  for (const Device& device : machine.devices()) names.push_back(device.name);
  return names;
}

double rate(const DeviceSet& machine, std::string_view from, std::string_view to) {
  return machine.link(*machine.find(from), *machine.find(to)).bytes_per_s;
}

TEST(MachineText, NamesDevicesByKindInTheOrderOfTheText) {
  const DeviceSet machine = machine_of_text("h100 x 2, epyc9654, rtx4090");
  EXPECT_THAT(names_in(machine), ElementsAre("gpu:0", "gpu:1", "cpu:0", "gpu:2"));
  EXPECT_EQ(machine[DeviceId{0}].profile, *find_profile("h100"));
  EXPECT_EQ(machine[DeviceId{2}].profile, *find_profile("epyc9654"));
  EXPECT_EQ(machine[DeviceId{3}].memory_bytes, find_profile("rtx4090")->memory_bytes);
  EXPECT_EQ(machine[DeviceId{0}].host, "");
  EXPECT_TRUE(nics_of(machine).empty());
}

TEST(MachineText, AMemoryBehindADeviceReplacesThatOfTheCatalogue) {
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  for (const char* text :
       {"rtx4090:3GiB x 2, ryzen7950x", "2 x rtx4090:3GiB, ryzen7950x", "rtx4090:3GiBx2,ryzen7950x"}) {
    SCOPED_TRACE(text);
    const DeviceSet machine = machine_of_text(text);
    EXPECT_THAT(names_in(machine), ElementsAre("gpu:0", "gpu:1", "cpu:0"));
    EXPECT_EQ(machine[DeviceId{1}].memory_bytes, 3 * kGiB);
    EXPECT_EQ(machine[DeviceId{2}].memory_bytes, find_profile("ryzen7950x")->memory_bytes);
  }
  const DeviceSet cluster = machine_of_text("2 x (h100:60GiB x 2 by nvlink4) by ib-ndr");
  EXPECT_EQ(cluster[DeviceId{3}].memory_bytes, 60 * kGiB);
  const Reserve reserve = parse_reserve("1GiB").value();
  EXPECT_EQ((*parse_machine("h100:60GiB", reserve))[DeviceId{0}].memory_bytes, 59 * kGiB);
  for (const char* wrong : {"h100:", "h100:60", "h100:0B", "h100:60GiB:3GiB", "h100:-1GiB"}) {
    const auto refused = parse_machine(wrong);
    ASSERT_FALSE(refused.ok()) << wrong;
    EXPECT_THAT(refused.error().context, HasSubstr("letter 6")) << wrong;
  }
}

TEST(MachineText, LinksByTheSlowerHostLink) {
  const DeviceSet machine = machine_of_text("h100 x 2, epyc7742, v100");
  EXPECT_EQ(rate(machine, "gpu:0", "gpu:1"), 50e9);
  EXPECT_EQ(rate(machine, "gpu:0", "cpu:0"), 25e9);
  EXPECT_EQ(rate(machine, "cpu:0", "gpu:2"), 12e9);
}

TEST(MachineText, ByReplacesTheLinksAmongAGroup) {
  const DeviceSet machine = machine_of_text("h100 x 2 by nvlink4, h100, epyc9654");
  EXPECT_EQ(rate(machine, "gpu:0", "gpu:1"), 400e9);
  EXPECT_EQ(rate(machine, "gpu:1", "gpu:0"), 400e9);
  EXPECT_EQ(rate(machine, "gpu:0", "gpu:2"), 50e9) << "another group";
  EXPECT_EQ(rate(machine, "gpu:0", "cpu:0"), 50e9);
}

TEST(MachineText, EachHostHasANetworkCard) {
  const DeviceSet machine = machine_of_text("2 x (h100 x 2 by nvlink4, epyc9654) by ib-ndr");
  EXPECT_THAT(names_in(machine), ElementsAre("host0/gpu:0", "host0/gpu:1", "host0/cpu:0", "host1/gpu:0",
                                             "host1/gpu:1", "host1/cpu:0"));
  EXPECT_EQ(machine[DeviceId{4}].host, "host1");
  EXPECT_EQ(rate(machine, "host1/gpu:0", "host1/gpu:1"), 400e9);
  EXPECT_EQ(rate(machine, "host0/gpu:0", "host1/gpu:0"), 46e9);
  EXPECT_EQ(machine.link(DeviceId{0}, DeviceId{3}).latency_s, known_link("ib-ndr")->link.latency_s);
  const std::vector<SharedLink> nics = nics_of(machine);
  ASSERT_EQ(nics.size(), 2u);
  EXPECT_EQ(nics[0].name, "host0/nic");
  EXPECT_THAT(nics[0].devices, ElementsAre(DeviceId{0}, DeviceId{1}, DeviceId{2}));
  EXPECT_THAT(nics[1].devices, ElementsAre(DeviceId{3}, DeviceId{4}, DeviceId{5}));
  EXPECT_EQ(nics[1].engines, 1u);
  ASSERT_EQ(machine.shared().size(), 2u);
  EXPECT_EQ(machine.shared()[1].name, "host1/nic");
  EXPECT_TRUE(machine_of_text("h100 x 2").is_simple());
}

TEST(MachineText, DifferentHostsUseTheSlowerNetworkAndNoMoreThanTheirHostLink) {
  const DeviceSet machine =
      machine_of_text("2 x (h100) by ib-ndr, 1 x (v100) by ethernet-25, (k40) by ib-xdr");
  EXPECT_EQ(machine.size(), 4u);
  EXPECT_EQ(rate(machine, "host0/gpu:0", "host1/gpu:0"), 46e9);
  EXPECT_EQ(rate(machine, "host0/gpu:0", "host2/gpu:0"), 2.9e9);
  EXPECT_EQ(rate(machine, "host0/gpu:0", "host3/gpu:0"), 12e9) << "the K40's PCIe";
}

TEST(MachineText, SingleHostInParenthesesNeedsNoNetwork) {
  const DeviceSet machine = machine_of_text("(h100 x 2)");
  EXPECT_THAT(names_in(machine), ElementsAre("host0/gpu:0", "host0/gpu:1"));
  EXPECT_TRUE(nics_of(machine).empty());
}

TEST(MachineText, IgnoresSpacesCaseAndOrderOfTheCount) {
  const std::string wanted = machine_of_text("2 x (h100 x 8 by nvlink4, mi250x x 2) by ib-ndr").sha256();
  for (const char* text :
       {"2x(h100x8 by nvlink4,mi250xx2)by ib-ndr", " 2 x( H100 X 8 by NVLINK-4 , MI250X x2 ) by IB_NDR ",
        "2x (8 x h100 by nvlink4, 2xmi250x) by ib-ndr", "2 x(h100 x8 by nvlink4,mi250x x 2)by ib-ndr\n"})
    EXPECT_EQ(machine_of_text(text).sha256(), wanted) << text;
  EXPECT_EQ(machine_of_text("h100x 4").size(), 4u);
  EXPECT_EQ(machine_of_text("threadripper3990x").size(), 1u);
  EXPECT_EQ(machine_of_text("rx7900xtx x 2").size(), 2u);
  EXPECT_EQ(machine_of_text("h100 x 256").size(), 256u);
}

TEST(MachineText, SubtractsTheReserve) {
  const auto share = parse_machine("h100, epyc9654", *parse_reserve("10%"));
  const auto size = parse_machine("h100, epyc9654", *parse_reserve("2GiB"));
  ASSERT_TRUE(share.ok() && size.ok());
  const std::int64_t whole = std::int64_t{80} << 30;
  EXPECT_EQ((*share)[DeviceId{0}].memory_bytes, whole - whole / 10);
  EXPECT_EQ((*size)[DeviceId{0}].memory_bytes, std::int64_t{78} << 30);
  const auto nothing_left = parse_machine("k40", *parse_reserve("12GiB"));
  ASSERT_FALSE(nothing_left.ok());
  EXPECT_THAT(nothing_left.error().context, HasSubstr("memory must be above zero"));
}

TEST(MachineText, RecordIsAFileOrAText) {
  const auto hash = [](std::string_view recorded, CostVersion costs) {
    const auto devices = parse_recorded_devices(recorded, "run.db", {}, costs);
    EXPECT_TRUE(devices.ok()) << devices.error().context;
    return devices.ok() ? devices->sha256() : "";
  };
  const std::string file = "[[device]]\nprofile = \"h100\"\ncount = 2\n";
  const std::string first = hash("h100 x 2", CostVersion::k1), second = hash("h100 x 2", CostVersion::k2);
  EXPECT_NE(first, second) << "the version determines times";
  for (const CostVersion costs : {CostVersion::k1, CostVersion::k2}) {
    EXPECT_EQ(hash(file, costs), first) << "a file without a version has the first one";
    EXPECT_EQ(hash("costs = 1\n" + file, costs), first);
    EXPECT_EQ(hash("costs = 2\n" + file, costs), second) << "a file states its own";
  }
}

TEST(MachineText, APersonsTextHasTheCurrentCosts) {
  const DeviceSet machine = parse_machine("h100, epyc9654").value();
  EXPECT_EQ(machine[DeviceId{0}].profile, *find_profile("h100", CostVersion::k2));
  EXPECT_EQ(machine[DeviceId{1}].profile, *find_profile("epyc9654", CostVersion::k2));
  EXPECT_EQ(parse_machine("h100", {}, CostVersion::k1)->devices()[0].profile, *find_profile("h100"))
      << "a profile of a file without a version";
}

TEST(MachineText, ErrorsAreOneLineWithAPosition) {
  const auto refused = [](std::string_view text, std::string_view with) {
    const auto machine = parse_machine(text);
    ASSERT_FALSE(machine.ok()) << text;
    EXPECT_EQ(machine.error().code, Errc::kInvalid);
    EXPECT_THAT(machine.error().context, HasSubstr(std::string{with})) << text;
    EXPECT_EQ(machine.error().context.find('\n'), std::string::npos) << text;
  };
  refused("", "is empty");
  refused("  ", "is empty");
  refused("h10", "letter 1: device 'h10' is unknown; did you mean 'h100'?");
  refused("h100 x 2, epic9654", "letter 11: device 'epic9654' is unknown; did you mean 'epyc9654'?");
  refused("zzzzzzzzzzzzzzzz", "machines.md");
  refused("h100 x 0", "letter 8: count 0 is out of range; use 1 to 256");
  refused("h100 x 257", "letter 8: count 257 is out of range");
  refused("h100 x 99999999999999999999999", "is out of range");
  refused("h100 x 200, v100 x 57", "letter 13: 257 devices exceed the limit of 256");
  refused("33 x (h100 x 8) by ib-ndr", "letter 1: 264 devices exceed the limit of 256");
  refused("0 x (h100) by ib-ndr", "letter 1: count 0");
  refused("h100 x", "letter 7: expected a count but found the end of the text");
  refused("h100 x many", "expected a count but found 'many'");
  refused("h100 x 2 by", "letter 12: expected a link but found the end of the text");
  refused("h100 x 2 by nvlnk4", "letter 13: link 'nvlnk4' is unknown; did you mean 'nvlink4'?");
  refused("h100,", "letter 6: expected a device but found the end of the text");
  refused(", h100", "letter 1: expected a device but found ','");
  refused("h100 h100", "letter 6: expected ',' or the end of the text");
  refused("2 x (h100 x 8 by ib-ndr", "letter 5: '(' is not closed");
  refused("2 x (h100 x 8)) by ib-ndr", "letter 15: ')' has no '('");
  refused("h100 x 8) by ib-ndr", "letter 9: ')' has no '('");
  refused("2 x ((h100))", "letter 6: parentheses cannot be within a host");
  refused("2 x (h100 x 8)", "letter 1: several hosts need a network");
  refused("(h100) by ib-ndr, h100", "letter 19: expected '('");
  refused("2 h100", "letter 3: expected 'x' behind the count");
  refused("nvlink4", "device 'nvlink4' is unknown");
  refused(std::string(300, '('), "parentheses cannot be within a host");
  refused("h100\x1b[2J", "is unknown");
}

}  // namespace
}  // namespace emplace
