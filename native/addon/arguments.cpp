// See arguments.hpp: each function checks one kind of value.
#include "addon/arguments.hpp"

#include <cmath>

namespace spillway::addon {
namespace {

constexpr double MAX_COUNT = 0x1p53;

bool present(const Napi::Object& object, const char* key) {
  const Napi::Value v = object.Get(key);
  return !v.IsUndefined() && !v.IsNull();
}

}  // namespace

void fail(Napi::Env env, const std::string& message) { throw Napi::Error::New(env, message); }

Napi::Error error_of(Napi::Env env, const Status& status) {
  Napi::Error error = Napi::Error::New(env, status.message);
  if (!status.file.empty()) error.Set("file", Napi::String::New(env, status.file));
  return error;
}

void require(Napi::Env env, const Status& status) {
  if (!status.ok()) throw error_of(env, status);
}

Napi::Object as_object(const Napi::Value& value, const char* what) {
  if (!value.IsObject() || value.IsArray()) fail(value.Env(), text(what, " must be an object"));
  return value.As<Napi::Object>();
}

Napi::Array as_array(const Napi::Value& value, const char* what) {
  if (!value.IsArray()) fail(value.Env(), text(what, " must be an array"));
  return value.As<Napi::Array>();
}

std::string as_string(const Napi::Value& value, const char* what) {
  if (!value.IsString()) fail(value.Env(), text(what, " must be a string"));
  return value.As<Napi::String>().Utf8Value();
}

double as_number(const Napi::Value& value, const char* what) {
  if (!value.IsNumber()) fail(value.Env(), text(what, " must be a number"));
  return value.As<Napi::Number>().DoubleValue();
}

uint64_t as_count(const Napi::Value& value, const char* what) {
  if (value.IsBigInt()) {
    bool exact = false;
    const uint64_t n = value.As<Napi::BigInt>().Uint64Value(&exact);
    if (exact && n <= uint64_t(MAX_COUNT)) return n;
  } else if (value.IsNumber()) {
    const double n = value.As<Napi::Number>().DoubleValue();
    if (n >= 0 && n <= MAX_COUNT && n == std::floor(n)) return uint64_t(n);
  }
  fail(value.Env(), text(what, " must be a whole number from 0 to 2^53"));
}

std::span<std::byte> bytes_of(const Napi::Value& value, const char* what) {
  if (!value.IsTypedArray() || value.As<Napi::TypedArray>().TypedArrayType() != napi_uint8_array)
    fail(value.Env(), text(what, " must be a Uint8Array"));
  auto array = value.As<Napi::Uint8Array>();
  return {reinterpret_cast<std::byte*>(array.Data()), array.ByteLength()};
}

std::string string_or(const Napi::Object& o, const char* key, const std::string& otherwise) {
  return present(o, key) ? as_string(o.Get(key), key) : otherwise;
}
double number_or(const Napi::Object& o, const char* key, double otherwise) {
  return present(o, key) ? as_number(o.Get(key), key) : otherwise;
}
uint64_t count_or(const Napi::Object& o, const char* key, uint64_t otherwise) {
  return present(o, key) ? as_count(o.Get(key), key) : otherwise;
}

bool bool_or(const Napi::Object& o, const char* key, bool otherwise) {
  if (!present(o, key)) return otherwise;
  if (!o.Get(key).IsBoolean()) fail(o.Env(), text(key, " must be true or false"));
  return o.Get(key).As<Napi::Boolean>().Value();
}

}  // namespace spillway::addon
