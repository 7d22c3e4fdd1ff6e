// See source.hpp. A file: {path, byteOffset, dtype, shape, layout, scale, shift, classes, ignored}; its shape starts with the number of samples.
#include "addon/source.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "addon/arguments.hpp"

namespace spillway::addon {
namespace {

FileType parse_type(Napi::Env env, const std::string& name) {
  constexpr std::pair<const char*, FileType> TYPES[] = {{"f32", FileType::f32}, {"f64", FileType::f64}, {"f16", FileType::f16},
                                                        {"u8", FileType::u8}, {"i32", FileType::i32}, {"i64", FileType::i64}};
  for (const auto& [known, type] : TYPES)
    if (name == known) return type;
  fail(env, text("files of '", name, "' cannot be read: f32, f64, f16, u8, i32, i64"));
}

/// [N], [N,C], [N,H,W] (one channel), [N,C,H,W] or, with layout NHWC, [N,H,W,C].
void parse_shape(const Napi::Array& shape, FileFeed& f) {
  uint64_t n[4] = {1, 1, 1, 1};
  if (shape.Length() < 1 || shape.Length() > 4) fail(shape.Env(), "a file's shape has one to four numbers");
  for (uint32_t i = 0; i < shape.Length(); i++) n[i] = as_count(shape.Get(i), "shape");
  f.samples = n[0];
  switch (shape.Length()) {
    case 2: f.shape = {n[1], 1, 1}; break;
    case 3: f.shape = {1, n[1], n[2]}; break;
    case 4: f.shape = f.layout == FileLayout::nchw ? SampleShape{n[1], n[2], n[3]} : SampleShape{n[3], n[1], n[2]}; break;
    default: f.shape = {1, 1, 1};
  }
}

FileFeed parse_file(const Napi::Object& o) {
  FileFeed f;
  f.path = as_string(o.Get("path"), "path");
  f.byte_offset = count_or(o, "byteOffset", 0);
  f.type = parse_type(o.Env(), as_string(o.Get("dtype"), "dtype"));
  const std::string layout = string_or(o, "layout", "NCHW");
  if (layout != "NCHW" && layout != "NHWC") fail(o.Env(), text("layout '", layout, "': NCHW or NHWC"));
  f.layout = layout == "NCHW" ? FileLayout::nchw : FileLayout::nhwc;
  parse_shape(as_array(o.Get("shape"), "shape"), f);
  f.scale = number_or(o, "scale", 1);
  f.shift = number_or(o, "shift", 0);
  f.classes = uint32_t(std::min<uint64_t>(count_or(o, "classes", 0), UINT32_MAX));
  if (o.Has("ignored")) {
    const double ignored = as_number(o.Get("ignored"), "ignored");
    if (!(std::abs(ignored) <= INT32_MAX)) fail(o.Env(), "what is ignored must be a whole number of 32 bits");
    f.ignored = int32_t(ignored);
  }
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
    if (!files.Has(name)) fail(files.Env(), text("'", name, "' is fed from outside, but no file is given for it"));
    require(files.Env(), source.set_files(i, parse_list(files.Get(name), name)));
  }
}

}  // namespace

std::unique_ptr<Source> parse_source(const Napi::Value& value, const Tape& tape) {
  const Napi::Object o = as_object(value, "source");
  const std::string kind = as_string(o.Get("kind"), "source.kind");
  auto source = std::make_unique<Source>(tape);
  if (kind == "synthetic") add_synthetic(*source, o, tape);
  else if (kind == "files") add_files(*source, as_object(o.Get("files"), "source.files"), tape);
  else fail(value.Env(), text("source.kind '", kind, "': synthetic or files"));
  return source;
}

}  // namespace spillway::addon
