// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/batch.cpp: fields of a batch by their names.
#include <yoke/batch.h>
#include <yoke/runtime/error.h>

namespace yoke {

Batch::Batch(Tensor inputs, Tensor targets)
    : fields_{{"inputs", std::move(inputs)}, {"targets", std::move(targets)}} {}

Tensor Batch::operator[](std::string_view name) const {
  std::string known;
  for (const Field& field : fields_) {
    if (field.name == name) {
      return field.tensor;
    }
    known += (known.empty() ? "" : ", ") + field.name;
  }
  throw Error(ErrorCode::kNotFound, "the batch has no field '" + std::string(name) + "'; it has " +
                                        (known.empty() ? "none" : known));
}

std::uint64_t Batch::row_count() const {
  return fields_.empty() || !fields_[0].tensor || fields_[0].tensor.rank() == 0 ? 0
                                                                                : fields_[0].tensor.dims()[0];
}

}  // namespace yoke
