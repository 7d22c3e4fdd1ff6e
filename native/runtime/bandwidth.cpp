// Moves a region of memory out of and into a tier in pieces of the copy streams' size, and takes the time.
#include "runtime/bandwidth.hpp"

#include <algorithm>
#include <thread>

#include "runtime/clock.hpp"
#include "runtime/handles.hpp"
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

}  // namespace

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
                   both_out.bytes_per_second >= 0.75 * alone_out.bytes_per_second && both_in.bytes_per_second >= 0.75 * alone_in.bytes_per_second};
}

}  // namespace spillway
