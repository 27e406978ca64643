#pragma once

namespace support {

template <class T>
class Owner {
 public:
  explicit Owner(T* held) : held_(held) {}
  T* operator->() const { return held_; }
  T* get() const { return held_; }
  void reset() { held_ = nullptr; }

 private:
  T* held_;
};

inline int size(int value) {
  return value;
}

}  // namespace support

namespace std {
inline double move(double value) {
  return value;
}
}  // namespace std
