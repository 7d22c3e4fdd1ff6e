// Moves a region of memory out of and into a tier, or a device, in pieces of the copy streams' size, and takes the time.
#include "runtime/bandwidth.hpp"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "gen/wire.h"
#include "runtime/clock.hpp"
#include "runtime/cores.hpp"
#include "runtime/handles.hpp"
#include "runtime/open_device.hpp"
#include "runtime/tier.hpp"

namespace spillway {
namespace {

constexpr uint64_t PIECE = uint64_t(8) << 20;
/// The bytes of the measurements, of memory and of a disk; src/machine/links.ts checks that they are free.
constexpr uint64_t MEMORY_BYTES = uint64_t(256) << 20, DISK_BYTES = uint64_t(64) << 20;
/// The moved bytes of each direction; with less space, the same half is moved repeatedly.
constexpr uint64_t MOVED = uint64_t(128) << 20;
static_assert(2 * MOVED <= MEMORY_BYTES);

struct Timed {
  Status status;
  double bytes_per_second = 0;
};

template <class Move>
Timed timed(uint64_t half, Move move) {
  const Clock::time_point start = Clock::now();
  for (uint64_t at = 0; at < MOVED; at += PIECE)
    if (Status s = move(at % half); !s.ok()) return {s, 0};
  return {{}, double(MOVED) / seconds_since(start)};
}

bool reaches(double both, double alone) { return both >= 0.75 * alone; }

/// The two directions of a link between a device and pinned memory. A stamp before and after the pieces tells their time.
class DeviceLink {
 public:
  DeviceLink(OpenDevice& device, std::byte* there, std::byte* here) : device_(device), there_(there), here_(here) {}

  Status start(Lane lane) {
    const bool out = lane == Lane::out;
    Status s = device_.stamp(lane, number(lane));
    for (uint64_t at = 0; s.ok() && at < MOVED; at += PIECE)
      s = out ? device_.copy(lane, here_ + at, there_ + at, PIECE) : device_.copy(lane, there_ + MOVED + at, here_ + MOVED + at, PIECE);
    return s.ok() ? device_.stamp(lane, number(lane) + 1) : s;
  }
  Status finish(Lane lane) { return device_.finish(lane); }
  double rate(Lane lane) { return double(MOVED) / std::max(1e-9, device_.seconds_between(number(lane), number(lane) + 1)); }

 private:
  static uint32_t number(Lane lane) { return 2 * uint32_t(lane); }
  OpenDevice& device_;
  std::byte *there_, *here_;
};

}  // namespace

Result<Bandwidth> measure_device_bandwidth(const Device& device) {
  Result<OpenDevice> opened = OpenDevice::open(device, {});
  if (!opened.ok()) return opened.status();
  OpenDevice context = std::move(opened).value();
  const uint64_t pages = 2 * MOVED / PAGE_BYTES;
  const PageMapping whole{0, 0, pages};
  const Result<std::byte*> there = context.map({pages, pages, &whole, 1}), here = context.pin(2 * MOVED);
  if (!there.ok()) return there.status();
  if (!here.ok()) return here.status();
  DeviceLink link(context, there.value(), here.value());
  const auto run = [&](std::initializer_list<Lane> lanes) {
    Status s;
    for (const Lane lane : lanes)
      if (s.ok()) s = link.start(lane);
    for (const Lane lane : lanes)
      if (s.ok()) s = link.finish(lane);
    return s;
  };
  Bandwidth b;
  for (int round = 0; round < 2; round++) {  // the first one warms up
    if (Status s = run({Lane::out}); !s.ok()) return s;
    b.out_bytes_per_second = link.rate(Lane::out);
    if (Status s = run({Lane::in}); !s.ok()) return s;
    b.in_bytes_per_second = link.rate(Lane::in);
    if (Status s = run({Lane::out, Lane::in}); !s.ok()) return s;
    b.full_duplex = reaches(link.rate(Lane::out), b.out_bytes_per_second) && reaches(link.rate(Lane::in), b.in_bytes_per_second);
  }
  return b;
}

namespace {

/// Threads that compute in rounds, as kernels do: each does its share, and the next round begins when all are done.
class Rounds {
 public:
  Rounds(int threads, const Processors& processors) : threads_(uint64_t(threads)) {
    for (int t = 0; t < threads; t++)
      workers_.emplace_back([this, own = processors.empty() ? Processors{} : Processors{processors[size_t(t)]}] {
        run_on(own);
        work();
      });
  }
  ~Rounds() {
    stop_ = true;
    for (std::thread& t : workers_) t.join();
  }
  double shares() const { return double(arrived_.load()); }

