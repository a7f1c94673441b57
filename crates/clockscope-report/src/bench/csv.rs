//! The bench report for spreadsheets: a line of heads, then one line a path (RFC 4180, with `\n`).

use clockscope_model::bench::BenchReport;

const HEADS: &str = "clock,call,route,cost_ps_min,cost_ps_median,cost_ps_ci_low,cost_ps_ci_high,\
                     cost_ps_p5,cost_ps_p95,batches,accepted,grade,calls_per_batch\n";

/// The lines. `clock` or `call` is empty.
pub fn render(report: &BenchReport) -> String {
    let mut out = HEADS.to_owned();
    for path in &report.paths {
        let texts = [path.name.clock.as_deref(), path.name.call.as_deref(), Some(&path.name.route)];
        let texts = texts.map(|text| quoted(text.unwrap_or_default())).join(",");
        let numbers = [
            path.cost_ps_min,
            path.cost_ps_median,
            path.cost_ps_ci_low,
            path.cost_ps_ci_high,
            path.cost_ps_p5,
            path.cost_ps_p95,
            path.batches,
            path.accepted,
        ]
        .map(|number| number.to_string())
        .join(",");
        let grade = quoted(&path.grade);
        out += &format!("{texts},{numbers},{grade},{}\n", path.calls_per_batch);
    }
    out
}

/// A cell; with quotation marks where it needs them.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_model::bench::{PathName, PathRow};

    #[test]
    fn a_path_is_a_line_with_as_many_cells_as_heads() {
        let name = PathName { clock: Some("CLOCK_TAI".into()), call: None, route: "vdso".into() };
        let row = PathRow { name, cost_ps_min: 21, grade: "quiet".into(), ..PathRow::default() };
        let text = render(&BenchReport { paths: vec![row], ..BenchReport::default() });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "CLOCK_TAI,,vdso,21,0,0,0,0,0,0,0,quiet,0");
        assert_eq!(lines[0].split(',').count(), lines[1].split(',').count());
    }

    #[test]
    fn cells_with_commas_or_quotes_are_quoted() {
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
        assert_eq!(quoted("lfence;rdtsc"), "lfence;rdtsc");
    }
}
