# A time of Time::HiRes lies between two system calls.
use strict;
use warnings;
use Config;
use Time::HiRes qw(clock_gettime gettimeofday time CLOCK_MONOTONIC CLOCK_REALTIME);

my $number = $Config{archname} =~ /^x86_64/ ? 228 : 113;

sub by_system_call {
    my $place = pack("qq", 0, 0);
    syscall($number, $_[0], $place) == 0 or die "no clock: $!";
    my ($sec, $nsec) = unpack("qq", $place);
    return $sec + $nsec / 1e9;
}

my $end = by_system_call(1) + 1;
while (by_system_call(1) < $end) {
    for my $way ([1, sub { clock_gettime(CLOCK_MONOTONIC) }], [0, sub { clock_gettime(CLOCK_REALTIME) }],
        [0, \&Time::HiRes::time], [0, sub { my ($s, $u) = gettimeofday(); $s + $u / 1e6 }]) {
        my ($clock, $read) = @$way;
        my ($before, $reading, $after) = (by_system_call($clock), $read->(), by_system_call($clock));
        $before - 1e-3 <= $reading && $reading <= $after + 1e-3 or die "$before $reading $after";
    }
}
print "perl: 4 ways\n";
