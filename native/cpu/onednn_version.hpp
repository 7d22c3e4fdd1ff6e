// The differences between oneDNN 2 and oneDNN 3 in source code. In: the arguments of a primitive, in the order of both. Out: its
// description. Invariant: no other file asks for the version at compile time.
#pragma once
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>

namespace spillway::cpu {

const dnnl::engine& cpu_engine();
/// Scratch comes from the caller.
dnnl::primitive_attr user_scratchpad();

inline dnnl::memory::dims dims_of(const dnnl::memory::desc& desc) {
#if DNNL_VERSION_MAJOR < 3
  return desc.dims();
#else
  return desc.get_dims();
#endif
}

/// Calls use(description) while its sources live, because a description looks there for its next implementation. A gradient's
/// description also takes that of the primitive `forward`.
template <class Primitive, class Use, class... Arguments, class... Forward>
auto with_description(const Use& use, const std::tuple<Arguments...>& arguments, const Forward&... forward) {
  using Description = typename Primitive::primitive_desc;
  return std::apply(
      [&](const auto&... a) {
#if DNNL_VERSION_MAJOR < 3
        const typename Primitive::desc operation(a...);
        return use(Description(operation, user_scratchpad(), cpu_engine(), forward...));
#else
        return use(Description(cpu_engine(), a..., forward..., user_scratchpad()));
#endif
      },
      arguments);
}

}  // namespace spillway::cpu
