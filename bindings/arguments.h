// What Python hands over in a call, as the runtime's arguments.  Nothing is copied: the views borrow from the
// objects, and live as long as this.
#pragma once
#include <memory>

#include "api/kernel.h"
#include "convert.h"

class Arguments {
 public:
  // `wanted` says which are tensors; an object that can be neither raises a TypeError naming the parameter.
  Arguments(nb::handle sequence, const tl::Program& wanted);
  Arguments(const Arguments&) = delete;
  ~Arguments();
  std::vector<tl::Argument> list;

 private:
  struct Extents {
    std::vector<int64_t> shape, strides;
  };
  // What a view points to, where its owner has it in another form.
  std::vector<std::unique_ptr<Extents>> extents;
  std::vector<std::unique_ptr<Py_buffer>> buffers;
  std::vector<nb::object> kept;

  tl::Argument tensor(nb::handle object);
  bool from_buffer(nb::handle object, tl::TensorView& view);
  tl::TensorView from_array_interface(nb::handle object, nb::handle interface);
  tl::TensorView from_dlpack(nb::handle object);
  void set_extents(tl::TensorView& view, std::vector<int64_t> shape, std::vector<int64_t> byte_strides);
};
