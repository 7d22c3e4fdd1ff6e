// Cuts a range of a fed value into ranges of samples, in their order; synthetic values by counter.
#include "runtime/source.hpp"

#include <algorithm>

#include "runtime/random.hpp"

namespace spillway {
namespace {

/// Made-up samples no larger than this together are made once: drawing them takes longer than many a kernel.
constexpr uint64_t MOST_KEPT_BYTES = uint64_t(16) << 20;

class Synthetic final : public Feed {
 public:
  Synthetic(const SyntheticFeed& o, std::string_view binding, uint64_t sample_elements)
      : options_(o), stream_(stream_of(binding)), size_(sample_elements) {
    if (size_ == 0 || o.samples > MOST_KEPT_BYTES / sizeof(float) / size_) return;
    kept_.resize(o.samples * size_);
    made_.resize(o.samples);
  }

  Status give(uint64_t sample, uint64_t first, uint64_t count, float* into) override {
    if (kept_.empty()) return normal(sample, first, count, into);
    float* const whole = kept_.data() + sample * size_;
    if (!made_[sample]) normal(sample, 0, size_, whole);
    made_[sample] = true;
    std::copy_n(whole + first, count, into);
    return {};
  }
  Status give(uint64_t sample, uint64_t first, uint64_t count, double* into) override { return normal(sample, first, count, into); }
  Status give(uint64_t sample, uint64_t first, uint64_t count, int32_t* into) override {
    fill_labels(into, first, count, options_.classes, key(sample));
    return {};
  }
  Status give(uint64_t sample, uint64_t first, uint64_t count, uint8_t* into) override {
    int32_t drawn[1024];
    for (uint64_t done = 0; done < count; done += std::size(drawn)) {
      const uint64_t n = std::min<uint64_t>(std::size(drawn), count - done);
      fill_labels(drawn, first + done, n, 256, key(sample));
      std::copy_n(drawn, n, into + done);
    }
    return {};
  }
  uint64_t samples() const override { return options_.samples; }

 private:
  template <class T>
  Status normal(uint64_t sample, uint64_t first, uint64_t count, T* into) {
    fill_random(into, first, count, Dist::normal, options_.deviation, key(sample));
    return {};
  }
  RandomStream key(uint64_t sample) const { return {options_.seed, stream_ + sample * 0x9e3779b97f4a7c15}; }

