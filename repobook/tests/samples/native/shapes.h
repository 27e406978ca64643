#pragma once
// Shapes and the registry that makes them, for the check against libclang.

#include "support.h"

#define CHECKED(x) (x)

namespace geo {

struct Point {
  double x;
  double y;
  Point moved(double by) const;
  double norm() const;
};

enum class Colour { red, green };

class Shape {
 public:
  virtual ~Shape() = default;
  virtual double area() const = 0;
  virtual Point centre() const;
  const Colour& colour() const { return colour_; }
  void paint(Colour colour);
  Shape* next() { return next_; }

 protected:
  Colour colour_ = Colour::red;
  Shape* next_ = nullptr;
};

class Circle : public Shape {
 public:
  explicit Circle(Point middle, double radius);
  double area() const override;
  Point centre() const override;
  double radius() const { return radius_; }

 private:
  Point middle_;
  double radius_;
};

class Registry {
 public:
  static Registry& global();
  support::Owner<Shape> make(int kind);
  int size() const { return size_; }
  void reset() { size_ = 0; }

 private:
  int size_ = 0;
};

using Figure = Shape;

double area(const Shape& shape);
double std(double value);

namespace detail {
double area(double radius);
}  // namespace detail

}  // namespace geo
