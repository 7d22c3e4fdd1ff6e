// The cpu device without oneDNN: its kernels use the reference.
#include <malloc.h>
#include <omp.h>

#include "cpu/convolution.hpp"

namespace spillway::cpu {

std::string library() { return {}; }
bool has_bf16() { return false; }
void forget() {
  omp_pause_resource_all(omp_pause_hard);
  ::malloc_trim(0);
}

std::shared_ptr<const Convolution> convolution_of(Direction, const ops::Conv2d&, bool, Activations) {
  static const auto nothing = std::make_shared<const Convolution>();
  return nothing;
}

ReadyConvolution::ReadyConvolution(std::shared_ptr<const Convolution> made, const KernelCall& c)
    : made_(std::move(made)), reference_(ref::kernel(c.kind)->prepare(c).value()) {}

void ReadyConvolution::run(const KernelCall& c, const View&, bool, std::span<void*>, size_t) { reference_->run(c); }

namespace {

class Product {
 public:
  explicit Product(const KernelCall& c) : reference_(ref::kernel(c.kind)->prepare(c).value()) {}
  int64_t workspace_bytes() const { return reference_->workspace_bytes(); }
  void run(const KernelCall& c) { reference_->run(c); }

 private:
  std::unique_ptr<PreparedKernel> reference_;
};

}  // namespace

const KernelEntry linear = entry<Product>();
const KernelEntry linear_bwd_data = entry<Product>();
const KernelEntry linear_bwd_weights = entry<Product>();

}  // namespace spillway::cpu