  SyntheticFeed options_;
  uint64_t stream_, size_;
  std::vector<float> kept_;
  std::vector<bool> made_;  // by sample
};

}  // namespace

std::unique_ptr<Feed> open_synthetic_feed(const SyntheticFeed& options, std::string_view binding, uint64_t sample_elements) {
  return std::make_unique<Synthetic>(options, binding, sample_elements);
}

Source::Source(const Tape& tape) : tape_(tape) {
  for (const BindingRecord& b : tape.bindings) {
    const ViewRecord& v = tape.views[b.view];
    const uint64_t row = uint64_t(v.dims[1]) * v.dims[3];
    fed_.push_back({b.dtype,
                    v.dims[0],
                    {v.dims[1], b.fed() ? v.extent[2] : v.dims[2], v.dims[3]},
                    b.fed() ? v.origin[2] * row : 0,
                    v.dims[2] * row,
                    nullptr});
  }
}

void Source::set_synthetic(uint32_t binding, const SyntheticFeed& options) {
  const Fed& fed = fed_[binding];
  const uint64_t sample_elements = fed.dtype == DType::f32 || fed.dtype == DType::bf16 || fed.dtype == DType::f16
                                       ? fed.shape.channels * fed.shape.height * fed.shape.width
                                       : 0;
  fed_[binding].feed = open_synthetic_feed(options, tape_.name(tape_.bindings[binding]), sample_elements);
}

Status Source::set_files(uint32_t binding, std::span<const FileFeed> files) {
  const SampleShape& want = fed_[binding].shape;
  for (const FileFeed& file : files)
    if (const SampleShape& have = file.shape; have.channels != want.channels || have.height != want.height || have.width != want.width)
      return at_fault(file.path,
                      refuse("samples of [", have.channels, ",", have.height, ",", have.width, "], but '",
                             tape_.name(tape_.bindings[binding]), "' takes [", want.channels, ",", want.height, ",", want.width, "]"));
  for (const FileFeed& file : files)
    if (fed_[binding].dtype == DType::u8 && !file.is_bytes())
      return at_fault(file.path, refuse("'", tape_.name(tape_.bindings[binding]), "' takes unscaled bytes (u8)"));
  Result<std::unique_ptr<Feed>> feed = open_file_feeds(files);
  if (!feed.ok()) return feed.status();
  fed_[binding].feed = std::move(feed).value();
  return {};
}

Status Source::set_order(std::vector<uint32_t> order, uint64_t first_step, uint64_t steps) {
  for (const Fed& f : fed_) {
    if (!f.feed) continue;
    if (order.size() / f.batch != steps || order.size() % f.batch != 0)
      return refuse("an order of ", order.size(), " samples does not match ", steps, " steps of ", f.batch);
    for (const uint32_t n : order)
      if (n >= f.feed->samples() && slots_ == 0) return refuse("the order contains sample ", n, " of ", f.feed->samples());
  }
  order_ = std::move(order);
  first_step_ = first_step;
  return {};
}

Status Source::set_slots(uint64_t slots, uint64_t first_step) {
  for (size_t i = 0; i < fed_.size(); i++)
    if (fed_[i].feed && (slots == 0 || fed_[i].feed->samples() != slots * fed_[i].batch))
      return refuse("'", tape_.name(tape_.bindings[i]), "' has slots for ", fed_[i].feed->samples(), " samples, not for ", slots,
                    " steps of ", fed_[i].batch);
  slots_ = slots;
  put_ = first_step - 1;
  return {};
}

Status Source::set_bands(uint32_t binding, const FileFeed& place, uint64_t last_step, std::function<void(const BandRequest&)> ask) {
  Fed& fed = fed_[binding];
  const SampleShape &have = place.shape, &want = fed.shape;
  if (have.channels != want.channels || have.width != want.width || have.height == 0 || have.height > want.height || place.samples == 0 ||
      (place.layout == FileLayout::nchw && have.channels > 1))
    return refuse("bands of [", have.height, ",", have.width, ",", have.channels, "], but '", tape_.name(tape_.bindings[binding]),
                  "' takes [", want.height, ",", want.width, ",", want.channels, "]");
  if (fed.dtype == DType::u8 && !place.is_bytes()) return refuse("'", tape_.name(tape_.bindings[binding]), "' takes unscaled bytes (u8)");
  Result<std::unique_ptr<Feed>> feed = open_file_feeds({&place, 1});
  if (!feed.ok()) return feed.status();
  fed.feed = std::move(feed).value();
  fed.band_rows = have.height;
  fed.slots.resize(place.samples);
  fed.wanted.reserve(place.samples);
  fed.order = bands_in_order(binding);
  last_step_ = last_step;
  ask_ = std::move(ask);
  return {};
}

std::vector<Band> Source::bands_in_order(uint32_t binding) const {
  const Fed& fed = fed_[binding];
  const uint64_t band = fed.band_rows * fed.shape.width * fed.shape.channels, element = dtype_bytes(fed.dtype);
  std::vector<Band> order;
  const auto add = [&](const InstrRecord& i, bool ahead) {
    if (i.tag != Tag::swap_in) return;
    const TransferRecord& t = tape_.transfers[i.a];
    if (!t.from_source() || t.binding != binding || tape_.is_ahead(t) != ahead) return;
    const uint64_t end = (t.far_offset + t.bytes) / element;
    for (uint64_t at = t.far_offset / element; at < end;) {
      const uint64_t within = at % fed.elements, of_sample = fed.first + within;
      const Band next{0, at / fed.elements, of_sample / band};
      if (order.empty() || order.back() != next) order.push_back(next);
      at += std::min(band - of_sample % band, fed.elements - within);
    }
  };
  // A step's data are read from the end of the step before on.
  for (const bool ahead : {true, false})
    for (const InstrRecord& i : tape_.instrs) add(i, ahead);
  return order;
}

/// Worked example, 3 slots, the order 0 1 2 1 2 3: at band 1 of the step, bands 1, 2 and 3 are wanted.
void Source::find_wanted(Fed& fed, const Band& band) const {
  const size_t n = fed.order.size();
  const auto is_band = [&](size_t i) { return fed.order[i].b == band.b && fed.order[i].number == band.number; };
  fed.wanted.assign(1, band);
  size_t steps = 0;
  while (steps < n && !is_band((fed.at + steps) % n)) steps++;
  if (steps == n) return;
  fed.at = (fed.at + steps) % n;
  for (size_t i = 1; i <= n && fed.wanted.size() < fed.slots.size(); i++) {
    const size_t at = fed.at + i;
    const Band& then = fed.order[at % n];
    const Band next{band.step + at / n, then.b, then.number};
    if (next.step > last_step_) return;
    if (std::find(fed.wanted.begin(), fed.wanted.end(), next) == fed.wanted.end()) fed.wanted.push_back(next);
  }
}

/// A slot for a band that is in none: one whose band is not wanted. None, if each slot is wanted or is being written.
std::optional<BandRequest> Source::claimed(uint32_t binding, const Band& band) {
  Fed& fed = fed_[binding];
  const auto is_free = [&](const BandSlot& s) {
    return (s.held || s.band.step == 0) && std::find(fed.wanted.begin(), fed.wanted.end(), s.band) == fed.wanted.end();
  };
  const auto free = std::find_if(fed.slots.begin(), fed.slots.end(), is_free);
  if (free == fed.slots.end()) return {};
  *free = {band, ++ticket_, false};
  return BandRequest{binding, band, uint64_t(free - fed.slots.begin()), ticket_};
}

/// Gives the slot that holds the band.
Result<uint64_t> Source::bring(uint32_t binding, const Band& band) {
  Fed& fed = fed_[binding];
  const auto slot_of = [&](const Band& b) {
    return std::find_if(fed.slots.begin(), fed.slots.end(), [&](const BandSlot& s) { return s.band == b; });
  };
  find_wanted(fed, band);
  std::unique_lock lock(mutex_);
  while (!interrupted_) {
    for (const Band& wanted : fed.wanted) {
      if (slot_of(wanted) != fed.slots.end()) continue;
      const std::optional<BandRequest> request = claimed(binding, wanted);
      if (!request) break;
      lock.unlock();
      ask_(*request);
      lock.lock();
    }
    const auto slot = slot_of(band);
    if (slot != fed.slots.end() && slot->held) return uint64_t(slot - fed.slots.begin());
    if (!interrupted_) changed_.wait(lock);
  }
  return failed(Code::cancelled, "the source was interrupted");
}

void Source::put(uint64_t number) {
  {
    const std::lock_guard lock(mutex_);
    put_ = std::max(put_, number);
    for (Fed& fed : fed_)
      for (BandSlot& slot : fed.slots) slot.held |= slot.ticket == number;
  }
  changed_.notify_all();
}

void Source::interrupt() {
  {
    const std::lock_guard lock(mutex_);
    interrupted_ = true;
  }
  changed_.notify_all();
}

Status Source::is_there(uint64_t step) {
  if (slots_ == 0) return {};
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return put_ >= step || interrupted_; });
  return put_ >= step ? Status{} : failed(Code::cancelled, "the source was interrupted");
}

