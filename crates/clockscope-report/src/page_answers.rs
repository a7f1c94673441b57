//! The lines about the clock page.

use clockscope_model::trace::ClockPageReport;
use clockscope_text::foreign::printable;
use clockscope_text::lines::labelled;
use clockscope_text::units;

/// Reads answered by the page, reads answered by the kernel instead, and the page's upkeep.
pub(super) fn render(page: &ClockPageReport) -> String {
    let mut out = labelled("Page", &answered(page));
    for (index, row) in page.by_kernel.iter().enumerate() {
        let label = if index == 0 { "Kernel" } else { "" };
        out += &labelled(
            label,
            &format!("{} reads: {}", units::count(row.reads), printable(&row.reason)),
        );
    }
    let lines = units::counted(page.lines, "line", "lines");
    out += &labelled(
        "Kept",
        &format!("{lines} published in {} of answering", units::nanos(page.answered_ns)),
    );
    if !page.ordered {
        out += &labelled(
            "Order",
            "not guaranteed: a thread may see less than another one has seen before; \
             --clock tsc guarantees it",
        );
    }
    out
}

fn answered(page: &ClockPageReport) -> String {
    let (reads, answered) = (units::count(page.reads), units::count(page.answered));
    if page.reads == 0 {
        return "none of its clocks was read".to_owned();
    }
    let share = units::share(page.answered as f64 / page.reads as f64);
    let bound = match page.answered {
        0 => String::new(),
        _ => format!("; wrong by at most {}", units::nanos(page.worst_bound_ns)),
    };
    format!("answered {answered} of {reads} reads ({share}){bound}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_model::trace::ByKernel;

    fn page() -> ClockPageReport {
        let reason = "the counter has not been measured for long enough yet".to_owned();
        ClockPageReport {
            ordered: true,
            reads: 2_000_003,
            answered: 1_500_000,
            by_kernel: vec![ByKernel { number: 1, reason, reads: 500_003 }],
            lines: 31,
            worst_bound_ns: 320,
            answered_ns: 2_900_000_000,
            withdrawals: Vec::new(),
        }
    }

    #[test]
    fn what_was_answered_and_by_whom() {
        let text = render(&page());
        assert_eq!(
            text,
            "Page:         answered 1,500,000 of 2,000,003 reads (75 %); wrong by at most 320\n\
             \x20             ns\n\
             Kernel:       500,003 reads: the counter has not been measured for long enough\n\
             \x20             yet\n\
             Kept:         31 lines published in 2.9 s of answering\n"
        );
    }

    #[test]
    fn a_clock_without_order_says_so() {
        assert!(render(&ClockPageReport { ordered: false, ..page() }).contains("not guaranteed"));
        assert!(!render(&page()).contains("not guaranteed"));
    }

    #[test]
    fn nothing_read_is_no_share() {
        let text = render(&ClockPageReport::default());
        assert!(text.starts_with("Page:         none of its clocks was read\n"), "{text}");
    }
}
