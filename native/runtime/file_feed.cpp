// Samples from a file or from memory: planes of a sample (N, C, H, W) or its pixels (N, H, W, C) are read piece by piece and spread
// over the channels of the value, which is stored H, W, C. Invariant: a file is read by pread only, so one that shrinks in the
// meantime is an error, never a signal.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/handles.hpp"
#include "runtime/source.hpp"

namespace spillway {
namespace {

constexpr uint64_t STAGING_BYTES = uint64_t(1) << 20;
constexpr uint64_t ELEMENT_BYTES[] = {4, 8, 2, 1, 4, 8};

template <class Raw>
double to_double(Raw raw) {
  return double(raw);
}

/// A number that is neither a class of a file nor the ignored label. Illegal labels become it.
constexpr int32_t UNFIT = std::numeric_limits<int32_t>::min();
int32_t to_label(double v) { return v >= -2147483648.0 && v <= 2147483647.0 ? int32_t(v) : UNFIT; }

template <class Raw>
Raw raw_at(const std::byte* raw, uint64_t i) {
  Raw r;
  std::memcpy(&r, raw + i * sizeof(Raw), sizeof(Raw));
  return r;
}

/// Elements that lie `step` apart, and where their values go, `stride` apart.
template <class T>
struct Run {
  const std::byte* raw;
  uint64_t step, count;
  T* into;
  uint64_t stride;
};

/// Gives the first label that is neither a class nor ignored, or how many there are. All are looked at while they are written: a loop
/// of its own finds the first, so that this one stays one for vectors.
template <class Raw, class T>
uint64_t convert(const Run<T>& run, const FileFeed& f, uint64_t channel) {
  const auto [raw, step, count, into, stride] = run;
  if constexpr (std::is_same_v<T, uint8_t>) {  // bytes of a file of bytes, or nobody asks
    if (step == 1 && stride == 1)
      std::memcpy(into, raw, count);
    else
      for (uint64_t i = 0; i < count; i++) into[i * stride] = uint8_t(raw[i * step]);
    return count;
  }
  const double scale = f.scale[channel % f.scale.size()], shift = f.shift[channel % f.shift.size()];
  const uint32_t classes = f.classes, ignored = uint32_t(f.ignored.value_or(0));  // 0 is a class
  const auto is_odd = [=](uint32_t label) { return uint32_t(label >= classes) & uint32_t(label != ignored); };
  uint32_t odd = 0;
  for (uint64_t i = 0; i < count; i++) {
    const double v = to_double(raw_at<Raw>(raw, i * step)) * scale + shift;
    if constexpr (std::is_same_v<T, int32_t>) {
      const int32_t label = to_label(v);
      into[i * stride] = label;
      odd |= is_odd(uint32_t(label));
    } else
      into[i * stride] = T(v);
  }
  if (odd == 0 || classes == 0) return count;
  uint64_t first = 0;
  while (is_odd(uint32_t(into[first * stride])) == 0) first++;
  return first;
}

/// Elements that follow each other, of one channel, or of all of them in turn from `channel` on: these one channel after the other.
template <class Raw, class T>
uint64_t convert_all(const Run<T>& run, const FileFeed& f, uint64_t channel, bool in_turn) {
  const uint64_t channels = f.shape.channels;
  if (!in_turn || channels == 1 || (f.scale.size() == 1 && f.shift.size() == 1)) return convert<Raw>(run, f, channel);
  for (uint64_t k = 0; k < channels && k < run.count; k++)
    convert<Raw>(Run<T>{run.raw + k * sizeof(Raw), channels, (run.count - k + channels - 1) / channels, run.into + k * run.stride,
                        channels * run.stride},
                 f, (channel + k) % channels);
  return run.count;  // labels have one channel
}

template <class F>
auto on_type(FileType type, F f) {
  switch (type) {
    case FileType::f32:
      return f(float{});
    case FileType::f64:
      return f(double{});
    case FileType::f16:
      return f(F16{});
    case FileType::u8:
      return f(uint8_t{});
    case FileType::i32:
      return f(int32_t{});
    case FileType::i64:
      break;
  }
  return f(int64_t{});
}

/// As it stands in the file.
template <class Raw>
std::string written(Raw raw) {
  if constexpr (std::is_integral_v<Raw>)
    return std::to_string(raw);
  else
    return text(to_double(raw));
}

/// One thread reads at a time, so all files of a value share it.
using Staging = std::shared_ptr<std::vector<std::byte>>;

class FileReader final : public Feed {
 public:
  FileReader(FileFeed options, File file, Staging staging)
      : options_(std::move(options)), file_(std::move(file)), staging_(std::move(staging)) {
    const SampleShape& s = options_.shape;
    pixels_ = s.height * s.width;
    planar_ = options_.layout == FileLayout::nchw && pixels_ > 1 && s.channels > 1;  // else both orders are the same
  }

