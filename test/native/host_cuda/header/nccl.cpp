// The declarations of NCCL in cuda/libraries.hpp beside nccl.h: equal numbers of arguments, each of the same size and kind. Compiled and
// not run, if that header is there (scripts/build-cuda.js --gate).
#include <nccl.h>

#include <cstddef>
#include <type_traits>

#include "cuda/libraries.hpp"

namespace {

/// How a type is handed over.
template <class A, class B>
constexpr bool is_like = sizeof(A) == sizeof(B) && alignof(A) == alignof(B) && std::is_pointer_v<A> == std::is_pointer_v<B> &&
                         std::is_class_v<A> == std::is_class_v<B>;

template <class R, class... A, class S, class... B>
constexpr bool are_alike(R (*)(A...), S (*)(B...)) {
  if constexpr (sizeof...(A) != sizeof...(B))
    return false;
  else
    return is_like<R, S> && (is_like<A, B> && ...);
}

using spillway::cuda::Nccl;
#define HELD(name) \
  static_assert(are_alike(decltype(Nccl::name)(nullptr), decltype (&::name)(nullptr)), #name " is declared otherwise by nccl.h");
SPILLWAY_NCCL(HELD)

static_assert(sizeof(spillway::cuda::NcclId) == NCCL_UNIQUE_ID_BYTES && sizeof(spillway::cuda::NcclId) == sizeof(ncclUniqueId));
static_assert(spillway::cuda::NCCL_SUCCESS == ncclSuccess && spillway::cuda::NCCL_BYTES == ncclInt8 &&
              spillway::cuda::NCCL_BYTES == ncclChar);
static_assert(std::is_same_v<spillway::cuda::NcclComm, ncclComm_t>);

}  // namespace
