// Programs of level machine with one planted bug each, as differences: lines that begin with - are in the
// faulty program alone, those with + in its repaired twin alone.  `# race` marks the lines that the first
// finding must name if it is a race, and so on; `# race, deadlock` a line of both.
#pragma once
#include <cstdlib>
#include <map>
#include <set>
#include <span>
#include <sstream>

#include "unit/sim/machine_text.h"

namespace tl {

struct Planted {
  const char* name;
  const char* text;  // behind `head`
  int blocks = 1;
  const char* chip = "sm_80";
  int cluster = 1;
};

inline constexpr const char* planted_head =
    "func main(A: f16[4096], B: f16[4096], X: f32[64], Y: f32[64], Z: f32[100], F: i32[4]):\n"
    "  kernel main grid(b: {}) threads(64) thread(tx){}:\n";

// The program without the lines that begin with `drop`, and per kind of finding the lines that are marked.
struct PlantedProgram {
  std::string text;
  std::map<std::string, std::set<int>> marked = {};
};
inline PlantedProgram program_of(const Planted& p, char drop) {
  std::string cluster = p.cluster > 1 ? fmt::format(" cluster({})", p.cluster) : "";
  PlantedProgram out{.text = fmt::format(fmt::runtime(planted_head), p.blocks, cluster)};
  std::istringstream lines(p.text);
  std::string line;
  int number = 2;
  while (std::getline(lines, line)) {
    if (line.size() < 2 || line[0] == drop) continue;
    number++;
    out.text += line.substr(2) + "\n";
    size_t at = line.find("  # ");
    std::istringstream kinds(at == line.npos ? "" : line.substr(at + 4));
    for (std::string kind; std::getline(kinds >> std::ws, kind, ',');) out.marked[kind].insert(number);
  }
  return out;
}

inline SimulationReport simulate_planted(const std::string& text, uint64_t seed, const char* chip) {
  auto simulation = prepare_simulation(machine_function(text), *find_target(chip));
  std::vector<uint16_t> a(4096, 0x3C00), b(4096);
  std::vector<float> x(64), y(64), z(100);
  for (size_t i = 0; i < 64; i++) x[i] = float(i) + 1;
  std::vector<int32_t> f(4);
  std::vector<HostArg> args = {{.data = a.data()}, {.data = b.data()}, {.data = x.data()},
                               {.data = y.data()}, {.data = z.data()}, {.data = f.data()}};
  return simulate(*simulation, args, {.seed = seed, .schedules = 3});
}

// What the first finding says; nothing if there is none.  `told` runs the faulty form of a program.
inline std::string first_text(const SimulationReport& report) {
  return report.findings.empty() ? "" : report.findings[0].text;
}
inline std::string told(const char* program, const char* chip = "sm_90") {
  return first_text(simulate_planted(program_of({.name = "", .text = program}, '+').text, 0, chip));
}

// Each bug is found at its lines, within three schedules from any seed; repaired, there is none.
inline void check_planted(std::span<const Planted> planted) {
  bool all_seeds = std::getenv("TL_FULL") != nullptr;
  for (auto& p : planted) {
    CAPTURE(std::string(p.name));
    PlantedProgram faulty = program_of(p, '+'), repaired = program_of(p, '-');
    REQUIRE(!faulty.marked.empty());
    for (uint64_t seed = 0; seed < 20; seed += all_seeds ? 1 : 7) {  // else 0, 7, 14: three kinds of schedule
      CAPTURE(seed);
      SimulationReport report = simulate_planted(faulty.text, seed, p.chip);
      REQUIRE(!report.findings.empty());
      const Finding& first = report.findings[0];
      CAPTURE(first.text);
      std::set<int> lines = {first.span.line};
      if (first.other) lines.insert(first.other.line);
      auto text = [](const std::set<int>& of) { return fmt::format("{}", fmt::join(of, ", ")); };
      CHECK_EQ(text(lines), text(faulty.marked[std::string(name_of(first.kind))]));
      CHECK_EQ(first_text(simulate_planted(repaired.text, seed, p.chip)), "");
    }
  }
}

}  // namespace tl
