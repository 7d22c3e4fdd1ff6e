// The sources of fed values (images, targets): synthetic, read from files, or put in memory by the caller, step by step, or a band of
// rows at a time on request. In: a binding, a step, a range of bytes of the stored value (B, H, W, C). Out: those bytes. Invariant:
// sample b of step s (from 1) is number ((s-1)*B + b) mod samples, or follows a given order, so a resumed run sees the same data; any
// range can be read alone; nothing is allocated after opening; one thread reads at a time.
#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "core/bf16.hpp"
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
  /// A fed value of `samples` samples. Memory holds one band at a time: the rows of `place`, or fewer in the last band. A reader of
  /// another band asks for it by number (the bands of the first sample, then those of the second, …), and waits for put().
  Status set_bands(uint32_t binding, const FileFeed& place, uint64_t samples, std::function<void(uint64_t band)> ask);
  /// All steps to this one are in their places; or the band that was asked for is in its. Any thread may call it.
  void put(uint64_t number);
  /// Lets who waits return, cancelled. Any thread may call it.
  void interrupt();
  /// Says which fed binding has no data.
  Status check() const;

  Status read(uint32_t binding, uint64_t step, uint64_t offset, std::span<std::byte> into);
  /// Returns true if two steps have the same samples.
  bool same(uint64_t step, uint64_t other) const;

 private:
  struct Fed {
    DType dtype;
    uint64_t batch;
    SampleShape shape;         // of the whole sample
    uint64_t first, elements;  // what the value has of it: all, or a band's rows
    std::unique_ptr<Feed> feed;
    uint64_t band_rows = 0, band_samples = 0;  // where a band at a time is there
    uint64_t samples() const { return band_rows > 0 ? band_samples : feed->samples(); }
  };
  Status is_there(uint64_t step);
  Status bring(uint64_t band);
  template <class T>
  Status give_bands(Fed& fed, uint64_t sample, uint64_t first, uint64_t count, T* into);
  uint64_t sample_of(const Fed& fed, uint64_t step, uint64_t b) const;
  template <class T>
  Status give(Fed& fed, uint64_t step, uint64_t first, uint64_t count, T* into);
  Status give_rounded(Fed& fed, uint64_t step, uint64_t first, std::span<Bf16> into);

  const Tape& tape_;
  std::vector<Fed> fed_;                                // by binding; those that are not fed have no feed
  std::vector<float> wide_ = std::vector<float>(8192);  // what becomes bf16
  std::vector<uint32_t> order_;
  uint64_t first_step_ = 1, slots_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t put_ = 0;  // the last step that is in its place, or the band
  bool holds_band_ = false;
  std::function<void(uint64_t)> ask_;
  bool interrupted_ = false;
};

}  // namespace spillway