uint64_t Source::sample_of(const Fed& fed, uint64_t step, uint64_t b) const {
  if (slots_ > 0) return step % slots_ * fed.batch + b;
  if (!order_.empty()) return order_[(step - first_step_) * fed.batch + b];
  return ((step - 1) * fed.batch + b) % fed.feed->samples();
}

Status Source::check() const {
  for (size_t i = 0; i < fed_.size(); i++)
    if (tape_.bindings[i].fed() && !fed_[i].feed)
      return refuse("'", tape_.name(tape_.bindings[i]), "' is an input of the plan, but no data are given for it");
  return {};
}

template <class T>
Status Source::give_bands(uint32_t binding, uint64_t step, uint64_t b, uint64_t first, uint64_t count, T* into) {
  Fed& fed = fed_[binding];
  const uint64_t band = fed.band_rows * fed.shape.width * fed.shape.channels;
  while (count > 0) {
    const uint64_t n = std::min(count, band - first % band);
    const Result<uint64_t> slot = bring(binding, {step, b, first / band});
    if (!slot.ok()) return slot.status();
    if (Status s = fed.feed->give(slot.value(), first % band, n, into); !s.ok()) return s;
    first += n;
    count -= n;
    into += n;
  }
  return {};
}

template <class T>
Status Source::give(uint32_t binding, uint64_t step, uint64_t first, uint64_t count, T* into) {
  Fed& fed = fed_[binding];
  const uint64_t size = fed.elements;
  while (count > 0) {
    const uint64_t b = first / size;
    const uint64_t n = std::min(count, size - first % size);
    const uint64_t from = fed.first + first % size;
    Status s = fed.band_rows > 0 ? give_bands(binding, step, b, from, n, into) : fed.feed->give(sample_of(fed, step, b), from, n, into);
    if (!s.ok()) return s;
    first += n;
    count -= n;
    into += n;
  }
  return {};
}

