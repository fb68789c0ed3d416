// The loader.  Sections that take memory are laid out as [code, stubs][data, address table]; each undefined
// symbol gets a slot in the address table and a stub that jumps through it, so that libm may be further away
// than 2 GB. The handful of relocations is what LLVM emits for position-independent code of the small model.
#include "runtime/object.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/round.h"
#include "runtime/device.h"

namespace tl {
namespace {

[[noreturn]] void bad_object(const char* what) {
  throw RuntimeError(fmt::format("a damaged object: {}", what));
}

struct Loader {
  std::string_view bytes;
  std::vector<Elf64_Shdr> sections;
  std::vector<Elf64_Sym> symbols;
  std::string_view names;            // of the symbols
  std::vector<uint8_t*> section_at;  // null where the section takes no memory
  std::vector<uint8_t*> symbol_at;   // null until asked for
  std::vector<int> slot_of;          // of a symbol, in the address table; -1 without one
  int slots = 0;
  uint8_t *stubs = nullptr, *table = nullptr;
  std::shared_ptr<ObjectImage> image = std::make_shared<ObjectImage>();
  size_t code_size = 0;

  template <class T>
  std::vector<T> read_array(size_t offset, size_t count) {
    if (offset > bytes.size() || count > (bytes.size() - offset) / sizeof(T)) bad_object("it is cut short");
    std::vector<T> items(count);
    if (count) std::memcpy(items.data(), bytes.data() + offset, count * sizeof(T));
    return items;
  }

  std::string_view contents(const Elf64_Shdr& s) {
    if (s.sh_offset > bytes.size() || s.sh_size > bytes.size() - s.sh_offset) bad_object("it is cut short");
    return bytes.substr(s.sh_offset, s.sh_size);
  }

  void read_headers() {
    Elf64_Ehdr header = read_array<Elf64_Ehdr>(0, 1)[0];
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_type != ET_REL || header.e_machine != EM_X86_64)
      bad_object("it is not a relocatable object for x86-64");
    sections = read_array<Elf64_Shdr>(header.e_shoff, header.e_shnum);
    for (const Elf64_Shdr& s : sections) {
      if (s.sh_type != SHT_SYMTAB) continue;
      if (s.sh_link >= sections.size()) bad_object("its symbols have no names");
      symbols = read_array<Elf64_Sym>(s.sh_offset, s.sh_size / sizeof(Elf64_Sym));
      names = contents(sections[s.sh_link]);
    }
    slot_of.assign(symbols.size(), -1);
    symbol_at.assign(symbols.size(), nullptr);
    for (size_t i = 1; i < symbols.size(); i++)
      if (symbols[i].st_shndx == SHN_UNDEF) slot_of[i] = slots++;
    // A defined symbol may be reached through the table as well.
    for_each_relocation([&](const Elf64_Shdr&, const Elf64_Rela& r) {
      uint32_t type = ELF64_R_TYPE(r.r_info), symbol = ELF64_R_SYM(r.r_info);
      bool by_table =
          type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX || type == R_X86_64_REX_GOTPCRELX;
      if (by_table && slot_of[symbol] < 0) slot_of[symbol] = slots++;
    });
  }

  bool takes_memory(const Elf64_Shdr& s) const {
    return (s.sh_flags & SHF_ALLOC) && s.sh_size > 0 && s.sh_type != SHT_X86_64_UNWIND &&
           name_of_section(s) != ".eh_frame";
  }

  std::string_view name_of_section(const Elf64_Shdr& s) const {
    Elf64_Ehdr header;
    std::memcpy(&header, bytes.data(), sizeof header);
    if (header.e_shstrndx >= sections.size()) return "";
    size_t at = sections[header.e_shstrndx].sh_offset + s.sh_name;
    return at < bytes.size()
               ? std::string_view(bytes.data() + at, strnlen(bytes.data() + at, bytes.size() - at))
               : "";
  }

  template <class F>
  void for_each_relocation(F&& use) {
    for (const Elf64_Shdr& s : sections) {
      if (s.sh_type != SHT_RELA || s.sh_info >= sections.size() || !takes_memory(sections[s.sh_info]))
        continue;
      for (const Elf64_Rela& r : read_array<Elf64_Rela>(s.sh_offset, s.sh_size / sizeof(Elf64_Rela))) {
        if (ELF64_R_SYM(r.r_info) >= symbols.size()) bad_object("a relocation names no symbol");
        use(sections[s.sh_info], r);
      }
    }
  }

