#include "launcher/inputs/machine_form.h"

#include <filesystem>
#include <system_error>

namespace emplace::launcher {

MachineForm machine_form(std::string_view devices) {
  if (devices.find('/') != std::string_view::npos || devices.ends_with(".toml")) return MachineForm::kFile;
  return devices == "here" ? MachineForm::kHere : MachineForm::kText;
}

std::string resolved_devices(const std::string& devices) {
  if (devices.empty()) return devices;
  std::error_code failure;
  const bool is_file =
      std::filesystem::exists(devices, failure) && !std::filesystem::is_directory(devices, failure);
  if (!is_file && machine_form(devices) != MachineForm::kFile) return devices;
  return std::filesystem::absolute(devices).lexically_normal().string();
}

}  // namespace emplace::launcher
