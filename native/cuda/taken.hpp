// What is taken of the device's memory, as its driver counts. In: a device. Out: bytes of this process where the driver tells
// them apart, otherwise of all that use the card.
#pragma once
#include <cstdint>

#include "core/result.hpp"

namespace spillway::cuda {

struct TakenBytes {
  uint64_t bytes = 0;
  bool of_process = false;
};

Result<TakenBytes> taken_bytes(int device);

}  // namespace spillway::cuda
