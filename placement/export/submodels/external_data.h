#pragma once
/// The external data of one sub-model.

#include <onnx.pb.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/result.h"

namespace emplace::interop {

/// A file with the data of tensors, copied from the files of the model in pieces of a bounded size. Thread:
/// one.
class ExternalData {
 public:
  /// `source`: folder of the model's data. `target`: the file, which is made with the first tensor.
  ExternalData(std::filesystem::path source, std::filesystem::path target);

  bool used() const { return file_.has_value(); }
  std::string name() const { return target_.filename().string(); }

  /// Copies the data of an external tensor and makes the tensor refer to the copy. Errors (kInvalid): data
  /// that is missing, too short, or outside of the model's folder.
  Result<Unit> take(onnx::TensorProto& tensor);
  /// Puts the file in its place, if any tensor has data. Errors: kIo.
  Result<Unit> commit();

 private:
  Result<Unit> copy(onnx::TensorProto& tensor, const std::string& location, std::uint64_t offset,
                    std::uint64_t length);

  const std::filesystem::path source_, target_;
  std::optional<NewFile> file_;
};

}  // namespace emplace::interop
