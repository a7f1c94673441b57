# Reads its clocks as often as each input line says, and prints how often.
#
# Exact: the interpreter itself reads neither of these clocks while it runs.
use strict;
use warnings;
use Time::HiRes qw(clock_gettime CLOCK_BOOTTIME);

$| = 1;
print "ready\n";
while (my $calls = <STDIN>) {
    Time::HiRes::time() for 1 .. $calls;
    clock_gettime(CLOCK_BOOTTIME) for 1 .. $calls / 2;
    printf "vdso gettimeofday - %d\nvdso clock_gettime CLOCK_BOOTTIME %d\ndone\n", $calls, $calls / 2;
}
