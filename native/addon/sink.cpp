// See sink.hpp.
#include "addon/sink.hpp"

#include "addon/arguments.hpp"

namespace spillway::addon {

std::shared_ptr<OutputSink> parse_sink(const Napi::Value& value, const Tape& tape) {
  if (value.IsUndefined()) return nullptr;
  const Napi::Object o = as_object(value, "sink");
  auto out = std::make_shared<OutputSink>(tape);
  for (uint32_t i = 0; i < tape.bindings.size(); i++) {
    const std::string name(tape.name(tape.bindings[i]));
    if (tape.bindings[i].role != BindingRole::output || !o.Has(name)) continue;
    const Napi::Value place = o.Get(name);
    if (place.IsTypedArray()) {
      const std::span<std::byte> bytes = bytes_of(place, name.c_str());
      out->kept.push_back(Napi::Persistent(place.As<Napi::Object>()));
      require(o.Env(), out->sink.set_memory(i, bytes));
    } else {
      require(o.Env(), out->sink.set_file(i, as_string(as_object(place, name.c_str()).Get("path"), "path")));
    }
  }
  return out;
}

}  // namespace spillway::addon