  void place() {
    size_t page = size_t(sysconf(_SC_PAGESIZE)), end = 0;
    std::vector<size_t> offsets(sections.size());
    auto lay_out = [&](bool code) {
      for (size_t i = 0; i < sections.size(); i++) {
        const Elf64_Shdr& s = sections[i];
        if (!takes_memory(s) || bool(s.sh_flags & SHF_EXECINSTR) != code) continue;
        if (s.sh_addralign > page || s.sh_size > 1u << 30) bad_object("a section is too large");
        end = offsets[i] = round_up(end, std::max<size_t>(s.sh_addralign, 1));
        end += s.sh_size;
      }
      return end = round_up(end, 16);
    };
    size_t stubs_offset = lay_out(true);
    end = code_size = round_up(stubs_offset + 16 * size_t(slots), page);
    size_t table_offset = lay_out(false);
    image->size = round_up(table_offset + 8 * size_t(slots) + 1, page);
    void* memory = mmap(nullptr, image->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw RuntimeError("no memory to load a compiled function");
    image->memory = memory;
    auto base = static_cast<uint8_t*>(memory);
    stubs = base + stubs_offset, table = base + table_offset;
    section_at.assign(sections.size(), nullptr);
    for (size_t i = 0; i < sections.size(); i++) {
      if (!takes_memory(sections[i])) continue;
      section_at[i] = base + offsets[i];
      if (sections[i].sh_type == SHT_NOBITS) continue;
      std::string_view from = contents(sections[i]);
      std::memcpy(section_at[i], from.data(), from.size());
    }
  }

  std::string symbol_name(const Elf64_Sym& symbol) const {
    if (symbol.st_name >= names.size()) bad_object("a symbol has no name");
    return std::string(names.data() + symbol.st_name,
                       strnlen(names.data() + symbol.st_name, names.size() - symbol.st_name));
  }

  // Where references to a symbol go: into the image; an undefined one to its stub.
  void resolve() {
    for (size_t i = 1; i < symbols.size(); i++) {
      const Elf64_Sym& symbol = symbols[i];
      uint8_t* slot = slot_of[i] < 0 ? nullptr : table + 8 * slot_of[i];
      uint8_t* target = nullptr;
      if (symbol.st_shndx == SHN_UNDEF) {
        std::string name = symbol_name(symbol);
        target = static_cast<uint8_t*>(resolve_symbol(name.c_str()));
        if (!target)
          throw RuntimeError(
              fmt::format("a compiled function needs '{}', which this machine's C library lacks", name));
        symbol_at[i] = stubs + 16 * slot_of[i];
        const uint8_t jump[2] = {0xff, 0x25};  // jmp *slot(%rip)
        int32_t distance = int32_t(slot - (symbol_at[i] + 6));
        std::memcpy(symbol_at[i], jump, 2);
        std::memcpy(symbol_at[i] + 2, &distance, 4);
      } else if (symbol.st_shndx < sections.size() && section_at[symbol.st_shndx]) {
        target = symbol_at[i] = section_at[symbol.st_shndx] + symbol.st_value;
      }
      if (slot) std::memcpy(slot, &target, 8);
    }
  }

  void relocate() {
    for_each_relocation([&](const Elf64_Shdr& section, const Elf64_Rela& r) {
      uint32_t type = ELF64_R_TYPE(r.r_info), symbol = ELF64_R_SYM(r.r_info);
      size_t width = type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4;
      if (r.r_offset > section.sh_size || section.sh_size - r.r_offset < width)
        bad_object("a relocation is outside");
      uint8_t* place = section_at[size_t(&section - sections.data())] + r.r_offset;
      uint8_t* target = symbol_at[symbol];
      if (type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX || type == R_X86_64_REX_GOTPCRELX)
        target = table + 8 * slot_of[symbol];
      if (!target) bad_object("a relocation refers to nothing");
      int64_t value = int64_t(target) + r.r_addend;
      switch (type) {
        case R_X86_64_64:
          break;
        case R_X86_64_PC32:
        case R_X86_64_PLT32:
        case R_X86_64_PC64:
        case R_X86_64_GOTPCREL:
        case R_X86_64_GOTPCRELX:
        case R_X86_64_REX_GOTPCRELX:
          value -= int64_t(place);
          break;
        default:
          throw RuntimeError(fmt::format("an object with a relocation of unknown type {}", type));
      }
      if (width == 4 && value != int32_t(value)) bad_object("a relocation is out of reach");
      std::memcpy(place, &value, width);
    });
  }

  std::vector<void*> find(const std::vector<std::string>& wanted) {
    std::vector<void*> found;
    for (const std::string& name : wanted) {
      void* at = nullptr;
      for (size_t i = 1; i < symbols.size() && !at; i++)
        if (symbols[i].st_shndx != SHN_UNDEF && symbol_name(symbols[i]) == name) at = symbol_at[i];
      if (!at) throw RuntimeError(fmt::format("an object without the entry '{}'", name));
      found.push_back(at);
    }
    return found;
  }
};

}  // namespace

ObjectImage::~ObjectImage() {
  if (memory) munmap(memory, size);
}

LoadedObject load_object(std::string_view bytes, const std::vector<std::string>& names) {
  Loader loader;
  loader.bytes = bytes;
  loader.read_headers();
  loader.place();
  loader.resolve();
  loader.relocate();
  if (mprotect(loader.image->memory, loader.code_size, PROT_READ | PROT_EXEC) != 0)
    throw RuntimeError("this system does not let a process run code that it made");
  return {loader.image, loader.find(names)};
}

}  // namespace tl
