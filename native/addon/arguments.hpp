// JavaScript values as C++ values. The result is a checked value, or a JavaScript error that names the field.
#pragma once
#include <napi.h>

#include <span>
#include <string>

#include "core/result.hpp"

namespace spillway::addon {

[[noreturn]] void fail(Napi::Env env, const std::string& message);
/// A status as a JavaScript error, with the file that is at fault.
Napi::Error error_of(Napi::Env env, const Status& status);
/// Throws it when it is one.
void require(Napi::Env env, const Status& status);

template <class T>
T take(Napi::Env env, Result<T> result) {
  if (!result.ok()) throw error_of(env, result.status());
  return std::move(result).value();
}

Napi::Object as_object(const Napi::Value& value, const char* what);
Napi::Array as_array(const Napi::Value& value, const char* what);
std::string as_string(const Napi::Value& value, const char* what);
double as_number(const Napi::Value& value, const char* what);
/// The bytes of a Uint8Array.
std::span<std::byte> bytes_of(const Napi::Value& value, const char* what);
/// A whole number of at most 2^53, as Number or BigInt.
uint64_t as_count(const Napi::Value& value, const char* what);

/// Fields that may be missing.
std::string string_or(const Napi::Object& object, const char* key, const std::string& otherwise);
double number_or(const Napi::Object& object, const char* key, double otherwise);
uint64_t count_or(const Napi::Object& object, const char* key, uint64_t otherwise);
bool bool_or(const Napi::Object& object, const char* key, bool otherwise);

}  // namespace spillway::addon
