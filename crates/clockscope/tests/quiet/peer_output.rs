//! The benchmark suite parses its peers' tables correctly. The samples are shortened real output.

#[path = "../../benches/peers/counted.rs"]
mod counted;

use counted::Counted;

fn exactly(calls: u64, average_ns: f64) -> Option<Counted> {
    Some(Counted { calls, average_ns: Some(average_ns) })
}

#[test]
fn clockscope_rows_of_several_clocks_are_added_up() {
    let json = r#"{"vdso":[
        {"function":"clock_gettime","clock":"CLOCK_MONOTONIC","calls":30,"time_total_ns":600,"time_avg_ps":20000},
        {"function":"clock_gettime","clock":"CLOCK_REALTIME","calls":10,"time_total_ns":400,"time_avg_ps":40000},
        {"function":"time","clock":null,"calls":7,"time_total_ns":14,"time_avg_ps":2000}],
        "syscalls":[{"name":"getppid","number":110,"calls":5,"errors":0,"time_total_ns":470,"time_avg_ps":94100},
        {"name":"read","number":0,"calls":3,"errors":0,"time_total_ns":0,"time_avg_ps":0}]}"#;
    assert_eq!(counted::from_clockscope(json, "vdso", "clock_gettime"), exactly(40, 25.0));
    assert_eq!(counted::from_clockscope(json, "syscalls", "getppid"), exactly(5, 94.1));
    let untimed = Some(Counted { calls: 3, average_ns: None });
    assert_eq!(counted::from_clockscope(json, "syscalls", "read"), untimed);
    let absent = Some(Counted { calls: 0, average_ns: None });
    assert_eq!(counted::from_clockscope(json, "syscalls", "write"), absent);
    assert_eq!(counted::from_clockscope("not json", "vdso", "time"), None);
}

#[test]
fn strace_rows_with_and_without_errors_are_read() {
    let text = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 97.30    0.004000           4      1000           getppid
  2.70    0.000011          11         1         1 access
------ ----------- ----------- --------- --------- ----------------
100.00    0.004011           4      1001         1 total
";
    assert_eq!(counted::from_strace(text, "getppid"), exactly(1000, 4000.0));
    assert_eq!(counted::from_strace(text, "access").map(|row| row.calls), Some(1));
    assert_eq!(counted::from_strace(text, "read"), None);
}

#[test]
fn perf_trace_adds_up_the_tables_of_threads() {
    let text = "\
 loop (11176), 2000 events, 90.6%

   syscall            calls  errors  total       min       avg       max       stddev
                                     (msec)    (msec)    (msec)    (msec)        (%)
   --------------- --------  ------ -------- --------- --------- ---------     ------
   getppid              300      0     0.300     0.001     0.001     0.021      5.39%
 loop (11177), 2000 events, 90.6%
   getppid              100      0     0.500     0.005     0.005     0.005      0.00%
";
    assert_eq!(counted::from_perf_trace(text, "getppid"), exactly(400, 2000.0));
    assert_eq!(counted::from_perf_trace(text, "write"), None);
}

#[test]
fn perf_stat_does_not_take_pwrite_for_write() {
    let text = "\
# started on Sat Nov 21 01:19:38 2026

9,,syscalls:sys_enter_pwrite64,951360,100.00,,
8,,syscalls:sys_enter_write,951360,100.00,,
5,,mem:0x7ffff7fc8af0:x,951360,100.00,,
";
    let write = counted::from_perf_stat(text, |event| event == "syscalls:sys_enter_write");
    assert_eq!(write, Some(Counted { calls: 8, average_ns: None }));
    let breakpoint = counted::from_perf_stat(text, |event| event.starts_with("mem:"));
    assert_eq!(breakpoint.map(|row| row.calls), Some(5));
}

#[test]
fn bpftrace_maps_are_read_by_number() {
    let text =
        "Attaching 3 probes...\n\n\n@calls[10]: 4\n@calls[110]: 50\n@ns[10]: 8\n@ns[110]: 17400\n";
    assert_eq!(counted::from_bpftrace(text, 110), exactly(50, 348.0));
    let untimed = counted::from_bpftrace("@calls[110]: 50\n", 110);
    assert_eq!(untimed, Some(Counted { calls: 50, average_ns: None }));
    assert_eq!(counted::from_bpftrace(text, 1), None);
}

#[test]
fn syscount_with_and_without_times_is_read() {
    let timed = "Tracing syscalls, printing top 10... Ctrl+C to quit.\n^C[01:41:36]\n\
        SYSCALL                   COUNT        TIME (us)\n\
        getppid                    1000          275.000\n\nDetaching...\n";
    assert_eq!(counted::from_syscount(timed, "getppid"), exactly(1000, 275.0));
    let counts = "[01:41:36]\nSYSCALL                   COUNT\ngetppid                    1000\n";
    let untimed = Some(Counted { calls: 1000, average_ns: None });
    assert_eq!(counted::from_syscount(counts, "getppid"), untimed);
}
