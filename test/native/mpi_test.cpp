// Ranks on MPI, under the sanitizer that this test is built with: the engine is compiled against each MPI that is here, as it is for users,
// and mpirun starts this program as its ranks. In: nothing; or `rank FOLDER ENGINE` of mpirun. Out: bytes arrive whole, uneven parts and
// some larger than a round among them, and ranks have the weights of threads that train the same.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <sys/mman.h>

#include "comm/leftovers.hpp"
#include "test/native/ranks.hpp"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

namespace {

constexpr uint64_t STEPS = 20;

/// A byte that tells whose it is, and where it lies.
std::byte mark(uint32_t rank, uint64_t at) { return std::byte((rank * 131 + at * 7 + (at >> 8)) & 255); }

std::vector<std::byte> marked(uint32_t rank, uint64_t bytes) {
  std::vector<std::byte> all(bytes);
  for (uint64_t i = 0; i < bytes; i++) all[i] = mark(rank, i);
  return all;
}

void done(Code code, const char* words) { check(code == Code::ok, "an exchange", __FILE__, __LINE__, words); }

/// Each rank's part is a little larger than the one before it.
std::vector<uint64_t> uneven(const Communicator& rank, uint64_t first) {
  std::vector<uint64_t> bounds{0};
  for (uint32_t r = 0; r < rank.size; r++) bounds.push_back(bounds.back() + first + 3 * r);
  return bounds;
}

void every_part_arrives(Communicator* rank) {
  char words[COMMUNICATOR_WORDS] = {};
  const std::vector<uint64_t> bounds = uneven(*rank, 1000);
  const uint64_t from = bounds[rank->rank], own = bounds[rank->rank + 1] - from;
  const std::vector<std::byte> mine = marked(rank->rank, bounds.back());
  std::vector<std::byte> came(own * rank->size), all(bounds.back());
  done(rank->engine->all_to_all(rank, mine.data(), bounds.data(), came.data(), words), words);
  bool whole = true;
  for (uint32_t r = 0; r < rank->size; r++)
    for (uint64_t i = 0; i < own; i++) whole = whole && came[r * own + i] == mark(r, from + i);
  CHECK(whole);
  std::copy_n(mine.begin() + ptrdiff_t(from), own, all.begin() + ptrdiff_t(from));
  done(rank->engine->all_gather(rank, all.data(), bounds.data(), words), words);
  for (uint32_t r = 0; r < rank->size; r++)
    for (uint64_t i = bounds[r]; i < bounds[r + 1]; i++) whole = whole && all[i] == mark(r, i);
  CHECK(whole);
}

/// Around the ring, more than goes in a round of the engine, and nothing at all the other way.
void parcels_arrive(Communicator* rank) {
  char words[COMMUNICATOR_WORDS] = {};
  const uint64_t bytes = (uint64_t(1) << 24) + 17;
  const uint32_t next = (rank->rank + 1) % rank->size, before = (rank->rank + rank->size - 1) % rank->size;
  std::vector<std::byte> mine = marked(rank->rank, bytes), came(bytes);
  const Parcel sends[] = {{next, mine.data(), bytes}, {before, mine.data(), 0}},
               takes[] = {{before, came.data(), bytes}, {next, came.data(), 0}};
  done(rank->engine->trade(rank, sends, 2, takes, 2, words), words);
  CHECK(came == marked(before, bytes));
}

void weights_are_those_of_threads(Communicator* rank) {
  const Trained own = train_as(rank, STEPS);
  const Result<std::vector<Bytes>> all = spillway::exchange(*rank, own.weight);
  CHECK(all.ok());
  for (const Bytes& other : all.value()) CHECK(other == own.weight);
  if (rank->rank == 0) CHECK(train(rank->size, STEPS)[0] == own);
}

/// Writes its end into a file of its own: mpirun mixes the output of ranks.
int as_rank(const std::string& folder, const std::string& engine) {
  {
    auto opened = open_plugin_rank(engine);
    if (!opened.ok()) return std::printf("%s\n", opened.status().message.c_str()), 1;
    const OwnCommunicator rank = std::move(opened).value();
    test("every part arrives", [&] { every_part_arrives(rank.get()); });
    test("parcels arrive", [&] { parcels_arrive(rank.get()); });
    test("weights are those of threads", [&] { weights_are_those_of_threads(rank.get()); });
    std::ofstream(folder + "/" + std::to_string(rank->rank)) << testing::passed << " passed, " << testing::failed << " failed\n";
  }
  return testing::failed == 0 ? 0 : 1;
}

// ---------------------------------------------------------------- segments of dead runs

/// A file of one page; mapped for writing, as Open MPI does, if `is_used`.
void* segment(const fs::path& file, bool is_used) {
  const int at = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  CHECK(at >= 0 && ::ftruncate(at, 4096) == 0);
  void* const mapped = is_used ? ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, at, 0) : nullptr;
  ::close(at);
  return mapped;
}

