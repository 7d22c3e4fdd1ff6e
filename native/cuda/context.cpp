// The runtime's calls behind the lanes. Streams do not wait for the default stream; captures are local to their thread, so
// that the threads of the far lanes go on copying meanwhile.
#include "cuda/context.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda/backend.hpp"
#include "cuda/kernels/exec.hpp"
#include "cuda/taken.hpp"
#include "ops/check.hpp"

namespace spillway::cuda {
namespace {

/// Turing: nvcc 13 compiles nothing older.
constexpr uint32_t LEAST_CAPABILITY = 75;

/// The first with TF32 and bf16: Ampere.
constexpr uint32_t ROUNDS_FROM = 80;

/// A number of the driver, not negative.
Status ask(uint32_t& into, cudaDeviceAttr attribute, int device) {
  int number = 0;
  SPILLWAY_CUDA(cudaDeviceGetAttribute(&number, attribute, device));
  into = uint32_t(std::max(0, number));
  return {};
}

Status ask_capability(uint32_t& into, int device) {
  uint32_t major = 0, minor = 0;
  SPILLWAY_TRY(ask(major, cudaDevAttrComputeCapabilityMajor, device));
  SPILLWAY_TRY(ask(minor, cudaDevAttrComputeCapabilityMinor, device));
  into = 10 * major + minor;
  return {};
}

Status lacks(uint32_t capability, const char* precision) {
  return failed(Code::illegal, "a GPU of compute capability ", capability / 10, ".", capability % 10, " has no ", precision,
                " products: use fp16 or fp32");
}

}  // namespace

Result<std::unique_ptr<Context>> Context::open(const OpenOptions& options) {
  std::unique_ptr<Context> c(new Context(options));
  if (Status s = c->create(options); !s.ok()) return s;
  return c;
}

Status Context::create(const OpenOptions& options) {
  SPILLWAY_CUDA(cudaGetDevice(&device_));
  SPILLWAY_TRY(ask_capability(capability_, device_));
  if (options.precision == Precision::tf32 && capability_ < ROUNDS_FROM) return lacks(capability_, "tf32");
  for (cudaStream_t& s : streams_) SPILLWAY_CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  events_.resize(options.events);
  for (cudaEvent_t& e : events_) SPILLWAY_CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  for (cudaEvent_t& e : turn_) SPILLWAY_CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  SPILLWAY_CUDA(cudaMalloc(reinterpret_cast<void**>(&step_), sizeof(StepContext)));
  SPILLWAY_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&step_here_), sizeof(StepContext), cudaHostAllocDefault));
  SPILLWAY_CUDA(cudaMalloc(reinterpret_cast<void**>(&arrivals_), ARRIVALS * sizeof *arrivals_));
  SPILLWAY_CUDA(cudaMemsetAsync(arrivals_, 0, ARRIVALS * sizeof *arrivals_, stream(Lane::compute)));
  return {};
}

Status Context::takes(const KernelCall& call) const {
  return capability_ < ROUNDS_FROM && ops::is_bf16(call) ? lacks(capability_, "bf16") : Status{};
}

Context::~Context() {
  for (cudaStream_t s : streams_)
    if (s) cudaStreamSynchronize(s);
  for (cudaGraphExec_t g : graphs_) cudaGraphExecDestroy(g);
  ranks_.reset();
  for (cudaEvent_t e : turn_)
    if (e) cudaEventDestroy(e);
  for (cudaEvent_t e : events_)
    if (e) cudaEventDestroy(e);
  for (cudaEvent_t e : stamps_)
    if (e) cudaEventDestroy(e);
  for (cudaStream_t s : streams_)
    if (s) cudaStreamDestroy(s);
  if (step_here_) cudaFreeHost(step_here_);
  if (step_) cudaFree(step_);
  if (arrivals_) cudaFree(arrivals_);
  cudaGetLastError();
}

Result<std::byte*> Context::map(const PoolLayout& layout) {
  if (Status s = counts_memory_ ? open_counted(layout) : pool_.open(device_, layout); !s.ok()) return s;
  return pool_.base();
}

/// Handles of the libraries are made before, so that they do not count as the plan's.
Status Context::open_counted(const PoolLayout& layout) {
  if (const auto handle = cudnn_handle(); !handle.ok()) return handle.status();
  if (const auto handle = cublas_lt_handle(); !handle.ok()) return handle.status();
  const Result<TakenBytes> before = taken_bytes(device_);
  if (!before.ok()) return before.status();
  SPILLWAY_TRY(pool_.open(device_, layout));
  const Result<TakenBytes> with = taken_bytes(device_);
  if (!with.ok()) return with.status();
  before_pool_ = before.value().bytes;
  with_pool_ = with.value().bytes;
  return {};
}

Result<DeviceMemory> Context::memory() const {
  const Result<TakenBytes> now = taken_bytes(device_);
  if (!now.ok()) return now.status();
  const auto grown = [](uint64_t from, uint64_t to) { return to > from ? to - from : 0; };
  return DeviceMemory{before_pool_, grown(before_pool_, with_pool_), grown(with_pool_, now.value().bytes), now.value().of_process};
}

/// Before the first step of ranks, where all of them come. SPILLWAY_NCCL_ALONE: one that is alone sends to itself, to see whether NCCL
/// works.
Status Context::meet(Communicator* others) {
  if (!others || (others->size == 1 && !std::getenv("SPILLWAY_NCCL_ALONE")) || (ranks_ && &ranks_->host() == others)) return {};
  Result<std::unique_ptr<Ranks>> met = Ranks::open(*others, device_, stream(Lane::ranks));
  if (!met.ok()) return met.status();
  ranks_ = std::move(met).value();
  return {};
}

