//! The section on instructions of `bench`'s report, as text.

use super::names::of_row;
use crate::table::{Head, draw};
use clockscope_model::bench::{Instructions, InstructionsRow};
use clockscope_text::foreign::printable;
use clockscope_text::lines::labelled;

const NAME_MIN: usize = 12;

/// The section; empty if there are no rows.
pub fn render(instructions: &Instructions) -> String {
    let rows = &instructions.rows;
    if rows.is_empty() {
        return String::new();
    }
    let right = |text: &'static str| Head::right(text, text.len());
    let mut heads = vec![Head::NAME];
    heads.extend(["user", "in vDSO", "syscalls", "repeats that agree"].map(right));
    let mut out = "Instructions of one call, executed step by step\n\n".to_owned();
    out += &draw(&heads, rows.iter().map(stepped).collect(), false, NAME_MIN);
    let counted: Vec<Vec<String>> = rows.iter().filter_map(counted).collect();
    if !counted.is_empty() {
        let heads = [Head::NAME, right("user and kernel"), right("cycles")];
        out += "\nInstructions of one call, by hardware counters\n\n";
        out += &draw(&heads, counted, false, NAME_MIN);
    }
    out.push('\n');
    out += &labelled("Stepped", by_steps(rows));
    out + &labelled("Counters", &by_counters(instructions))
}

fn stepped(row: &InstructionsRow) -> Vec<String> {
    let whole = |value: Option<u64>| value.map_or_else(dash, |value| value.to_string());
    let agree = row.agreeing.map_or_else(dash, |(agree, all)| format!("{agree} of {all}"));
    vec![of_row(&row.name), whole(row.user), whole(row.in_vdso), whole(row.syscalls), agree]
}

/// The cells of a row; `None` if its instructions were not counted.
fn counted(row: &InstructionsRow) -> Option<Vec<String>> {
    let cycles = row.cycles.map_or_else(dash, |cycles| format!("{cycles:.1}"));
    Some(vec![of_row(&row.name), format!("{:.1}", row.counted?), cycles])
}

/// Stands for an unknown number.
fn dash() -> String {
    "-".to_owned()
}

/// The method of single-stepping.
fn by_steps(rows: &[InstructionsRow]) -> &'static str {
    if rows.iter().all(|row| row.syscalls.is_none()) {
        return "no call could be executed step by step here.";
    }
    "each instruction of a child was executed by itself; a turn of the empty loop is subtracted."
}

/// The method of the counters, or the reason why there are none.
fn by_counters(instructions: &Instructions) -> String {
    match &instructions.no_counters {
        Some(reason) => {
            format!("the kernel's instructions are not counted: {}.", printable(reason))
        }
        None => {
            "a loop with the call minus the same loop without it, divided by the calls.".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_model::bench::PathName;
    use clockscope_text::lines::width;

    fn row(clock: &str, route: &str, user: u64, in_vdso: u64, syscalls: u64) -> InstructionsRow {
        InstructionsRow {
            name: PathName { clock: Some(clock.to_owned()), call: None, route: route.to_owned() },
            user: Some(user),
            in_vdso: Some(in_vdso),
            syscalls: Some(syscalls),
            agreeing: Some((14, 15)),
            ..InstructionsRow::default()
        }
    }

    fn rows() -> Vec<InstructionsRow> {
        vec![
            row("CLOCK_MONOTONIC", "libc", 75, 61, 0),
            row("CLOCK_PROCESS_CPUTIME_ID", "vdso", 50, 36, 1),
            row("rdtsc", "tsc", 3, 0, 0),
        ]
    }

    #[test]
    fn without_counters_one_line_says_so_and_no_column_is_full_of_zeros() {
        let no_counters = Some("this host has no hardware counters".to_owned());
        insta::assert_snapshot!(render(&Instructions { no_counters, rows: rows() }));
    }

    #[test]
    fn with_counters_there_are_columns_for_them() {
        let mut rows = rows();
        for row in &mut rows[..2] {
            row.counted = Some(1005.134);
            row.cycles = Some(593.03);
        }
        insta::assert_snapshot!(render(&Instructions { no_counters: None, rows }));
    }

    #[test]
    fn what_could_not_be_stepped_is_a_dash_and_never_zero() {
        let name =
            PathName { clock: Some("rdtsc".to_owned()), call: None, route: "tsc".to_owned() };
        let unknown = InstructionsRow { name, ..InstructionsRow::default() };
        let text = render(&Instructions { no_counters: None, rows: vec![unknown] });
        assert!(text.contains("no call could be executed step by step"), "{text}");
        assert!(!text.contains(" 0"), "{text}");
    }

    #[test]
    fn lines_keep_the_width() {
        let mut long = row(&"x".repeat(90), "syscall", 99_999, 99_999, 9_999);
        long.counted = Some(1e6);
        long.cycles = Some(1e6);
        let no_counters = Some("why ".repeat(40));
        for line in render(&Instructions { no_counters, rows: vec![long] }).lines() {
            assert!(width(line) <= 80, "{line}");
        }
        assert_eq!(render(&Instructions::default()), "");
    }
}
