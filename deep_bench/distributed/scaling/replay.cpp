// Replays a program of ranks on a platform of SimGrid: replay PLATFORM PROGRAM RANKS; prints when the last rank has ended.
//
// The program has a line for each thing a rank does, rank after rank:
//   r                                                            the next rank begins
//   c SECONDS                                                    it computes
//   x SENDS (TO BYTES BUSY)… RECEIVES (SOURCE)… BUSY             messages, all at once; BUSY seconds of the processor

#include <simgrid/s4u.hpp>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace s4u = simgrid::s4u;

struct Send { int to; uint64_t bytes; double busy; };
struct Part { double seconds = 0; std::vector<Send> sends; std::vector<int> sources; };

static s4u::Mailbox* between(int source, int to)
{
  return s4u::Mailbox::by_name(std::to_string(source) + ">" + std::to_string(to));
}

static void run(int rank, const std::vector<Part>& parts)
{
  static int content = 0;
  for (const auto& part : parts) {
    std::vector<s4u::CommPtr> open;
    std::vector<int*> received(part.sources.size());
    for (size_t i = 0; i < part.sources.size(); ++i)
      open.push_back(between(part.sources[i], rank)->get_async<int>(&received[i]));
    for (const auto& send : part.sends) {
      if (send.busy > 0)
        s4u::this_actor::sleep_for(send.busy);
      open.push_back(between(rank, send.to)->put_async(&content, send.bytes));
    }
    for (const auto& comm : open)
      comm->wait();
    if (part.seconds > 0)
      s4u::this_actor::sleep_for(part.seconds);
  }
}

int main(int argc, char** argv)
{
  s4u::Engine engine(&argc, argv);
  if (argc != 4)
    return 2;
  engine.load_platform(argv[1]);
  const int ranks = std::stoi(argv[3]);
  std::vector<std::vector<Part>> programs;
  std::ifstream file(argv[2]);
  for (char kind; file >> kind;) {
    if (kind == 'r') {
      programs.emplace_back();
      continue;
    }
    Part part;
    if (kind == 'x') {
      size_t sends = 0, receives = 0;
      file >> sends;
      for (part.sends.resize(sends); auto& send : part.sends)
        file >> send.to >> send.bytes >> send.busy;
      file >> receives;
      for (part.sources.resize(receives); auto& source : part.sources)
        file >> source;
    }
    file >> part.seconds;
    programs.back().push_back(std::move(part));
  }
  if (static_cast<int>(programs.size()) != ranks)
    return 3;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto& parts = programs[rank];
    s4u::Actor::create("rank " + std::to_string(rank), engine.host_by_name("n" + std::to_string(rank)),
                       [rank, &parts]() { run(rank, parts); });
  }
  engine.run();
  std::printf("%.12g\n", s4u::Engine::get_clock());
  return 0;
}