  Status give(uint64_t sample, uint64_t first, uint64_t count, float* into) override { return read(sample, first, count, into); }
  Status give(uint64_t sample, uint64_t first, uint64_t count, double* into) override { return read(sample, first, count, into); }
  Status give(uint64_t sample, uint64_t first, uint64_t count, int32_t* into) override { return read(sample, first, count, into); }
  Status give(uint64_t sample, uint64_t first, uint64_t count, uint8_t* into) override { return read(sample, first, count, into); }
  uint64_t samples() const override { return options_.samples; }

 private:
  template <class T>
  Status read(uint64_t sample, uint64_t first, uint64_t count, T* into);
  /// Elements [at, at + count) of the tensor, `stride` elements apart in the value; labels among them must be classes.
  template <class T>
  Status read_run(uint64_t at, uint64_t count, T* into, uint64_t stride);
  Result<const std::byte*> fetch(uint64_t offset, uint64_t bytes);
  Status no_class(uint64_t at, const std::string& label) const;

  FileFeed options_;
  File file_;
  uint64_t pixels_ = 1;
  bool planar_ = false;
  Staging staging_;
};

template <class T>
Status FileReader::read(uint64_t sample, uint64_t first, uint64_t count, T* into) {
  const uint64_t channels = options_.shape.channels, base = sample * channels * pixels_;
  if (!planar_) return read_run(base + first, count, into, 1);
  const uint64_t last = first + count;
  for (uint64_t c = 0; c < channels; c++) {
    const uint64_t from = first > c ? (first - c + channels - 1) / channels : 0;  // the first pixel whose channel c is in the range
    const uint64_t to = last > c ? (last - c + channels - 1) / channels : 0;
    if (from >= to) continue;
    if (Status s = read_run(base + c * pixels_ + from, to - from, into + (from * channels + c - first), channels); !s.ok()) return s;
  }
  return {};
}

template <class T>
Status FileReader::read_run(uint64_t at, uint64_t count, T* into, uint64_t stride) {
  const uint64_t element = ELEMENT_BYTES[uint32_t(options_.type)];
  for (uint64_t done = 0; done < count;) {
    const uint64_t n = std::min(count - done, STAGING_BYTES / element);
    const Result<const std::byte*> fetched = fetch(options_.byte_offset + (at + done) * element, n * element);
    if (!fetched.ok()) return fetched.status();
    const std::byte* const raw = fetched.value();
    const Run<T> run{raw, 1, n, into + done * stride, stride};
    const uint64_t channel = planar_ ? at / pixels_ % options_.shape.channels : (at + done) % options_.shape.channels;
    const uint64_t legal = on_type(options_.type, [&](auto type) { return convert_all<decltype(type)>(run, options_, channel, !planar_); });
    if (legal < n)
      return no_class(at + done + legal, on_type(options_.type, [&](auto type) { return written(raw_at<decltype(type)>(raw, legal)); }));
    done += n;
  }
  return {};
}

Result<const std::byte*> FileReader::fetch(uint64_t offset, uint64_t bytes) {
  if (options_.memory) return options_.memory + offset;
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t n = ::pread(file_.fd(), staging_->data() + done, bytes - done, off_t(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return at_fault(options_.path, failed(Code::io, "it cannot be read: ", system_error()));
    if (n == 0) return at_fault(options_.path, failed(Code::io, "it ends at byte ", offset + done, ", before the end of its data"));
    done += uint64_t(n);
  }
  return static_cast<const std::byte*>(staging_->data());
}

constexpr const char* GREY_MASK = "; divide masks of 0 and 255 by 255, or ignore 255 with ignoreIndex (--ignore-index)";

/// Labels have one channel, so all layouts are one.
Status FileReader::no_class(uint64_t at, const std::string& label) const {
  const SampleShape& s = options_.shape;
  const uint64_t pixel = at % pixels_;
  const uint32_t classes = options_.classes;
  const std::string place = pixels_ == 1 ? "" : text(", row ", pixel / s.width, ", column ", pixel % s.width);
  const char* const cure = label == "255" && classes == 2                       ? GREY_MASK
                           : label == std::to_string(classes)                   ? "; do the labels begin at 1?"
                           : label == "255" || label == "-1" || label == "-100" ? "; to ignore this label, set ignoreIndex (--ignore-index)"
                                                                                : "";
  return at_fault(options_.path, refuse("sample ", at / pixels_, place, " (counted from 0): ", label, " is not one of ", classes,
                                        " classes (0 to ", classes - 1, ")", cure));
}

/// Bytes of the tensor, or 0 when there is none or it is absurd.
uint64_t tensor_bytes(const FileFeed& f) {
  uint64_t bytes = ELEMENT_BYTES[uint32_t(f.type)];
  for (const uint64_t n : {f.samples, f.shape.channels, f.shape.height, f.shape.width})
    if (n == 0 || __builtin_mul_overflow(bytes, n, &bytes) || bytes >> 62) return 0;
  return bytes;
}

/// Files one after the other.
class Files final : public Feed {
 public:
  void add(std::unique_ptr<Feed> feed) {
    samples_ += feed->samples();
    ends_.push_back(samples_);
    feeds_.push_back(std::move(feed));
  }
  Status give(uint64_t sample, uint64_t first, uint64_t count, float* into) override { return read(sample, first, count, into); }
  Status give(uint64_t sample, uint64_t first, uint64_t count, double* into) override { return read(sample, first, count, into); }
  Status give(uint64_t sample, uint64_t first, uint64_t count, int32_t* into) override { return read(sample, first, count, into); }
  Status give(uint64_t sample, uint64_t first, uint64_t count, uint8_t* into) override { return read(sample, first, count, into); }
  uint64_t samples() const override { return samples_; }

 private:
  template <class T>
  Status read(uint64_t sample, uint64_t first, uint64_t count, T* into) {
    const size_t at = size_t(std::upper_bound(ends_.begin(), ends_.end(), sample) - ends_.begin());
    return feeds_[at]->give(sample - (at == 0 ? 0 : ends_[at - 1]), first, count, into);
  }

  uint64_t samples_ = 0;
  std::vector<uint64_t> ends_;  // of each file, in samples
  std::vector<std::unique_ptr<Feed>> feeds_;
};

Result<std::unique_ptr<Feed>> open_file(const FileFeed& options, const Staging& staging) {
  const uint64_t bytes = tensor_bytes(options);
  if (bytes == 0) return at_fault(options.path, refuse("its tensor is empty or too large"));
  for (const size_t n : {options.scale.size(), options.shift.size()})
    if (n != 1 && n != options.shape.channels)
      return at_fault(options.path, refuse(n, " scale or shift numbers for ", options.shape.channels, " channels"));
  if (options.memory) return std::unique_ptr<Feed>(std::make_unique<FileReader>(options, File{}, staging));
  File file(::open(options.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return at_fault(options.path, failed(Code::io, "it cannot be opened: ", system_error()));
  struct stat s {};
  if (::fstat(file.fd(), &s) != 0 || !S_ISREG(s.st_mode)) return at_fault(options.path, failed(Code::io, "it is not a regular file"));
  if (options.byte_offset > uint64_t(s.st_size) || bytes > uint64_t(s.st_size) - options.byte_offset)
    return at_fault(options.path,
                    failed(Code::io, "it has ", s.st_size, " bytes; its data need ", bytes, " from byte ", options.byte_offset));
  return std::unique_ptr<Feed>(std::make_unique<FileReader>(options, std::move(file), staging));
}

}  // namespace

Result<std::unique_ptr<Feed>> open_file_feeds(std::span<const FileFeed> files) {
  if (files.empty()) return refuse("no file given");
  const Staging staging = std::make_shared<std::vector<std::byte>>(STAGING_BYTES);
  auto all = std::make_unique<Files>();
  for (const FileFeed& file : files) {
    Result<std::unique_ptr<Feed>> feed = open_file(file, staging);
    if (!feed.ok()) return feed.status();
    all->add(std::move(feed).value());
  }
  return std::unique_ptr<Feed>(std::move(all));
}

}  // namespace spillway
