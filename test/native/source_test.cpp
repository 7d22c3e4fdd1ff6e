// The data source: any range of a fed value equals the same range of the whole; files in every layout and type; faults.
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "test/native/runs.hpp"

using namespace spillway;
using namespace spillway::testing;

namespace {

constexpr ClassifierShape SHAPE{2, 3, 5, 7, 4};
constexpr uint64_t SAMPLE = 3 * 5 * 7, VALUE = 2 * SAMPLE;

uint32_t binding(const Tape& t, std::string_view name) {
  for (uint32_t i = 0; i < t.bindings.size(); i++)
    if (t.name(t.bindings[i]) == name) return i;
  throw std::runtime_error("no such binding");
}

Tape tape_of(DType real) { return read_tape(classifier(false, real, SHAPE).bytes()).value(); }

template <class T>
std::vector<T> read_range(Source& s, uint32_t binding, uint64_t step, uint64_t first, uint64_t count) {
  std::vector<T> values(count);
  const Status status = s.read(binding, step, first * sizeof(T), std::as_writable_bytes(std::span(values)));
  check(status.ok(), "read", __FILE__, __LINE__, status.message);
  return values;
}

template <class T>
void any_range(Source& s, uint32_t binding, uint64_t size) {
  const std::vector<T> whole = read_range<T>(s, binding, 3, 0, size);
  for (uint64_t first = 0; first < size; first += 1 + first / 7)
    for (uint64_t count = 1; first + count <= size; count += 1 + count / 3) {
      const std::vector<T> part = read_range<T>(s, binding, 3, first, count);
      CHECK(std::equal(part.begin(), part.end(), whole.begin() + ptrdiff_t(first)));
    }
}

void synthetic() {
  const Tape tape = tape_of(DType::f32), wide = tape_of(DType::f64);
  Source s(tape), w(wide);
  const uint32_t x = binding(tape, "image"), y = binding(tape, "labels");
  CHECK_SAYS(s.check(), "no data are given");
  for (Source* source : {&s, &w}) {
    source->set_synthetic(x, {.seed = 9, .samples = 3, .deviation = 2});
    source->set_synthetic(y, {.seed = 9, .samples = 3, .classes = 4});
  }
  CHECK(s.check().ok());
  any_range<float>(s, x, VALUE);
  const auto narrow = read_range<float>(s, x, 1, 0, VALUE);
  const auto doubles = read_range<double>(w, x, 1, 0, VALUE);
  for (uint64_t i = 0; i < VALUE; i++) CHECK(narrow[i] == float(doubles[i]));
  // Three samples, two a step: step 4 has the samples of step 1.
  CHECK(read_range<float>(s, x, 4, 0, VALUE) == narrow);
  CHECK(read_range<float>(s, x, 2, 0, VALUE) != narrow);
  const auto second = read_range<float>(s, x, 2, SAMPLE, SAMPLE);
  CHECK(std::equal(second.begin(), second.end(), narrow.begin()));
  const auto labels = read_range<int32_t>(s, y, 1, 0, 2);
  for (const int32_t l : labels) CHECK(l >= 0 && l < 4);
}

void statistics() {
  std::vector<float> values(200'000);
  CHECK(open_synthetic_feed({.seed = 1, .samples = 1, .deviation = 3}, "x")->give(0, 0, values.size(), values.data()).ok());
  double sum = 0, squares = 0;
  for (const float v : values) {
    sum += v;
    squares += double(v) * v;
  }
  CHECK(std::abs(sum / 200'000) < 0.03);
  CHECK(std::abs(std::sqrt(squares / 200'000) - 3) < 0.03);
  std::vector<int32_t> labels(50'000);
  std::vector<float> kept(values.size());
  const auto feed = open_synthetic_feed({.seed = 1, .samples = 2, .deviation = 3}, "x", values.size());
  for (int again = 0; again < 2; again++) {
    std::fill(kept.begin(), kept.end(), 0.0f);
    CHECK(feed->give(0, 5, values.size() - 5, kept.data() + 5).ok());
    CHECK(feed->give(0, 0, 5, kept.data()).ok());
    CHECK(std::equal(kept.begin(), kept.end(), values.begin()));
  }
  CHECK(open_synthetic_feed({.seed = 1, .samples = 1, .classes = 5}, "y")->give(0, 0, labels.size(), labels.data()).ok());
  int counts[5] = {};
  for (const int32_t l : labels) counts[l]++;
  for (const int n : counts) CHECK(n > 9'500 && n < 10'500);
}

struct TemporaryFile {
  std::string path = "/tmp/spillway-source-XXXXXX";
  template <class T>
  TemporaryFile(const std::vector<T>& values, size_t header) {
    ::close(::mkstemp(path.data()));
    std::ofstream out(path, std::ios::binary);
    out << std::string(header, 'h');
    out.write(reinterpret_cast<const char*>(values.data()), std::streamsize(values.size() * sizeof(T)));
  }
  ~TemporaryFile() { std::filesystem::remove(path); }
};

/// The value at a place of the file's tensor; small enough for every type.
int code(uint64_t n, uint64_t c, uint64_t h, uint64_t w) { return int((n * 101 + c * 37 + h * 11 + w * 3) % 200); }

template <class Raw>
std::vector<Raw> file_values(FileLayout layout, uint64_t samples, Raw (*as)(int)) {
  std::vector<Raw> values;
  for (uint64_t n = 0; n < samples; n++) {
    if (layout == FileLayout::nchw)
      for (uint64_t c = 0; c < 3; c++)
        for (uint64_t h = 0; h < 5; h++)
          for (uint64_t w = 0; w < 7; w++) values.push_back(as(code(n, c, h, w)));
    else
      for (uint64_t h = 0; h < 5; h++)
        for (uint64_t w = 0; w < 7; w++)
          for (uint64_t c = 0; c < 3; c++) values.push_back(as(code(n, c, h, w)));
  }
  return values;
}

template <class Raw>
void file_of(FileType type, Raw (*as)(int)) {
  const Tape tape = tape_of(DType::f64);
  for (const FileLayout layout : {FileLayout::nchw, FileLayout::nhwc}) {
    const TemporaryFile file(file_values<Raw>(layout, 3, as), 77);
    Source s(tape);
    const uint32_t x = binding(tape, "image");
    const Status status = s.set_file(x, {.path = file.path,
                                         .byte_offset = 77,
                                         .type = type,
                                         .layout = layout,
                                         .samples = 3,
                                         .shape = {3, 5, 7},
                                         .scale = {0.5},
                                         .shift = {1}});
    check(status.ok(), "set_file", __FILE__, __LINE__, status.message);
    const auto values = read_range<double>(s, x, 2, 0, VALUE);  // samples 2 and 0
    uint64_t i = 0;
    for (const uint64_t n : {2, 0})
      for (uint64_t h = 0; h < 5; h++)
        for (uint64_t w = 0; w < 7; w++)
          for (uint64_t c = 0; c < 3; c++) CHECK(values[i++] == code(n, c, h, w) * 0.5 + 1);
    any_range<double>(s, x, VALUE);
  }
}

uint16_t half_of(int v) {  // integers below 2048 are exact
  if (v == 0) return 0;
  int e = 0;
  while (v >> (e + 1)) e++;
  return uint16_t((e + 15) << 10 | ((v << (10 - e)) & 1023));
}

void every_type() {
  file_of<float>(FileType::f32, [](int v) { return float(v); });
  file_of<double>(FileType::f64, [](int v) { return double(v); });
  file_of<uint16_t>(FileType::f16, half_of);
  file_of<uint8_t>(FileType::u8, [](int v) { return uint8_t(v); });
  file_of<int32_t>(FileType::i32, [](int v) { return int32_t(v); });
  file_of<int64_t>(FileType::i64, [](int v) { return int64_t(v); });
}

void labels_from_files() {
  const Tape tape = tape_of(DType::f32);
  const uint32_t y = binding(tape, "labels");
  const TemporaryFile file(std::vector<int64_t>{3, 1, int64_t(1) << 40}, 0);
  Source s(tape);
  CHECK(s.set_file(y, {.path = file.path, .type = FileType::i64, .samples = 3}).ok());
  CHECK(read_range<int32_t>(s, y, 1, 0, 2) == (std::vector<int32_t>{3, 1}));
  CHECK(read_range<int32_t>(s, y, 2, 0, 2) == (std::vector<int32_t>{std::numeric_limits<int32_t>::min(), 3}));  // no class is that large
}

/// Two samples of 3 x 2 pixels; the label of one is not among `classes`.
template <class Raw>
Status fed_labels(FileType type, Raw odd, uint32_t classes, int32_t* into, std::optional<int32_t> ignored = {}) {
  const TemporaryFile file(std::vector<Raw>{0, 1, 1, 0, 0, 1, 1, 0, 1, odd, 0, 1}, 5);
  const FileFeed feed{
      .path = file.path, .byte_offset = 5, .type = type, .samples = 2, .shape = {1, 3, 2}, .classes = classes, .ignored = ignored};
  Status fed = open_file_feeds({&feed, 1}).value()->give(1, 0, 6, into);
  CHECK(fed.ok() || fed.file == file.path);
  return fed;
}

void labels_that_are_no_classes() {
  int32_t labels[6];
  CHECK(fed_labels<uint8_t>(FileType::u8, 9, 10, labels).ok() && labels[3] == 9);
  CHECK(fed_labels<uint8_t>(FileType::u8, 255, 0, labels).ok() && labels[3] == 255);  // how many classes there are is not known
  CHECK_SAYS(fed_labels<uint8_t>(FileType::u8, 99, 10, labels),
             "sample 1, row 1, column 1 (counted from 0): 99 is not one of 10 classes (0 to 9)");
  CHECK_SAYS(fed_labels<uint8_t>(FileType::u8, 10, 10, labels), "10 is not one of 10 classes (0 to 9); do the labels begin at 1?");
  CHECK_SAYS(fed_labels<uint8_t>(FileType::u8, 255, 2, labels),
             "255 is not one of 2 classes (0 to 1); divide masks of 0 and 255 by 255, or ignore 255 with ignoreIndex (--ignore-index)");
  CHECK_SAYS(fed_labels<int32_t>(FileType::i32, -1, 10, labels), ": -1 is not one of 10 classes");
  CHECK_SAYS(fed_labels<int64_t>(FileType::i64, (int64_t(1) << 40) + 1, 10, labels), ": 1099511627777 is not one of 10 classes");
  CHECK_SAYS(fed_labels<int64_t>(FileType::i64, std::numeric_limits<int64_t>::min(), 10, labels),
             ": -9223372036854775808 is not one of 10 classes");
  CHECK(fed_labels<uint8_t>(FileType::u8, 255, 10, labels, 255).ok() && labels[3] == 255);
  CHECK(fed_labels<int64_t>(FileType::i64, -1, 10, labels, -1).ok() && labels[3] == -1);
  CHECK_SAYS(fed_labels<int64_t>(FileType::i64, int64_t(1) << 32, 10, labels, 0), ": 4294967296 is not one of 10 classes");
  CHECK_SAYS(fed_labels<int32_t>(FileType::i32, 254, 10, labels, 255), ": 254 is not one of 10 classes");
  CHECK_SAYS(fed_labels<float>(FileType::f32, std::numeric_limits<float>::quiet_NaN(), 10, labels), ": nan is not one of 10 classes");
  CHECK_SAYS(fed_labels<uint16_t>(FileType::f16, 0x7c00, 10, labels), ": inf is not one of 10 classes");
}

/// For an image: one label a sample. Also beyond the first piece that is read at once.
void labels_of_samples() {
  constexpr uint64_t MANY = (uint64_t(1) << 20) + 7;
  std::vector<uint8_t> labels(MANY, 3);
  labels[MANY - 2] = 4;
  const TemporaryFile file(labels, 0);
  std::vector<int32_t> into(MANY);
  const FileFeed wide{.path = file.path, .type = FileType::u8, .samples = 1, .shape = {1, 1, MANY}, .classes = 4};
  CHECK_SAYS(open_file_feeds({&wide, 1}).value()->give(0, 0, MANY, into.data()), "sample 0, row 0, column 1048581 (counted from 0): 4 is");
  const FileFeed many{.path = file.path, .type = FileType::u8, .samples = MANY, .classes = 4};
  CHECK_SAYS(open_file_feeds({&many, 1}).value()->give(MANY - 2, 0, 1, into.data()),
             "sample 1048581 (counted from 0): 4 is not one of 4 classes");
  CHECK(open_file_feeds({&many, 1}).value()->give(MANY - 1, 0, 1, into.data()).ok());
}

/// Two files of two and one samples are one file of three.
void several_files() {
  const Tape tape = tape_of(DType::f32);
  const uint32_t x = binding(tape, "image");
  const std::vector<uint8_t> all = file_values<uint8_t>(FileLayout::nchw, 3, [](int v) { return uint8_t(v); });
  const TemporaryFile whole(all, 0), two(std::vector(all.begin(), all.begin() + 2 * SAMPLE), 8),
      last(std::vector(all.begin() + 2 * SAMPLE, all.end()), 0);
  const auto file = [](const TemporaryFile& f, uint64_t offset, uint64_t samples) {
    return FileFeed{.path = f.path, .byte_offset = offset, .type = FileType::u8, .samples = samples, .shape = {3, 5, 7}};
  };
  Source one(tape), many(tape);
  CHECK(one.set_file(x, file(whole, 0, 3)).ok());
  const FileFeed files[] = {file(two, 8, 2), file(last, 0, 1)};
  CHECK(many.set_files(x, files).ok());
  for (const uint64_t step : {1, 2, 3}) CHECK(read_range<float>(many, x, step, 0, VALUE) == read_range<float>(one, x, step, 0, VALUE));
  any_range<float>(many, x, VALUE);
  CHECK_SAYS(many.set_files(x, {}), "no file given");
}

/// A network on bytes gets those of the file, pixel by pixel, in a quarter of a float's memory; other numbers are refused.
void bytes_as_they_are() {
  const Tape tape = tape_of(DType::f32);
  Tape narrow = tape_of(DType::f32);
  const uint32_t x = binding(tape, "image");
  narrow.bindings[x].dtype = DType::u8;
  for (const FileLayout layout : {FileLayout::nchw, FileLayout::nhwc}) {
    const TemporaryFile file(file_values<uint8_t>(layout, 3, [](int v) { return uint8_t(v); }), 0);
    FileFeed f{.path = file.path, .type = FileType::u8, .layout = layout, .samples = 3, .shape = {3, 5, 7}};
    Source floats(tape), bytes(narrow);
    CHECK(floats.set_file(x, f).ok() && bytes.set_file(x, f).ok());
    const std::vector<float> wide = read_range<float>(floats, x, 2, 0, VALUE);
    CHECK(read_range<uint8_t>(bytes, x, 2, 0, VALUE) == std::vector<uint8_t>(wide.begin(), wide.end()));
    any_range<uint8_t>(bytes, x, VALUE);
    f.scale = {0.5};
    CHECK_SAYS(bytes.set_file(x, f), "'image' takes unscaled bytes (u8)");
    f.scale = {1};
    f.type = FileType::f32;
    CHECK_SAYS(bytes.set_file(x, f), "'image' takes unscaled bytes (u8)");
  }
  Source drawn(narrow);
  drawn.set_synthetic(x, {.seed = 9, .samples = 3});
  any_range<uint8_t>(drawn, x, VALUE);
}

/// Three batches of two in memory: each step finds its own, by either layout, scaled by channel.
void slots_in_memory() {
  const Tape tape = tape_of(DType::f64);
  const uint32_t x = binding(tape, "image"), y = binding(tape, "labels");
  const std::vector<int32_t> labels{0, 1, 2, 3, 0, 1};
  for (const FileLayout layout : {FileLayout::nchw, FileLayout::nhwc}) {
    const std::vector<uint8_t> bytes = file_values<uint8_t>(layout, 6, [](int v) { return uint8_t(v); });
    Source s(tape);
    const FileFeed images{.memory = reinterpret_cast<const std::byte*>(bytes.data()),
                          .type = FileType::u8,
                          .layout = layout,
                          .samples = 6,
                          .shape = {3, 5, 7},
                          .scale = {0.5, 2, 4},
                          .shift = {1, 2, 3}};
    CHECK(s.set_file(x, images).ok());
    CHECK(s.set_file(y, {.memory = reinterpret_cast<const std::byte*>(labels.data()), .type = FileType::i32, .samples = 6, .classes = 4})
              .ok());
    CHECK_SAYS(s.set_slots(2, 1), "has slots for 6 samples, not for 2 steps of 2");
    CHECK(s.set_slots(3, 4).ok());
    s.put(5);
    const auto values = read_range<double>(s, x, 5, 0, VALUE);  // the third place: samples 4 and 5
    uint64_t i = 0;
    for (const uint64_t n : {4, 5})
      for (uint64_t h = 0; h < 5; h++)
        for (uint64_t w = 0; w < 7; w++)
          for (uint64_t c = 0; c < 3; c++) CHECK(values[i++] == code(n, c, h, w) * (c == 0 ? 0.5 : c == 1 ? 2 : 4) + double(c + 1));
    CHECK(read_range<int32_t>(s, y, 4, 0, 2) == (std::vector<int32_t>{2, 3}));
    CHECK(s.same(4, 4) && !s.same(4, 7));
    std::vector<double> into(4);
    const auto ask = [&](uint64_t step) { return s.read(x, step, 0, std::as_writable_bytes(std::span(into))); };
    Status late;
    std::thread waits([&] { late = ask(6); });
    s.put(6);
    waits.join();
    CHECK(late.ok());
    std::thread left([&] { late = ask(7); });
    s.interrupt();
    left.join();
    CHECK(late.code == Code::cancelled);
    FileFeed bad = images;
    bad.scale = {1, 2};
    CHECK_SAYS(s.set_file(x, bad), "2 scale or shift numbers for 3 channels");
  }
}

/// Two images of one band and a half in memory, whose bands come when they are asked for, in any order.
void bands_in_memory() {
  const Tape tape = tape_of(DType::f64);
  const uint32_t x = binding(tape, "image");
  constexpr uint64_t SLOTS = 2, BAND = 3 * 3 * 7;
  std::vector<uint8_t> place(SLOTS * BAND);
  std::vector<uint64_t> asked;
  Source s(tape);
  const FileFeed rows{.memory = reinterpret_cast<const std::byte*>(place.data()),
                      .type = FileType::u8,
                      .layout = FileLayout::nhwc,
                      .samples = SLOTS,
                      .shape = {3, 3, 7},
                      .scale = {0.5, 2, 4},
                      .shift = {1, 2, 3}};
  const auto ask = [&](const BandRequest& r) {
    asked.push_back(r.band.b * 2 + r.band.number);
    CHECK(r.binding == x && r.slot < SLOTS);
    const uint64_t n = r.band.b, top = r.band.number * 3;
    for (uint64_t h = top; h < std::min<uint64_t>(5, top + 3); h++)
      for (uint64_t w = 0; w < 7; w++)
        for (uint64_t c = 0; c < 3; c++) place[r.slot * BAND + ((h - top) * 7 + w) * 3 + c] = uint8_t(code(n, c, h, w));
    s.put(r.ticket);
  };
  FileFeed wide = rows;
  wide.shape.height = 6;
  CHECK_SAYS(s.set_bands(x, wide, 2, ask), "bands of [6,7,3], but 'image' takes [5,7,3]");
  FileFeed none = rows;
  none.samples = 0;
  CHECK_SAYS(s.set_bands(x, none, 2, ask), "'image' takes [5,7,3]");
  CHECK(s.set_bands(x, rows, 2, ask).ok());
  const auto value = [&](uint64_t i) {
    const uint64_t c = i % 3, w = i / 3 % 7, h = i / 21 % 5, n = i / 105;
    return code(n, c, h, w) * (c == 0 ? 0.5 : c == 1 ? 2 : 4) + double(c + 1);
  };
  const auto all = read_range<double>(s, x, 1, 0, VALUE);
  for (uint64_t i = 0; i < VALUE; i++) CHECK(all[i] == value(i));
  CHECK(asked == (std::vector<uint64_t>{0, 1, 2, 3, 0}));  // the last one is the next step's
  const auto some = read_range<double>(s, x, 2, 50, 20);   // rows 2 and 3 of the first image, of another step
  for (uint64_t i = 0; i < 20; i++) CHECK(some[i] == value(50 + i));
  CHECK(asked == (std::vector<uint64_t>{0, 1, 2, 3, 0, 1, 2}));
  CHECK(s.same(2, 2) && !s.same(1, 2));

  Source left(tape);
  CHECK(left.set_bands(x, rows, 2, [](const BandRequest&) {}).ok());
  std::vector<double> into(4);
  Status late;
  std::thread waits([&] { late = left.read(x, 1, 0, std::as_writable_bytes(std::span(into))); });
  left.interrupt();
  waits.join();
  CHECK(late.code == Code::cancelled);
}

void orders() {
  const Tape tape = tape_of(DType::f32);
  const uint32_t x = binding(tape, "image");
  const TemporaryFile file(file_values<uint8_t>(FileLayout::nchw, 3, [](int v) { return uint8_t(v); }), 0);
  Source turn(tape), order(tape);
  for (Source* s : {&turn, &order}) CHECK(s->set_file(x, {.path = file.path, .type = FileType::u8, .samples = 3, .shape = {3, 5, 7}}).ok());
  CHECK(order.set_order({2, 0, 0, 1, 2, 0}, 7, 3).ok());
  CHECK(read_range<float>(order, x, 7, 0, VALUE) == read_range<float>(turn, x, 2, 0, VALUE));
  CHECK(read_range<float>(order, x, 8, 0, VALUE) == read_range<float>(turn, x, 1, 0, VALUE));
  CHECK(order.same(7, 9) && !order.same(7, 8));
  any_range<float>(turn, x, VALUE);
  CHECK_SAYS(order.set_order({0, 3}, 1, 1), "contains sample 3 of 3");
  CHECK_SAYS(order.set_order({0, 1, 2}, 1, 1), "does not match 1 steps of 2");
}

void faults() {
  const Tape tape = tape_of(DType::f32);
  const uint32_t x = binding(tape, "image");
  const TemporaryFile file(file_values<uint8_t>(FileLayout::nchw, 3, [](int v) { return uint8_t(v); }), 0);
  Source s(tape);
  const FileFeed good{.path = file.path, .type = FileType::u8, .samples = 3, .shape = {3, 5, 7}};
  FileFeed f = good;
  f.shape = {3, 7, 5};
  CHECK_SAYS(s.set_file(x, f), "samples of [3,7,5], but 'image' takes [3,5,7]");
  f = good;
  f.samples = 4;
  CHECK_SAYS(s.set_file(x, f), "has 315 bytes; its data need 420");
  f.samples = uint64_t(1) << 60;
  CHECK_SAYS(s.set_file(x, f), "too large");
  f = good;
  f.path = file.path + ".missing";
  CHECK_SAYS(s.set_file(x, f), "it cannot be opened");
  f.path = "/tmp";
  CHECK_SAYS(s.set_file(x, f), "not a regular file");
  CHECK(s.set_file(x, good).ok());
  std::filesystem::resize_file(file.path, 100);  // it shrinks under us
  std::vector<float> into(VALUE);
  CHECK_SAYS(s.read(x, 2, 0, std::as_writable_bytes(std::span(into))), "before the end of its data");
}

}  // namespace

int main() {
  test("synthetic values: any range, any float type, cycling samples", synthetic);
  test("synthetic values are normal, labels uniform", statistics);
  test("files of every type and layout", every_type);
  test("labels from files", labels_from_files);
  test("labels that are no classes are refused with their place", labels_that_are_no_classes);
  test("labels of samples, and beyond a piece", labels_of_samples);
  test("batches in memory: in their places, waited for, left", slots_in_memory);
  test("bands in memory: requested, waited for, released", bands_in_memory);
  test("bytes as they are", bytes_as_they_are);
  test("samples in a given order", orders);
  test("several files follow each other", several_files);
  test("bad and shrinking files are refused", faults);
  return finish();
}
