// See source.hpp. A file: {path, byteOffset, dtype, shape, layout, scale, shift, classes, ignored}; its shape starts with the number of
// samples. Scale and shift are numbers, or lists of one for each channel.
#include "addon/source.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "addon/arguments.hpp"

namespace spillway::addon {
namespace {

FileType parse_type(Napi::Env env, const std::string& name) {
  constexpr std::pair<const char*, FileType> TYPES[] = {{"f32", FileType::f32}, {"f64", FileType::f64}, {"f16", FileType::f16},
                                                        {"u8", FileType::u8},   {"i32", FileType::i32}, {"i64", FileType::i64}};
  for (const auto& [known, type] : TYPES)
    if (name == known) return type;
  fail(env, text("a file cannot hold '", name, "'; allowed: f32, f64, f16, u8, i32, i64"));
}

/// [N], [N,C], [N,H,W] (one channel), [N,C,H,W] or, with layout NHWC, [N,H,W,C].
void parse_shape(const Napi::Array& shape, FileFeed& f) {
  uint64_t n[4] = {1, 1, 1, 1};
  if (shape.Length() < 1 || shape.Length() > 4) fail(shape.Env(), "a file's shape has one to four numbers");
  for (uint32_t i = 0; i < shape.Length(); i++) n[i] = as_count(shape.Get(i), "shape");
  f.samples = n[0];
  switch (shape.Length()) {
    case 2:
      f.shape = {n[1], 1, 1};
      break;
    case 3:
      f.shape = {1, n[1], n[2]};
      break;
    case 4:
      f.shape = f.layout == FileLayout::nchw ? SampleShape{n[1], n[2], n[3]} : SampleShape{n[3], n[1], n[2]};
      break;
    default:
      f.shape = {1, 1, 1};
  }
}

std::vector<double> parse_factors(const Napi::Object& o, const char* key, double otherwise) {
  const Napi::Value value = o.Get(key);
  if (!value.IsArray()) return {number_or(o, key, otherwise)};
  const Napi::Array list = value.As<Napi::Array>();
  std::vector<double> factors;
  for (uint32_t i = 0; i < list.Length(); i++) factors.push_back(as_number(list.Get(i), key));
  return factors;
}

/// All but where it lies.
FileFeed parse_tensor(const Napi::Object& o) {
  FileFeed f;
  f.type = parse_type(o.Env(), as_string(o.Get("dtype"), "dtype"));
  const std::string layout = string_or(o, "layout", "NCHW");
  if (layout != "NCHW" && layout != "NHWC") fail(o.Env(), text("layout '", layout, "': NCHW or NHWC"));
  f.layout = layout == "NCHW" ? FileLayout::nchw : FileLayout::nhwc;
  parse_shape(as_array(o.Get("shape"), "shape"), f);
  f.scale = parse_factors(o, "scale", 1);
  f.shift = parse_factors(o, "shift", 0);
  f.classes = uint32_t(std::min<uint64_t>(count_or(o, "classes", 0), UINT32_MAX));
  if (o.Has("ignored")) {
    const double ignored = as_number(o.Get("ignored"), "ignored");
    if (!(std::abs(ignored) <= INT32_MAX)) fail(o.Env(), "the ignored label must be a 32-bit whole number");
    f.ignored = int32_t(ignored);
  }
  return f;
}

FileFeed parse_file(const Napi::Object& o) {
  FileFeed f = parse_tensor(o);
  f.path = as_string(o.Get("path"), "path");
  f.byte_offset = count_or(o, "byteOffset", 0);
  return f;
}

/// One file, or several that follow each other.
std::vector<FileFeed> parse_list(const Napi::Value& value, const std::string& name) {
  if (!value.IsArray()) return {parse_file(as_object(value, name.c_str()))};
  const Napi::Array list = value.As<Napi::Array>();
  std::vector<FileFeed> files;
  for (uint32_t i = 0; i < list.Length(); i++) files.push_back(parse_file(as_object(list.Get(i), name.c_str())));
  return files;
}

void add_synthetic(Source& source, const Napi::Object& o, const Tape& tape) {
  SyntheticFeed image{count_or(o, "seed", 0), count_or(o, "samples", 1), 1.0, uint32_t(count_or(o, "classes", 1))};
  if (image.samples == 0 || image.classes == 0) fail(o.Env(), "samples and classes must be at least 1");
  SyntheticFeed target = image;
  target.deviation = 0.1;
  for (uint32_t i = 0; i < tape.bindings.size(); i++)
    if (tape.bindings[i].fed()) source.set_synthetic(i, tape.bindings[i].role == BindingRole::target ? target : image);
}

void add_files(Source& source, const Napi::Object& files, const Tape& tape) {
  for (uint32_t i = 0; i < tape.bindings.size(); i++) {
    if (!tape.bindings[i].fed()) continue;
    const std::string name(tape.name(tape.bindings[i]));
    if (!files.Has(name)) fail(files.Env(), text("'", name, "' is an input of the plan, but no file is given for it"));
    require(files.Env(), source.set_files(i, parse_list(files.Get(name), name)));
  }
}

uint64_t tensor_elements(const FileFeed& f) {
  uint64_t n = f.samples;
  for (const uint64_t d : {f.shape.channels, f.shape.height, f.shape.width})
    if (__builtin_mul_overflow(n, d, &n)) return 0;
  return n;
}

FileFeed parse_slots_of(const Napi::Object& o, const std::string& name) {
  FileFeed f = parse_tensor(o);
  const Napi::Value data = o.Get("data");
  constexpr std::pair<FileType, napi_typedarray_type> TYPES[] = {{FileType::u8, napi_uint8_array},
                                                                 {FileType::i32, napi_int32_array},
                                                                 {FileType::f32, napi_float32_array},
                                                                 {FileType::f64, napi_float64_array}};
  const auto is_type = [&](const auto& t) {
    return t.first == f.type && data.IsTypedArray() && data.As<Napi::TypedArray>().TypedArrayType() == t.second;
  };
  if (std::none_of(std::begin(TYPES), std::end(TYPES), is_type))
    fail(o.Env(), text("'", name, "' must be a typed array of its dtype (u8, i32, f32 or f64)"));
  const auto array = data.As<Napi::TypedArray>();
  if (array.ElementLength() == 0 || array.ElementLength() != tensor_elements(f))
    fail(o.Env(), text("'", name, "' has ", array.ElementLength(), " elements, which does not match its shape"));
  void* bytes = nullptr;
  if (napi_get_typedarray_info(o.Env(), array, nullptr, nullptr, &bytes, nullptr, nullptr) != napi_ok || !bytes)
    fail(o.Env(), text("'", name, "' has no bytes"));
  f.memory = static_cast<const std::byte*>(bytes);
  return f;
}

/// Sets each fed value by `set`, from its array.
template <class F>
void add_arrays(HeldSource& s, const Napi::Object& o, const Tape& tape, F set) {
  const Napi::Object arrays = as_object(o.Get("arrays"), "source.arrays");
  for (uint32_t i = 0; i < tape.bindings.size(); i++) {
    if (!tape.bindings[i].fed()) continue;
    const std::string name(tape.name(tape.bindings[i]));
    if (!arrays.Has(name)) fail(o.Env(), text("'", name, "' is an input of the plan, but no array is given for it"));
    const Napi::Object one = as_object(arrays.Get(name), name.c_str());
    require(o.Env(), set(i, parse_slots_of(one, name)));
    s.held.push_back(Napi::Persistent(one.Get("data").As<Napi::Object>()));
  }
}

void add_slots(HeldSource& s, const Napi::Object& o, const Tape& tape, uint64_t first_step) {
  add_arrays(s, o, tape, [&](uint32_t binding, const FileFeed& array) { return s.source->set_file(binding, array); });
  require(o.Env(), s.source->set_slots(count_or(o, "slots", 0), first_step));
}

void add_bands(HeldSource& s, const Napi::Object& o, const Tape& tape, uint64_t last_step,
               const std::function<void(const BandRequest&)>& ask) {
  add_arrays(s, o, tape, [&](uint32_t binding, const FileFeed& array) { return s.source->set_bands(binding, array, last_step, ask); });
}

void add_order(Source& source, const Napi::Value& value, uint64_t first_step, uint64_t steps) {
  if (value.IsUndefined()) return;
  if (!value.IsTypedArray() || value.As<Napi::TypedArray>().TypedArrayType() != napi_uint32_array)
    fail(value.Env(), "source.order must be a Uint32Array");
  const auto order = value.As<Napi::Uint32Array>();
  require(value.Env(), source.set_order({order.Data(), order.Data() + order.ElementLength()}, first_step, steps));
}

}  // namespace

HeldSource parse_source(const Napi::Value& value, const Tape& tape, uint64_t first_step, uint64_t steps,
                        const std::function<void(const BandRequest&)>& ask) {
  const Napi::Object o = as_object(value, "source");
  const std::string kind = as_string(o.Get("kind"), "source.kind");
  HeldSource s;
  s.source = std::make_unique<Source>(tape);
  if (kind == "synthetic")
    add_synthetic(*s.source, o, tape);
  else if (kind == "files")
    add_files(*s.source, as_object(o.Get("files"), "source.files"), tape);
  else if (kind == "slots")
    add_slots(s, o, tape, first_step);
  else if (kind == "bands")
    add_bands(s, o, tape, count_or(o, "last", first_step + steps - 1), ask);
  else
    fail(value.Env(), text("source.kind '", kind, "': synthetic, files, slots or bands"));
  add_order(*s.source, o.Get("order"), first_step, steps);
  return s;
}

}  // namespace spillway::addon
