// The used memory of the device, as its driver counts. In: a device. Out: bytes of this process if the driver can separate
// them, otherwise of all processes on the card.
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
