//! What the machine is, for the head of the page.

use std::process::Command;

use clockscope_measure::host;

/// The host, as clockscope's own reports describe it.
pub(crate) fn described() -> String {
    format!("```\n{}```", clockscope_report::host::render(&host::collect()))
}

/// When, under what load and by what command: for a section that can be measured alone.
pub(crate) fn measured_by(section: &str) -> String {
    format!("`make bench SECTIONS={section}`: {}; load {}.", date(), load())
}

/// The date and the time of day now.
pub(crate) fn date() -> String {
    output_of("date", &["-u", "+%Y-%m-%d %H:%M UTC"])
}

/// The load now, as /proc/loadavg has it.
pub(crate) fn load() -> String {
    output_of("cat", &["/proc/loadavg"])
}

/// The first line of what a program prints, or `unknown`.
pub(crate) fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().ok();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.and_then(|text| text.lines().next().map(str::to_owned))
        .unwrap_or_else(|| "unknown".to_owned())
}
