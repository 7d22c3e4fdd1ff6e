// The driver's management library knows the memory of each process. Inside a container it may know this process by another
// number; then only the free memory of the card tells.
#include "cuda/taken.hpp"

#include <unistd.h>

#include <optional>
#include <vector>

#include "cuda/libraries.hpp"

namespace spillway::cuda {
namespace {

constexpr unsigned int MOST_PROCESSES = 256;
/// The library's answer if it does not know.
constexpr unsigned long long UNKNOWN_BYTES = ~0ull;

std::optional<uint64_t> of_this_process(int device) {
  char bus_id[32] = {};
  void* handle = nullptr;
  if (!nvml().ok() || cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, device) != cudaSuccess) return std::nullopt;
  if (nvml().value().nvmlDeviceGetHandleByPciBusId_v2(bus_id, &handle) != 0) return std::nullopt;
  unsigned int count = MOST_PROCESSES;
  std::vector<NvmlProcess> processes(MOST_PROCESSES);
  if (nvml().value().nvmlDeviceGetComputeRunningProcesses_v3(handle, &count, processes.data()) != 0) return std::nullopt;
  for (unsigned int i = 0; i < count && i < MOST_PROCESSES; i++)
    if (processes[i].pid == unsigned(::getpid()) && processes[i].used_bytes != UNKNOWN_BYTES) return processes[i].used_bytes;
  return std::nullopt;
}

}  // namespace

Result<TakenBytes> taken_bytes(int device) {
  if (const std::optional<uint64_t> own = of_this_process(device)) return TakenBytes{*own, true};
  size_t free = 0, total = 0;
  if (Status s = checked(cudaMemGetInfo(&free, &total), "cudaMemGetInfo"); !s.ok()) return s;
  return TakenBytes{total - free, false};
}

}  // namespace spillway::cuda
