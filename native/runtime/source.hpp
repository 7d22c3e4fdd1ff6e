// The sources of fed values (images, targets): synthetic, read from files, or put in memory by the caller, step by step, or in bands of
// rows on request. In: a binding, a step, a range of bytes of the stored value (B, H, W, C). Out: those bytes. Invariant:
// sample b of step s (from 1) is number ((s-1)*B + b) mod samples, or follows a given order, so a resumed run sees the same data; any
// range can be read alone; nothing is allocated after opening; one thread reads at a time.
#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "core/half.hpp"
#include "core/result.hpp"
#include "plan/tape.hpp"

namespace spillway {

/// One sample of a fed value.
struct SampleShape {
  uint64_t channels, height, width;
};

/// Gives elements [first, first + count) of a sample, in H, W, C order.
class Feed {
 public:
  virtual ~Feed() = default;
  virtual Status give(uint64_t sample, uint64_t first, uint64_t count, float* into) = 0;
  virtual Status give(uint64_t sample, uint64_t first, uint64_t count, double* into) = 0;
  virtual Status give(uint64_t sample, uint64_t first, uint64_t count, int32_t* into) = 0;
  virtual Status give(uint64_t sample, uint64_t first, uint64_t count, uint8_t* into) = 0;
  virtual uint64_t samples() const = 0;
};

/// Normal values for floats, labels drawn evenly from the classes for integers, any bytes; the same for every plan.
struct SyntheticFeed {
  uint64_t seed = 0, samples = 1;
  double deviation = 1;
  uint32_t classes = 1;
};

enum class FileType : uint32_t { f32, f64, f16, u8, i32, i64 };
enum class FileLayout : uint32_t { nchw, nhwc };

/// A tensor inside a file: .npy and safetensors headers are read by the caller. Or one in memory, which outlives the feed.
struct FileFeed {
  std::string path = {};
  const std::byte* memory = nullptr;
  uint64_t byte_offset = 0;
  FileType type = FileType::f32;
  FileLayout layout = FileLayout::nchw;
  uint64_t samples = 1;
  SampleShape shape{1, 1, 1};
  /// value = raw * scale + shift, by channel, or one of all channels.
  std::vector<double> scale = {1}, shift = {0};
  /// For labels: legal are 0 to classes - 1 and the ignored one. 0 classes: unknown, so all are
  /// legal.
  uint32_t classes = 0;
  std::optional<int32_t> ignored = {};

  /// Returns true if the values are the stored bytes.
  bool is_bytes() const {
    const std::vector<double> one{1}, none{0};
    return type == FileType::u8 && scale == one && shift == none;
  }
};

/// Given how many floats a sample has, few and small ones are drawn once and kept.
std::unique_ptr<Feed> open_synthetic_feed(const SyntheticFeed& options, std::string_view binding, uint64_t sample_elements = 0);
/// One after the other: the samples of the first file, then those of the second, …
Result<std::unique_ptr<Feed>> open_file_feeds(std::span<const FileFeed> files);

/// A band of rows of sample b of a step, numbered from the top.
struct Band {
  uint64_t step = 0, b = 0, number = 0;
  bool operator==(const Band&) const = default;
};

/// Asks the caller to write a band into a slot of its value, and then to call put() with the ticket.
struct BandRequest {
  uint32_t binding;
  Band band;
  uint64_t slot, ticket;
};

class Source {
 public:
  explicit Source(const Tape& tape);

  /// An error if the shape of a sample is not the binding's, or if only one of binding and files has bytes.
  Status set_files(uint32_t binding, std::span<const FileFeed> files);
  Status set_file(uint32_t binding, const FileFeed& file) { return set_files(binding, {&file, 1}); }
  void set_synthetic(uint32_t binding, const SyntheticFeed& options);
  /// Instead of in turn: sample b of step s is order[(s - first_step) * B + b]. All fed values have as many samples a step.
  Status set_order(std::vector<uint32_t> order, uint64_t first_step, uint64_t steps);
  /// The feeds hold the batches of `slots` steps, the one of step s in place s mod slots. A reader of a step waits until its batch is
  /// there.
  Status set_slots(uint64_t slots, uint64_t first_step);
  /// Memory holds some bands of a value: `place` has one slot for each sample, and the rows of a band; the last band of a sample may have
  /// fewer. A reader of a band asks for it and for those that the tape reads next, to the last step, and waits for put().
  Status set_bands(uint32_t binding, const FileFeed& place, uint64_t last_step, std::function<void(const BandRequest&)> ask);
  /// All steps to this one are in their places; or the band of this ticket is in its slot. Any thread may call it.
  void put(uint64_t number);
  /// Lets who waits return, cancelled. Any thread may call it.
  void interrupt();
  /// Says which fed binding has no data.
  Status check() const;

  Status read(uint32_t binding, uint64_t step, uint64_t offset, std::span<std::byte> into);
  /// Returns true if two steps have the same samples.
  bool same(uint64_t step, uint64_t other) const;

 private:
  struct BandSlot {
    Band band;  // step 0: none
    uint64_t ticket = 0;
    bool held = false;
  };
  struct Fed {
    DType dtype;
    uint64_t batch;
    SampleShape shape;         // of the whole sample
    uint64_t first, elements;  // what the value has of it: all, or a band's rows
    std::unique_ptr<Feed> feed;
    uint64_t band_rows = 0;  // 0: the value is not read in bands
    std::vector<BandSlot> slots = {};
    std::vector<Band> order = {};   // of the bands of a step, as the tape reads them; `step` is unused
    std::vector<Band> wanted = {};  // the band at hand, and the next ones
    size_t at = 0;                  // the place in the order
  };
  Status is_there(uint64_t step);
  std::vector<Band> bands_in_order(uint32_t binding) const;
  void find_wanted(Fed& fed, const Band& band) const;
  std::optional<BandRequest> claimed(uint32_t binding, const Band& band);
  Result<uint64_t> bring(uint32_t binding, const Band& band);
  template <class T>
  Status give_bands(uint32_t binding, uint64_t step, uint64_t b, uint64_t first, uint64_t count, T* into);
  uint64_t sample_of(const Fed& fed, uint64_t step, uint64_t b) const;
  template <class T>
  Status give(uint32_t binding, uint64_t step, uint64_t first, uint64_t count, T* into);
  template <class Half>
  Status give_rounded(uint32_t binding, uint64_t step, uint64_t first, std::span<Half> into);

  const Tape& tape_;
  std::vector<Fed> fed_;                                // by binding; those that are not fed have no feed
  std::vector<float> wide_ = std::vector<float>(8192);  // numbers to round to 16 bits
  std::vector<uint32_t> order_;
  uint64_t first_step_ = 1, slots_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t put_ = 0;  // the last step that is in its place
  std::function<void(const BandRequest&)> ask_;
  uint64_t last_step_ = 0, ticket_ = 0;
  bool interrupted_ = false;
};

}  // namespace spillway
