// An intrusively counted, immutable handle.  Equal pointers mean "unchanged": keeping the old handle of a
// tree is a free snapshot of it.
#pragma once
#include <atomic>
#include <cstdint>
#include <utility>

namespace tl {

// What a handle can point to: derives from Counted and has a free function `destroy(const B*)`.
struct Counted {
  mutable std::atomic<uint32_t> refs{0};
  Counted() = default;
  Counted(const Counted&) {}  // a copy starts unshared
  Counted& operator=(const Counted&) { return *this; }
};

template <class B>
class Ref {
  const B* p = nullptr;

 public:
  using target = B;
  Ref() = default;
  explicit Ref(const B* q) : p(q) {
    if (p) p->refs.fetch_add(1, std::memory_order_relaxed);
  }
  Ref(const Ref& o) : Ref(o.p) {}
  Ref(Ref&& o) noexcept : p(std::exchange(o.p, nullptr)) {}
  Ref& operator=(Ref o) noexcept {
    std::swap(p, o.p);
    return *this;
  }
  ~Ref() {
    if (p && p->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(p);
  }
  explicit operator bool() const { return p != nullptr; }
  const B& operator*() const { return *p; }
  const B* operator->() const { return p; }
  const B* get() const { return p; }
  bool same(const Ref& o) const { return p == o.p; }
  // The node as an N, or null if it is of another kind.
  template <class N>
  const N* as() const {
    return p && p->kind == N::KIND ? static_cast<const N*>(p) : nullptr;
  }
};

}  // namespace tl
