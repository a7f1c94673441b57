//! The bench report as Go's benchmarks print theirs, for benchstat.
//!
//! # References
//!
//! - "Proposal: Go Benchmark Data Format", golang/proposal, 14313-benchmark-format.md

use clockscope_model::bench::{BenchReport, PathRow};

/// Lines for each path: benchstat wants at least six to test at 95 percent, and ten are usual.
const LINES: usize = 10;

/// Lines of configuration, then for each path ten lines, each the median of a part of the
/// accepted batches; where there are fewer, one a launch.
pub fn render(report: &BenchReport) -> String {
    let host = &report.host;
    let mut out = String::new();
    let mut config = |key: &str, value: &str| {
        if !value.is_empty() {
            out += &format!("{key}: {}\n", value.replace(char::is_control, " "));
        }
    };
    config("clockscope", &host.clockscope);
    config("kernel", &host.kernel);
    config("cpu", host.cpu_model.as_deref().unwrap_or_default());
    config("clocksource", host.clocksource.as_deref().unwrap_or_default());
    for path in &report.paths {
        let (kind, key, name) = match (&path.name.clock, &path.name.call) {
            (Some(clock), _) => ("Clock", "clock", clock),
            (None, Some(call)) => ("Call", "call", call),
            (None, None) => continue,
        };
        let title =
            format!("Benchmark{kind}/{key}={}/route={}", word(name), word(&path.name.route));
        for (calls, ps) in parts(path) {
            out += &format!("{title} {calls} {}.{:03} ns/op\n", ps / 1_000, ps % 1_000);
        }
    }
    out
}

/// A name without what would end it.
fn word(name: &str) -> String {
    name.replace(|c: char| c.is_whitespace() || c == '/', "_")
}

/// Calls and cost in picoseconds of each part of the accepted batches.
fn parts(path: &PathRow) -> Vec<(u64, u64)> {
    let samples = &path.samples_ps;
    if samples.len() < LINES {
        let launch = |launch: &clockscope_model::bench::LaunchRow| {
            (path.calls_per_batch * launch.batches, launch.cost_ps_median)
        };
        return path.launches.iter().map(launch).collect();
    }
    let part = |number: usize| {
        let part = &samples[number * samples.len() / LINES..(number + 1) * samples.len() / LINES];
        let mut sorted = part.to_vec();
        sorted.sort_unstable();
        (path.calls_per_batch * sorted.len() as u64, sorted[sorted.len() / 2])
    };
    (0..LINES).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_model::bench::{LaunchRow, PathName};

    fn path(samples_ps: Vec<u64>) -> BenchReport {
        let name = PathName { clock: Some("empty loop".into()), call: None, route: "none".into() };
        let launch = LaunchRow { cost_ps_median: 21_666, batches: 200, ..LaunchRow::default() };
        let launches = vec![launch; 3];
        let row = PathRow { name, samples_ps, launches, calls_per_batch: 16, ..PathRow::default() };
        BenchReport { paths: vec![row], ..BenchReport::default() }
    }

    #[test]
    fn a_line_is_name_calls_cost_unit() {
        let text = render(&path((0..1000).map(|n| 21_000 + n).collect()));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), LINES);
        assert_eq!(lines[0], "BenchmarkClock/clock=empty_loop/route=none 1600 21.050 ns/op");
        for line in lines {
            assert_eq!(line.split(' ').count(), 4, "{line}");
        }
    }

    #[test]
    fn few_accepted_batches_give_a_line_a_launch() {
        let text = render(&path(vec![5; 9]));
        assert_eq!(text.lines().count(), 3);
        assert!(text.ends_with("route=none 3200 21.666 ns/op\n"), "{text}");
    }

    #[test]
    fn the_host_is_configuration() {
        let mut report = path(Vec::new());
        report.host.cpu_model = Some("A CPU".into());
        assert!(render(&report).starts_with("cpu: A CPU\n"));
    }
}
