// The lower tier in memory, and the shared part of both tiers: a range of bytes is moved in parts, up to the number of slots
// at a time.
#include "runtime/tier.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/handles.hpp"
#include "runtime/memory.hpp"

namespace spillway {
namespace {

class RamChannel final : public Channel {
 public:
  RamChannel(std::byte* base, bool out) : base_(base), out_(out) {}
  uint64_t part_bytes() const override { return uint64_t(8) << 20; }
  uint32_t room() const override { return ended_ ? 0 : 1; }
  void start(uint64_t tag, const Part& p) override {
    if (p.bytes > 0) std::memcpy(out_ ? base_ + p.offset : p.at, out_ ? p.at : base_ + p.offset, p.bytes);
    tag_ = tag;
    ended_ = true;
  }
  Moved finish() override {
    ended_ = false;
    return {tag_, {}};
  }

 private:
  std::byte* const base_;
  const bool out_;
  uint64_t tag_ = 0;
  bool ended_ = false;
};

class RamTier final : public Tier {
 public:
  explicit RamTier(AddressRange range) : range_(std::move(range)), out_(range_.data(), true), in_(range_.data(), false) {}
  Channel& out() override { return out_; }
  Channel& in() override { return in_; }

 private:
  AddressRange range_;
  RamChannel out_, in_;
};

/// A part in memory moves when it starts, and ends next.
class SplitChannel final : public Channel {
 public:
  SplitChannel(Channel& memory, Channel& file, uint64_t memory_bytes) : memory_(memory), file_(file), memory_bytes_(memory_bytes) {}
  uint64_t part_bytes() const override { return std::min(memory_.part_bytes(), file_.part_bytes()); }
  uint32_t room() const override { return std::min(memory_.room(), file_.room()); }
  void start(uint64_t tag, const Part& p) override {
    if (p.offset >= memory_bytes_) return file_.start(tag, {p.offset - memory_bytes_, p.at, p.bytes});
    memory_.start(tag, p);
    moved_ = true;
  }
  Moved finish() override {
    if (!moved_) return file_.finish();
    moved_ = false;
    return memory_.finish();
  }

 private:
  Channel& memory_;
  Channel& file_;
  const uint64_t memory_bytes_;
  bool moved_ = false;
};

class SplitTier final : public Tier {
 public:
  SplitTier(std::unique_ptr<Tier> memory, std::unique_ptr<Tier> file, uint64_t memory_bytes)
      : memory_(std::move(memory)),
        file_(std::move(file)),
        out_(memory_->out(), file_->out(), memory_bytes),
        in_(memory_->in(), file_->in(), memory_bytes) {}
  Channel& out() override { return out_; }
  Channel& in() override { return in_; }
  uint64_t disk_bytes() const override { return file_->disk_bytes(); }

 private:
  const std::unique_ptr<Tier> memory_, file_;
  SplitChannel out_, in_;
};

/// Parts of a stretch of bytes, as many at a time as there is room for.
Status move_all(Channel& channel, uint64_t offset, std::byte* at, uint64_t bytes) {
  Status first;
  uint64_t started = 0, under_way = 0;
  while (under_way > 0 || (started < bytes && first.ok())) {
    while (started < bytes && first.ok() && channel.room() > 0) {
      const uint64_t n = std::min(channel.part_bytes(), bytes - started);
      channel.start(0, {offset + started, at + started, n});
      started += n;
      under_way++;
    }
    Moved m = channel.finish();
    under_way--;
    if (first.ok()) first = std::move(m.status);
  }
  return first;
}

}  // namespace

Status Tier::write(uint64_t offset, const std::byte* from, uint64_t bytes) {
  return move_all(out(), offset, const_cast<std::byte*>(from), bytes);
}
Status Tier::read(uint64_t offset, std::byte* into, uint64_t bytes) { return move_all(in(), offset, into, bytes); }

Result<std::unique_ptr<Tier>> open_ram_tier(uint64_t bytes) {
  if (bytes == 0) return std::unique_ptr<Tier>(std::make_unique<RamTier>(AddressRange()));
  if (const uint64_t left = available_memory(); bytes > left)
    return failed(Code::out_of_memory, "the lower tier needs ", bytes, " bytes of host memory, and ", left, " are free: use --spill DIR");
  AddressRange range = AddressRange::map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  if (!range) return failed(Code::out_of_memory, "the lower tier needs ", bytes, " bytes of host memory: ", system_error());
  ::madvise(range.data(), bytes, MADV_HUGEPAGE);
#ifdef MADV_POPULATE_WRITE
  // Older systems do not know the call: there the pages come at their first use.
  if (::madvise(range.data(), bytes, MADV_POPULATE_WRITE) != 0 && errno != EINVAL)
    return failed(Code::out_of_memory, "the lower tier needs ", bytes, " bytes of host memory: ", system_error());
#endif
  return std::unique_ptr<Tier>(std::make_unique<RamTier>(std::move(range)));
}

Result<std::unique_ptr<Tier>> open_split_tier(uint64_t memory_bytes, const std::string& directory, uint64_t bytes, OpenRequests open) {
  auto memory = open_ram_tier(memory_bytes);
  if (!memory.ok()) return memory.status();
  auto file = open_spill_file(directory, bytes - memory_bytes, open);
  if (!file.ok()) return file.status();
  return std::unique_ptr<Tier>(std::make_unique<SplitTier>(std::move(memory).value(), std::move(file).value(), memory_bytes));
}

}  // namespace spillway
