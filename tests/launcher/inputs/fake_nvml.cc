// A library with the functions of NVML that emplace calls. EMPLACE_FAKE_NVML describes its GPUs, separated by
// ';': NAME|TOTAL_MIB|FREE_MIB|CORES|SM_MHZ|BUS_BITS|MEMORY_MHZ, and optionally |ARCHITECTURE|LINKS|UUID,
// where LINKS is a text with a letter for each NVLink: the number of the GPU at its other end, 's' for a
// switch, '-' for a link that is down. "broken": it cannot start. EMPLACE_FAKE_NVML_CUT_OFF="01": GPUs 0 and
// 1 cannot read each other's memory.
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct FakeGpu {
  std::string name;
  unsigned long long total = 0, free = 0;
  unsigned cores = 0, sm_mhz = 0, bus = 0, memory_mhz = 0, architecture = 0;
  std::string links, uuid;
};
std::vector<FakeGpu> gpus;
int running = 0;

void read_gpus(const char* text) {
  gpus.clear();
  std::stringstream all{text};
  for (std::string one; std::getline(all, one, ';');) {
    std::stringstream fields{one};
    FakeGpu gpu;
    char bar = 0;
    std::getline(fields, gpu.name, '|');
    fields >> gpu.total >> bar >> gpu.free >> bar >> gpu.cores >> bar >> gpu.sm_mhz >> bar >> gpu.bus >>
        bar >> gpu.memory_mhz >> bar >> gpu.architecture >> bar;
    std::getline(fields, gpu.links, '|');
    std::getline(fields, gpu.uuid);
    gpus.push_back(gpu);
  }
}

unsigned or_unsupported(unsigned value, unsigned* out) {
  *out = value;
  return value > 0 ? 0 : 3;
}

}  // namespace

extern "C" {

struct FakeMemory {
  unsigned long long total, free, used;
};

int nvmlInit_v2() {
  const char* text = std::getenv("EMPLACE_FAKE_NVML");
  if (text == nullptr || std::strcmp(text, "broken") == 0) return 9;
  read_gpus(text);
  ++running;
  return 0;
}
int nvmlShutdown() { return --running < 0 ? 1 : 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(gpus.size());
  return running > 0 ? 0 : 1;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= gpus.size()) return 2;
  *device = &gpus[index];
  return 0;
}
int nvmlDeviceGetName(void* device, char* name, unsigned length) {
  std::strncpy(name, static_cast<FakeGpu*>(device)->name.c_str(), length);
  return 0;
}
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned length) {
  const auto* gpu = static_cast<FakeGpu*>(device);
  std::strncpy(uuid, gpu->uuid.c_str(), length);
  return gpu->uuid.empty() ? 3 : 0;
}
unsigned nvmlDeviceGetArchitecture(void* device, unsigned* value) {
  return or_unsupported(static_cast<FakeGpu*>(device)->architecture, value);
}
struct FakePci {
  char legacy_address[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char address[32];
};
int nvmlDeviceGetPciInfo_v3(void* device, FakePci* pci) {
  *pci = {};
  pci->bus = 16 + static_cast<unsigned>(static_cast<FakeGpu*>(device) - gpus.data());
  return 0;
}
int nvmlDeviceGetP2PStatus(void* a, void* b, unsigned capability, unsigned* status) {
  const char* const pair = std::getenv("EMPLACE_FAKE_NVML_CUT_OFF");
  const auto number = [](void* gpu) {
    return static_cast<char>('0' + (static_cast<FakeGpu*>(gpu) - gpus.data()));
  };
  const bool cut =
      pair != nullptr && std::strchr(pair, number(a)) != nullptr && std::strchr(pair, number(b)) != nullptr;
  *status = cut ? 1 : 0;
  return capability == 0 ? 0 : 2;
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* active) {
  const auto* gpu = static_cast<FakeGpu*>(device);
  if (link >= gpu->links.size()) return 2;
  *active = gpu->links[link] != '-' ? 1 : 0;
  return 0;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned link, unsigned* kind) {
  *kind = static_cast<FakeGpu*>(device)->links.at(link) == 's' ? 2 : 0;
  return 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, FakePci* pci) {
  *pci = {};
  pci->bus = 16 + static_cast<unsigned>(static_cast<FakeGpu*>(device)->links.at(link) - '0');
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* device, FakeMemory* memory) {
  const auto* gpu = static_cast<FakeGpu*>(device);
  *memory = {gpu->total << 20, gpu->free << 20, (gpu->total - gpu->free) << 20};
  return 0;
}
unsigned nvmlDeviceGetNumGpuCores(void* device, unsigned* value) {
  return or_unsupported(static_cast<FakeGpu*>(device)->cores, value);
}
unsigned nvmlDeviceGetMemoryBusWidth(void* device, unsigned* value) {
  return or_unsupported(static_cast<FakeGpu*>(device)->bus, value);
}
unsigned nvmlDeviceGetMaxClockInfo(void* device, unsigned which, unsigned* value) {
  const auto* gpu = static_cast<FakeGpu*>(device);
  return or_unsupported(which == 1 ? gpu->sm_mhz : which == 2 ? gpu->memory_mhz : 0, value);
}
}