Status Context::begin_step(const StepContext& step) {
  SPILLWAY_TRY(meet(step.communicator));
  *step_here_ = step;
  return checked(cudaMemcpyAsync(step_, step_here_, sizeof step, cudaMemcpyHostToDevice, stream(Lane::compute)), "cudaMemcpyAsync");
}

Status Context::copy(Lane lane, void* to, const void* from, uint64_t bytes) {
  return checked(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream(lane)), "cudaMemcpyAsync");
}

Status Context::record(Lane lane, uint32_t event) { return checked(cudaEventRecord(events_[event], stream(lane)), "cudaEventRecord"); }

Status Context::wait(Lane lane, uint32_t event) {
  return checked(cudaStreamWaitEvent(stream(lane), events_[event], 0), "cudaStreamWaitEvent");
}

Status Context::finish(Lane lane) {
  return ranks_ ? ranks_->finish(stream(lane)) : checked(cudaStreamSynchronize(stream(lane)), "the GPU");
}

Status Context::stamp(Lane lane, uint32_t number) {
  if (stamps_.size() <= number) stamps_.resize(number + 1);
  if (!stamps_[number]) SPILLWAY_CUDA(cudaEventCreate(&stamps_[number]));
  return checked(cudaEventRecord(stamps_[number], stream(lane)), "cudaEventRecord");
}

double Context::seconds_between(uint32_t from, uint32_t to) const {
  float milliseconds = 0;
  if (from >= stamps_.size() || to >= stamps_.size() || cudaEventElapsedTime(&milliseconds, stamps_[from], stamps_[to]) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return double(milliseconds) * 1e-3;
}

// ---------------------------------------------------------------- graphs

Status Context::begin_capture() {
  return checked(cudaStreamBeginCapture(stream(Lane::compute), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
}

Result<uint32_t> Context::end_capture() {
  cudaGraph_t graph = nullptr;
  Status s = checked(cudaStreamEndCapture(stream(Lane::compute), &graph), "cudaStreamEndCapture");
  cudaGraphExec_t kept = nullptr;
  if (s.ok()) s = checked(cudaGraphInstantiate(&kept, graph, 0), "cudaGraphInstantiate");
  if (graph) cudaGraphDestroy(graph);
  if (!s.ok()) return s;
  graphs_.push_back(kept);
  s = checked(cudaGraphUpload(kept, stream(Lane::compute)), "cudaGraphUpload");
  return s.ok() ? Result<uint32_t>(uint32_t(graphs_.size() - 1)) : Result<uint32_t>(s);
}

Status Context::launch(uint32_t graph) { return checked(cudaGraphLaunch(graphs_[graph], stream(Lane::compute)), "cudaGraphLaunch"); }

// ---------------------------------------------------------------- the machine

namespace {

Status describe(DeviceFacts& into) {
  int device = 0, runtime = 0, version = 0;
  SPILLWAY_CUDA(cudaGetDevice(&device));
  cudaDeviceProp prop{};
  SPILLWAY_CUDA(cudaGetDeviceProperties(&prop, device));
  into.capability = uint32_t(10 * prop.major + prop.minor);
  if (into.capability < LEAST_CAPABILITY)
    return failed(Code::device, "the GPU '", prop.name, "' has compute capability ", prop.major, ".", prop.minor,
                  "; at least 7.5 (Turing) is needed");
  SPILLWAY_TRY(ask(into.clock_khz, cudaDevAttrClockRate, device));
  SPILLWAY_TRY(ask(into.memory_clock_khz, cudaDevAttrMemoryClockRate, device));
  SPILLWAY_TRY(ask(into.bus_bits, cudaDevAttrGlobalMemoryBusWidth, device));
  SPILLWAY_CUDA(cudaDeviceGetPCIBusId(into.pci, int(sizeof into.pci), device));
  SPILLWAY_CUDA(cudaDriverGetVersion(&version));
  SPILLWAY_CUDA(cudaRuntimeGetVersion(&runtime));
  size_t free = 0, total = 0;
  SPILLWAY_CUDA(cudaMemGetInfo(&free, &total));
  std::snprintf(into.device, sizeof into.device, "%.100s, sm_%d%d", prop.name, prop.major, prop.minor);
  std::snprintf(into.driver, sizeof into.driver, "CUDA %d.%d", version / 1000, version % 1000 / 10);
  into.total_bytes = total;
  into.free_bytes = free;
  into.processors = uint32_t(prop.multiProcessorCount);
  if (!cudnn().ok()) return cudnn().status();
  if (!cublas_lt().ok()) return cublas_lt().status();
  std::snprintf(into.libraries, sizeof into.libraries, "CUDA runtime %d.%d, cuDNN %zu, cuBLAS %zu", runtime / 1000, runtime % 1000 / 10,
                size_t(cudnn().value().cudnnGetVersion()), cublas_lt().value().cublasLtGetVersion());
  return {};
}

}  // namespace

Status device_facts(DeviceFacts& into) {
  into = {};
  if (!driver().ok()) return driver().status();
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaErrorInsufficientDriver)
    return failed(Code::device, "the NVIDIA driver is too old for CUDA ", CUDART_VERSION / 1000, ".", CUDART_VERSION % 1000 / 10,
                  ": install a newer one");
  if (code == cudaErrorNoDevice || (code == cudaSuccess && count == 0)) return failed(Code::device, "this machine has no NVIDIA GPU");
  SPILLWAY_TRY(checked(code, "looking for GPUs"));
  return describe(into);
}

}  // namespace spillway::cuda
