// The reference's backward operators against finite differences of its forward operators, along random directions.
#include "test/native/kernels/families.hpp"
#include "test/native/kernels/report.hpp"

using namespace spillway;
using namespace spillway::test;

namespace {

Array moved(const Array& x, const Array& direction, double step) {
  Array y = x;
  for (size_t i = 0; i < y.data.size(); i++) y.data[i] += step * direction.data[i];
  return y;
}

void check_gradient(Report& report, const Gradient& g, Random& r) {
  for (int i = 0; i < 2; i++) {
    const Array direction = r.normal(g.x.dims);
    const double step = 1e-6, expected = dot(g.gradient, direction);
    const auto along = [&](double s) { return dot(g.forward(moved(g.x, direction, s)), g.dy); };
    const double slope = (along(step) - along(-step)) / (2 * step);
    // A rectifier's input that changes its sign within the step bends the line: there the gradient lies between the slopes of both sides.
    const double here = along(0), left = (here - along(-step)) / step, right = (along(step) - here) / step;
    const double bend = std::abs(right - left) / 2;
    const double scale = std::max({1e-3, norm(g.gradient) * norm(direction), std::abs(expected)});
    report.check(std::abs(slope - expected) <= 2e-6 * scale + bend,
                 g.what + ": slope " + std::to_string(slope) + ", gradient says " + std::to_string(expected));
  }
}

}  // namespace

int main(int argc, char** argv) {
  ask_for(argc, argv);
  Report report;
  for (const Generator& g : generators()) {
    Random r(77);
    for (int i = 0; i < g.cases(2); i++)
      for (const Gradient& gradient : g.draw(r).gradients) check_gradient(report, gradient, r);
  }
  return report.finish(!all_asked());
}
