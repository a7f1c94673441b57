# Perl: each clock a prime number of times.
#
# Exact: the interpreter itself calls only time(2), once, for the start of the script ($^T).
use strict;
use warnings;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC CLOCK_BOOTTIME);

clock_gettime(CLOCK_MONOTONIC) for 1 .. 1009;
clock_gettime(CLOCK_BOOTTIME)  for 1 .. 503;
my $parent;
$parent = getppid() for 1 .. 223;
print "vdso clock_gettime CLOCK_MONOTONIC 1009\n";
print "vdso clock_gettime CLOCK_BOOTTIME 503\n";
print "syscall getppid 223\n";
