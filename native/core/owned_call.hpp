// A call that outlives the views and attributes that it was made from. In: a call. Out: the same one, whose operands lie wherever it
// is told. Invariant: it stays where it is in memory, or points at its own views again after a move.
#pragma once
#include <vector>

#include "core/kernel.hpp"

namespace spillway {

struct OwnedCall {
  explicit OwnedCall(const KernelCall& c) : call(c), views(c.ins, c.ins + c.n_ins), attrs(c.attrs, c.attrs + c.n_attrs) {
    views.insert(views.end(), c.outs, c.outs + c.n_outs);
    point();
  }
  OwnedCall(const OwnedCall& o) : call(o.call), views(o.views), attrs(o.attrs) { point(); }
  OwnedCall(OwnedCall&& o) noexcept : call(o.call), views(std::move(o.views)), attrs(std::move(o.attrs)) { point(); }
  OwnedCall& operator=(const OwnedCall&) = delete;

  /// Addresses of inputs, outputs, then scratch.
  void place(void* const* at) {
    for (View& v : views) v.data = *at++;
    call.workspace = *at;
  }

  KernelCall call;
  std::vector<View> views;
  std::vector<double> attrs;

 private:
  void point() {
    call.ins = views.data();
    call.outs = views.data() + call.n_ins;
    call.attrs = attrs.data();
  }
};

}  // namespace spillway
