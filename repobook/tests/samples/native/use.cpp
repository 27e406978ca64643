#include "shapes.h"

using namespace geo;
namespace g = geo::detail;

namespace {

double total = 0;

struct Local {
  int size() const { return 7; }
  Registry& registry;
};

double measure(Figure& figure) {
  auto middle = figure.centre();
  total += middle.norm();
  return g::area(middle.x) + area(figure);
}

int count(const Local& local) {
  return local.size() + local.registry.size();
}

}  // namespace

namespace geo {

double run(int kind) {
  auto& registry = Registry::global();
  auto made = registry.make(kind);
  Registry::global().reset();
  double x = std(1) + std::move(2);
  for (Shape* at = made.get(); at != nullptr; at = at->next()) {
    at->paint(Colour::green);
    x += CHECKED(at->area()) + at->centre().moved(1).norm();
  }
  Circle circle(Point{0, 0}, 2);
  x += circle.radius() + circle.area() + measure(circle);
  Local local{registry};
  return x + count(local) + registry.size();
}

}  // namespace geo
