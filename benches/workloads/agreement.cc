// What a call costs by google-benchmark; the paths are those of paths.h.
#include "paths.h"

#include <benchmark/benchmark.h>

#define DEFINE(name, call)                                      \
	static void name(benchmark::State &state)               \
	{                                                       \
		clock_function vdso = by_vdso;                  \
		struct timespec now;                            \
		(void)vdso, (void)now;                          \
		for (auto _ : state) {                          \
			call;                                   \
			benchmark::ClobberMemory();             \
		}                                               \
	}                                                       \
	BENCHMARK(name);
PATHS(DEFINE)

int main(int argc, char **argv)
{
	by_vdso = vdso_clock_gettime();
	benchmark::Initialize(&argc, argv);
	benchmark::RunSpecifiedBenchmarks();
	return 0;
}
