//! The time of day beside other clocks.

use super::paragraph::wrapped;
use crate::report::model::DoctorReport;
use crate::rules::utc::sentence;
use crate::utc::duration;

/// A line for each clock that was read, and for each word about the time; empty if the time was not compared.
pub(super) fn render(report: &DoctorReport) -> String {
    let measured = report.measured.as_ref();
    let Some(utc) = measured.and_then(|measured| measured.utc.as_ref()) else {
        return String::new();
    };
    let mut clauses: Vec<String> = utc
        .references
        .iter()
        .map(|one| match &one.aside {
            Some(why) => format!("{} does not count: {why}", one.name),
            None => sentence(one),
        })
        .collect();
    if clauses.is_empty() {
        clauses.push("there is no clock to compare with".to_owned());
    }
    clauses.extend(utc.word.iter().map(|word| match word.age_s {
        Some(_) => format!("{} states an error of at most {}", word.by, duration(word.error_ns)),
        None => format!("{} was not told the time", word.by),
    }));
    let tai = measured.and_then(|measured| measured.discipline.as_ref()).map_or(0, |it| it.tai_s);
    clauses.extend((tai != 0).then(|| format!("TAI is {tai} s ahead of UTC")));
    wrapped("Time: ", 6, &format!("{}.", clauses.join("; ")))
}
