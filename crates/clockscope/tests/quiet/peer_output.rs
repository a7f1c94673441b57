//! The benchmark suite parses its peers' tables correctly. The samples are shortened real output.

#[path = "../../benches/peers/counted.rs"]
mod counted;

use counted::Counted;

fn exactly(calls: u64, average_ns: f64) -> Option<Counted> {
    Some(Counted { calls, average_ns: Some(average_ns) })
}

#[test]
fn clockscope_rows_of_several_clocks_are_added_up() {
    let json = include_str!("peer_output/clockscope.json");
    assert_eq!(counted::from_clockscope(json, "vdso", "clock_gettime"), exactly(40, 25.0));
    assert_eq!(counted::from_clockscope(json, "syscalls", "getppid"), exactly(5, 94.1));
    let untimed = Some(Counted { calls: 3, average_ns: None });
    assert_eq!(counted::from_clockscope(json, "syscalls", "read"), untimed);
    let absent = Some(Counted { calls: 0, average_ns: None });
    assert_eq!(counted::from_clockscope(json, "syscalls", "write"), absent);
    assert_eq!(counted::from_clockscope("not json", "vdso", "time"), None);
}

#[test]
fn reads_of_the_counter_are_read_by_instruction() {
    let json = r#"{"counters": {"rdtsc": 12, "rdtscp": 0}}"#;
    let reads = |instruction| counted::from_counters(json, instruction).map(|row| row.calls);
    assert_eq!([reads("rdtsc"), reads("rdtscp"), reads("rdpmc")], [Some(12), Some(0), None]);
}

#[test]
fn strace_rows_with_and_without_errors_are_read() {
    let text = include_str!("peer_output/strace.txt");
    assert_eq!(counted::from_strace(text, "getppid"), exactly(1000, 4000.0));
    assert_eq!(counted::from_strace(text, "access").map(|row| row.calls), Some(1));
    assert_eq!(counted::from_strace(text, "read"), None);
}

#[test]
fn perf_trace_adds_up_the_tables_of_threads() {
    let text = include_str!("peer_output/perf-trace.txt");
    assert_eq!(counted::from_perf_trace(text, "getppid"), exactly(400, 2000.0));
    assert_eq!(counted::from_perf_trace(text, "write"), None);
}

#[test]
fn perf_stat_does_not_take_pwrite_for_write() {
    let text = include_str!("peer_output/perf-stat.txt");
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
