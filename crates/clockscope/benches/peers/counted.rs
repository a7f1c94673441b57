//! What each tracer's own summary says of one call. Pure: text in, figures out.

use serde_json::Value;

/// What a tracer reported of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counted {
    /// Number of calls.
    pub(crate) calls: u64,
    /// Average time of a call in nanoseconds, if the tracer times calls.
    pub(crate) average_ns: Option<f64>,
}

/// Reads `clockscope trace --format json`: all rows of this function or system call, by any clock.
pub(crate) fn from_clockscope(json: &str, table: &str, name: &str) -> Option<Counted> {
    let report: Value = serde_json::from_str(json).ok()?;
    let rows: Vec<&Value> = report[table]
        .as_array()?
        .iter()
        .filter(|row| row["name"] == name || row["function"] == name)
        .collect();
    let sum = |key: &str| rows.iter().filter_map(|row| row[key].as_u64()).sum::<u64>();
    let calls = sum("calls");
    let average_ns = match rows.as_slice() {
        [row] => row["time_avg_ps"].as_u64().map(|ps| ps as f64 / 1000.0),
        _ => Some(sum("time_total_ns") as f64 / calls.max(1) as f64),
    };
    Some(Counted { calls, average_ns: average_ns.filter(|&ns| ns > 0.0) })
}

/// Reads `clockscope trace --counters --format json`: reads by an instruction.
pub(crate) fn from_counters(json: &str, instruction: &str) -> Option<Counted> {
    let report: Value = serde_json::from_str(json).ok()?;
    Some(Counted { calls: report["counters"][instruction].as_u64()?, average_ns: None })
}

/// Reads the table of `strace -c` and `ltrace -c`:
/// `% time, seconds, usecs/call, calls, [errors], name`.
pub(crate) fn from_strace(text: &str, name: &str) -> Option<Counted> {
    let row = row_ending_with(text, name)?;
    let seconds: f64 = row.get(1)?.parse().ok()?;
    let calls: u64 = row.get(3)?.parse().ok()?;
    Some(Counted { calls, average_ns: Some(seconds * 1e9 / calls.max(1) as f64) })
}

/// Reads `perf trace -s`: `name, calls, errors, total, min, avg, max, stddev` in milliseconds, one
/// table a thread.
pub(crate) fn from_perf_trace(text: &str, name: &str) -> Option<Counted> {
    let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let (mut calls, mut total_ms) = (0, 0.0);
    for row in rows.filter(|row| row.len() >= 6 && row[0] == name) {
        let row_calls: u64 = row[1].parse().ok()?;
        let average_ms: f64 = row[5].parse().ok()?;
        calls += row_calls;
        total_ms += average_ms * row_calls as f64;
    }
    let average_ns = total_ms * 1e6 / calls as f64;
    (calls > 0).then_some(Counted { calls, average_ns: Some(average_ns) })
}

/// Reads `perf stat -x,`: `count, unit, event, ...`; the event that `wanted` accepts.
pub(crate) fn from_perf_stat(text: &str, wanted: impl Fn(&str) -> bool) -> Option<Counted> {
    let mut rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let row = rows.find(|row| row.get(2).is_some_and(|event| wanted(event)))?;
    Some(Counted { calls: row[0].parse().ok()?, average_ns: None })
}

/// Reads bpftrace's maps `@calls[NUMBER]: COUNT` and, if it is there, `@ns[NUMBER]: TOTAL`.
pub(crate) fn from_bpftrace(text: &str, number: libc::c_long) -> Option<Counted> {
    let value = |map: &str| {
        let key = format!("@{map}[{number}]:");
        let rest = text.lines().find_map(|line| line.trim().strip_prefix(key.as_str()))?;
        rest.trim().parse::<u64>().ok()
    };
    let calls = value("calls")?;
    let average_ns = value("ns").map(|ns| ns as f64 / calls.max(1) as f64);
    Some(Counted { calls, average_ns })
}

fn row_ending_with<'a>(text: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let mut rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.find(|row| row.len() >= 5 && row.last() == Some(&name))
}