template <class Half>
Status Source::give_rounded(uint32_t binding, uint64_t step, uint64_t first, std::span<Half> into) {
  for (uint64_t done = 0; done < into.size(); done += wide_.size()) {
    const uint64_t n = std::min<uint64_t>(wide_.size(), into.size() - done);
    if (Status s = give(binding, step, first + done, n, wide_.data()); !s.ok()) return s;
    for (uint64_t i = 0; i < n; i++) into[done + i] = Half(wide_[i]);
  }
  return {};
}

bool Source::same(uint64_t step, uint64_t other) const {
  if (slots_ > 0 || ask_) return step == other;
  if (!order_.empty())
    return std::all_of(fed_.begin(), fed_.end(), [&](const Fed& f) {
      const auto row = [&](uint64_t s) { return order_.begin() + ptrdiff_t((s - first_step_) * f.batch); };
      return !f.feed || std::equal(row(step), row(step) + ptrdiff_t(f.batch), row(other));
    });
  return std::all_of(fed_.begin(), fed_.end(), [&](const Fed& f) {
    return !f.feed || (std::max(step, other) - std::min(step, other)) * f.batch % f.feed->samples() == 0;
  });
}

Status Source::read(uint32_t binding, uint64_t step, uint64_t offset, std::span<std::byte> into) {
  Fed& fed = fed_[binding];
  if (!fed.feed) return refuse("'", tape_.name(tape_.bindings[binding]), "' has no data");
  if (Status s = is_there(step); !s.ok()) return s;
  const uint64_t element = dtype_bytes(fed.dtype), first = offset / element, count = into.size() / element;
  switch (fed.dtype) {
    case DType::f32:
      return give(binding, step, first, count, reinterpret_cast<float*>(into.data()));
    case DType::f64:
      return give(binding, step, first, count, reinterpret_cast<double*>(into.data()));
    case DType::i32:
      return give(binding, step, first, count, reinterpret_cast<int32_t*>(into.data()));
    case DType::u8:
      return give(binding, step, first, count, reinterpret_cast<uint8_t*>(into.data()));
    case DType::bf16:
      return give_rounded(binding, step, first, std::span(reinterpret_cast<Bf16*>(into.data()), count));
    case DType::f16:
      return give_rounded(binding, step, first, std::span(reinterpret_cast<F16*>(into.data()), count));
  }
  return refuse("unknown element type");
}

}  // namespace spillway
