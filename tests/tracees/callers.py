# A service whose three functions read the clock in known shares; prints the number of calls of each.
import sys
import time


def stamp():
    return time.perf_counter_ns()


def orders():
    return stamp()


class Prices:
    def prices(self):
        return [stamp() for _ in range(1)][0]


def serve():
    return time.perf_counter_ns()


def work(turns):
    counts = {"orders": 0, "Prices.prices": 0, "serve": 0}
    prices = Prices()
    for turn in range(turns):
        kind = turn * 7 % 10
        if kind < 6:
            orders()
            counts["orders"] += 1
        elif kind < 9:
            prices.prices()
            counts["Prices.prices"] += 1
        else:
            serve()
            counts["serve"] += 1
    return counts


def main():
    counts = work(int(sys.argv[1]))
    for function, calls in counts.items():
        print("path", function, "clock_gettime", "CLOCK_MONOTONIC", calls)


main()
