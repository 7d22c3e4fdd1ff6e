// Moves a region of memory out of and into a tier, or a device, in pieces of the copy streams' size, and takes the time.
#include "runtime/bandwidth.hpp"

#include <algorithm>
#include <thread>

#include "plan/tape.hpp"
#include "runtime/clock.hpp"
#include "runtime/handles.hpp"
#include "runtime/open_device.hpp"
#include "runtime/tier.hpp"

namespace spillway {
namespace {

constexpr uint64_t PIECE = uint64_t(8) << 20, PIECES = 16, HALF = PIECE * PIECES;

struct Timed { Status status; double bytes_per_second = 0; };

template <class Move>
Timed timed(Move move) {
  const Clock::time_point start = Clock::now();
  for (uint64_t at = 0; at < HALF; at += PIECE)
    if (Status s = move(at); !s.ok()) return {s, 0};
  return {{}, double(HALF) / seconds_since(start)};
}

bool reaches(double both, double alone) { return both >= 0.75 * alone; }

/// The two directions of a link between a device and pinned memory. A stamp before and after the pieces tells their time.
class DeviceLink {
 public:
  DeviceLink(OpenDevice& device, std::byte* there, std::byte* here) : device_(device), there_(there), here_(here) {}

  Status start(Lane lane) {
    const bool out = lane == Lane::out;
    Status s = device_.stamp(lane, number(lane));
    for (uint64_t at = 0; s.ok() && at < HALF; at += PIECE)
      s = out ? device_.copy(lane, here_ + at, there_ + at, PIECE) : device_.copy(lane, there_ + HALF + at, here_ + HALF + at, PIECE);
    return s.ok() ? device_.stamp(lane, number(lane) + 1) : s;
  }
  Status finish(Lane lane) { return device_.finish(lane); }
  double rate(Lane lane) { return double(HALF) / std::max(1e-9, device_.seconds_between(number(lane), number(lane) + 1)); }

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
  const uint64_t pages = 2 * HALF / PAGE_BYTES;
  const PageMapping whole{0, 0, pages};
  const Result<std::byte*> there = context.map({pages, pages, &whole, 1}), here = context.pin(2 * HALF);
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

Result<Bandwidth> measure_bandwidth(const std::string& directory) {
  Result<std::unique_ptr<Tier>> opened = directory.empty() ? open_ram_tier(2 * HALF) : open_spill_file(directory, 2 * HALF);
  if (!opened.ok()) return opened.status();
  const std::unique_ptr<Tier> tier = std::move(opened).value();
  const AddressRange memory = AddressRange::map(2 * HALF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  if (!memory) return refuse("no memory to measure with: ", system_error());
  std::fill_n(memory.data(), 2 * HALF, std::byte(1));
  // Out goes to the lower half of the tier, in comes from the upper half.
  const auto out = [&] { return timed([&](uint64_t at) { return tier->write(at, memory.data() + at, PIECE); }); };
  const auto in = [&] { return timed([&](uint64_t at) { return tier->read(HALF + at, memory.data() + HALF + at, PIECE); }); };
  for (uint64_t at = 0; at < 2 * HALF; at += PIECE)
    if (Status s = tier->write(at, memory.data() + at, PIECE); !s.ok()) return s;
  const Timed alone_out = out(), alone_in = in();
  Timed both_out, both_in;
  std::thread other([&] { both_out = out(); });
  both_in = in();
  other.join();
  for (const Timed& t : {alone_out, alone_in, both_out, both_in})
    if (!t.status.ok()) return t.status;
  return Bandwidth{alone_out.bytes_per_second, alone_in.bytes_per_second,
                   reaches(both_out.bytes_per_second, alone_out.bytes_per_second) && reaches(both_in.bytes_per_second, alone_in.bytes_per_second)};
}

}  // namespace spillway