void segments_of_dead_runs_go(const fs::path& folder) {
  const fs::path dead = folder / "vader_segment.host.0.1.0", newer = folder / "sm_segment.host.0.1.0",
                 used = folder / "vader_segment.host.0.2.0", other = folder / "other", foreign = folder / "vader_segment.host.1.1.0",
                 link = folder / "vader_segment.link";
  for (const fs::path& file : {dead, newer, other, foreign}) segment(file, false);
  void* const mapped = segment(used, true);
  fs::create_symlink(other, link);
  const bool is_foreign = ::chown(foreign.c_str(), 65534, 65534) == 0;  // as root alone
  remove_leftovers(folder.c_str());
  CHECK(!fs::exists(dead) && !fs::exists(newer));
  CHECK(fs::exists(used) && fs::exists(other) && fs::is_symlink(link));
  CHECK(fs::exists(foreign) == is_foreign);
  CHECK(::munmap(mapped, 4096) == 0);
  remove_leftovers(folder.c_str());
  CHECK(!fs::exists(used));
}

// ---------------------------------------------------------------- processes

#if defined(__SANITIZE_THREAD__)
constexpr bool TAKES_MPI_FOR_RACES = true;
#else
constexpr bool TAKES_MPI_FOR_RACES = false;
#endif
#if defined(__SANITIZE_ADDRESS__)
constexpr const char* LIKE_THIS = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer";
#else
constexpr const char* LIKE_THIS = "-O2";
#endif

struct Mpi {
  const char *run, *compile;
};
constexpr Mpi KNOWN[] = {{"mpirun.openmpi", "mpicxx.openmpi"}, {"mpirun.mpich", "mpicxx.mpich"}, {"mpirun", "mpicxx"}};

bool is_here(const char* command) { return std::system(text("command -v ", command, " > /dev/null 2>&1").c_str()) == 0; }

/// One under its own name, or whichever there is.
std::vector<Mpi> found() {
  std::vector<Mpi> all;
  for (const Mpi& mpi : KNOWN)
    if (is_here(mpi.run) && is_here(mpi.compile) && (all.empty() || std::string(mpi.run) != "mpirun")) all.push_back(mpi);
  return all;
}

std::string told(const fs::path& file) {
  std::ostringstream all;
  all << std::ifstream(file).rdbuf();
  return all.str();
}

void ranks_of(const Mpi& mpi, const fs::path& folder) {
  const fs::path checkout = SPILLWAY_CHECKOUT, engine = folder / "engine.so", log = folder / "log";
  const std::string compiled =
      text(mpi.compile, " -std=c++20 ", LIKE_THIS, " -fPIC -shared -pthread -I '", (checkout / "native").string(), "' -o '",
           engine.string(), "' '", (checkout / "native/comm/mpi.cpp").string(), "' > '", log.string(), "' 2>&1");
  const int built = std::system(compiled.c_str());
  if (!check(built == 0, "the engine is compiled", __FILE__, __LINE__, told(log))) return;
  for (const int ranks : {2, 3}) {
    for (int r = 0; r < ranks; r++) fs::remove(folder / std::to_string(r));
    const std::string started = text("timeout 100 ", mpi.run, " -n ", ranks, " '", fs::read_symlink("/proc/self/exe").string(), "' rank '",
                                     folder.string(), "' '", engine.string(), "' > '", log.string(), "' 2>&1");
    const int ended = std::system(started.c_str());
    check(ended == 0, started.c_str(), __FILE__, __LINE__, told(log));
    for (int r = 0; r < ranks; r++) CHECK(told(folder / std::to_string(r)) == "3 passed, 0 failed\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "rank") return as_rank(argv[2], argv[3]);
  // OpenMPI asks for consent to run as root, and with one process for each processor; memory that it keeps for the process's life is no
  // leak of ours.
  for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"})
    ::setenv(name, "1", 1);
  const char* const asan = std::getenv("ASAN_OPTIONS");
  ::setenv("ASAN_OPTIONS", text(asan ? asan : "", asan ? ":" : "", "detect_leaks=0").c_str(), 1);
  const std::vector<Mpi> all = TAKES_MPI_FOR_RACES ? std::vector<Mpi>() : found();
  if (all.empty())
    test(
        TAKES_MPI_FOR_RACES ? "skipped: ThreadSanitizer takes what MPI does by itself for races" : "skipped: there is no mpirun and mpicxx",
        [] {});
  char shared[] = "/dev/shm/spillway-leftovers-XXXXXX";
  if (!::mkdtemp(shared)) return 1;
  test("segments of dead runs are removed", [&] { segments_of_dead_runs_go(shared); });
  fs::remove_all(shared);
  for (const Mpi& mpi : all) {
    char folder[] = "/tmp/spillway-mpi-XXXXXX";
    if (!::mkdtemp(folder)) return 1;
    test(mpi.run, [&] { ranks_of(mpi, folder); });
    fs::remove_all(folder);
  }
  return finish();
}
