#include "shapes.h"

namespace geo {

Point Point::moved(double by) const {
  return Point{x + by, y + by};
}

double Point::norm() const {
  return x * x + y * y;
}

Point Shape::centre() const {
  return Point{0, 0};
}

void Shape::paint(Colour colour) {
  colour_ = colour;
}

Circle::Circle(Point middle, double radius) : middle_(middle), radius_(radius) {}

double Circle::area() const {
  return detail::area(radius_);
}

Point Circle::centre() const {
  return middle_.moved(0);
}

Registry& Registry::global() {
  static Registry one;
  return one;
}

support::Owner<Shape> Registry::make(int kind) {
  size_ = support::size(size_ + kind);
  return support::Owner<Shape>(new Circle(Point{1, 2}, 3));
}

double area(const Shape& shape) {
  return shape.area();
}

double std(double value) {
  return std::move(value);
}

namespace detail {
double area(double radius) {
  return 3.14 * radius * radius;
}
}  // namespace detail

}  // namespace geo