 private:
  /// Some arithmetic in the caches, and memory that is read: half a millisecond.
  void work() {
    constexpr size_t SMALL = 1 << 14, LARGE = 1 << 22, STRETCH = 1 << 17;
    std::vector<float> small(SMALL, 1.0f), large(LARGE, 1.0f);
    for (uint64_t round = 0; !stop_; round++) {
      float sum = 0;
      for (int pass = 0; pass < 32; pass++)
        for (float& x : small) x = x * 0.999f + 0.001f;
      const float* const at = large.data() + round * STRETCH % LARGE;
      for (size_t i = 0; i < STRETCH; i++) sum += at[i];
      sum_ = sum;
      arrived_++;
      while (!stop_ && arrived_ < (round + 1) * threads_) {
      }
    }
  }

  const uint64_t threads_;
  std::atomic<uint64_t> arrived_{0};
  std::atomic<float> sum_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

constexpr double BESIDE_SECONDS = 0.25;

/// Rounds of computing a second, while `meanwhile` is called again and again.
template <class F>
double rounds_beside(const Rounds& rounds, F meanwhile) {
  const Clock::time_point start = Clock::now();
  const double before = rounds.shares();
  while (seconds_since(start) < BESIDE_SECONDS) meanwhile();
  return (rounds.shares() - before) / seconds_since(start);
}

/// The slowdown of copies and compute beside each other; copies alone take `seconds_alone` for a piece out
/// and a piece in.
Status measure_beside(Tier& tier, std::byte* memory, uint64_t half, int threads, double seconds_alone, Bandwidth& into) {
  const Placement where = placement(allowed_processors(), threads, granted_processors(), user_places_threads());
  const Rounds rounds(threads, where.compute);
  const double alone = rounds_beside(rounds, [] { std::this_thread::sleep_for(std::chrono::milliseconds(10)); });
  Status status;
  uint64_t pieces = 0;
  double seconds = 0;
  double beside = 0;
  std::thread copier([&] {
    run_on(where.copies);
    const Clock::time_point start = Clock::now();
    beside = rounds_beside(rounds, [&] {
      const uint64_t at = pieces++ * PIECE % half;
      if (status.ok()) status = tier.write(at, memory + at, PIECE);
      if (status.ok()) status = tier.read(half + at, memory + half + at, PIECE);
    });
    seconds = seconds_since(start) / double(pieces);
  });
  copier.join();
  into.calls_beside = std::max(1.0, alone / std::max(beside, 1e-9));
  into.copies_beside = std::max(1.0, seconds / seconds_alone);
  return status;
}

}  // namespace

Result<Bandwidth> measure_bandwidth(const std::string& directory, int threads) {
  // Half of the memory is the tier.
  const uint64_t half = directory.empty() ? MEMORY_BYTES / 4 : DISK_BYTES / 2;
  Result<std::unique_ptr<Tier>> opened = directory.empty() ? open_ram_tier(2 * half) : open_spill_file(directory, 2 * half);
  if (!opened.ok()) return opened.status();
  const std::unique_ptr<Tier> tier = std::move(opened).value();
  const AddressRange memory = AddressRange::map(2 * half, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  if (!memory) return failed(Code::out_of_memory, "cannot allocate memory for the measurement: ", system_error());
  std::fill_n(memory.data(), 2 * half, std::byte(1));
  // Out goes to the lower half of the tier, in comes from the upper half.
  const auto out = [&] { return timed(half, [&](uint64_t at) { return tier->write(at, memory.data() + at, PIECE); }); };
  const auto in = [&] { return timed(half, [&](uint64_t at) { return tier->read(half + at, memory.data() + half + at, PIECE); }); };
  for (uint64_t at = 0; at < 2 * half; at += PIECE)
    if (Status s = tier->write(at, memory.data() + at, PIECE); !s.ok()) return s;
  const Timed alone_out = out(), alone_in = in();
  Timed both_out, both_in;
  std::thread other([&] { both_out = out(); });
  both_in = in();
  other.join();
  for (const Timed& t : {alone_out, alone_in, both_out, both_in})
    if (!t.status.ok()) return t.status;
  Bandwidth b{
      alone_out.bytes_per_second, alone_in.bytes_per_second,
      reaches(both_out.bytes_per_second, alone_out.bytes_per_second) && reaches(both_in.bytes_per_second, alone_in.bytes_per_second)};
  const double seconds_alone = double(PIECE) / b.out_bytes_per_second + double(PIECE) / b.in_bytes_per_second;
  if (Status s = measure_beside(*tier, memory.data(), half, threads, seconds_alone, b); !s.ok()) return s;
  return b;
}

}  // namespace spillway
