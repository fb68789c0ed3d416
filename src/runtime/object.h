// An ELF64 x86-64 relocatable object, made runnable in this process without a linker.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tl {

struct ObjectImage {  // one mapping: code (read, execute), then data (read, write)
  void* memory = nullptr;
  size_t size = 0;
  ~ObjectImage();
};

struct LoadedObject {
  std::shared_ptr<ObjectImage> image;
  // The address of each name asked for, in order.
  std::vector<void*> symbols;
};

// Throws RuntimeError if the bytes are not such an object, or need a function that is missing.
LoadedObject load_object(std::string_view bytes, const std::vector<std::string>& names);

// The address of a function that generated code may call: our own conversions, then libm, libmvec, libc.
void* resolve_symbol(const char* name);

}  // namespace tl
