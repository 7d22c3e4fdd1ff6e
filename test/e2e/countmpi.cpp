// Counts a rank's sent bytes at MPI's profiling interface, independently of plan and operators. In: loaded before MPI (LD_PRELOAD). Out:
// when MPI ends, one line, `RANK BYTES`, at the end of the file that COUNT_MPI names.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>

namespace {
long long sent = 0;

int rank_in(MPI_Comm all) {
  int rank = 0;
  PMPI_Comm_rank(all, &rank);
  return rank;
}

int size_of(MPI_Comm all) {
  int size = 1;
  PMPI_Comm_size(all, &size);
  return size;
}
}  // namespace

extern "C" int MPI_Ialltoallv(const void* from, const int* counts, const int* places, MPI_Datatype type, void* into, const int* into_counts,
                              const int* into_places, MPI_Datatype into_type, MPI_Comm all, MPI_Request* request) {
  for (int r = 0; r < size_of(all); r++)
    if (r != rank_in(all)) sent += counts[r];
  return PMPI_Ialltoallv(from, counts, places, type, into, into_counts, into_places, into_type, all, request);
}

extern "C" int MPI_Iallgatherv(const void* from, int count, MPI_Datatype type, void* into, const int* counts, const int* places,
                               MPI_Datatype into_type, MPI_Comm all, MPI_Request* request) {
  sent += static_cast<long long>(counts[rank_in(all)]) * (size_of(all) - 1);
  return PMPI_Iallgatherv(from, count, type, into, counts, places, into_type, all, request);
}

extern "C" int MPI_Finalize() {
  if (std::FILE* f = std::fopen(std::getenv("COUNT_MPI"), "a")) {
    std::fprintf(f, "%d %lld\n", rank_in(MPI_COMM_WORLD), sent);
    std::fclose(f);
  }
  return PMPI_Finalize();
}
