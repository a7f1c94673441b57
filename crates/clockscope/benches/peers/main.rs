//! The benchmark suite: clockscope beside its peers, every figure a ratio or a difference with an
//! interval, from one run on one machine.
//!
//! `cargo bench -p clockscope --bench peers -- [--quick] [--markdown FILE] [SECTION]...`
//!
//! How figures are made: every variant runs once a round, rounds alternate their order; a launch's
//! figure is the median of those of its batches whose control loops ran undisturbed; figures of one
//! round are paired; the median of the pairs has an order-statistic interval. There are no means.

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;

use crate::options::{Options, Section};
use crate::page::Page;
use crate::suite::Suite;

mod arch;
mod bracket;
mod chunks;
mod clocks;
mod counted;
mod figure;
mod loops;
mod machine;
mod options;
mod page;
mod process;
mod rounds;
mod sections;
mod series;
mod servers;
mod suite;
mod tools;
mod tracer;
mod workloads;

fn main() -> ExitCode {
    let options = Options::parse();
    if !options.bench {
        // `cargo test --all-targets` runs this program too; measuring belongs to `cargo bench`.
        return ExitCode::SUCCESS;
    }
    let done = if options.one_start { sections::start::one() } else { run(options) };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr().lock(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> Result<()> {
    let started = Instant::now();
    let suite = Suite::prepare(options)?;
    let mut page = Page::default();
    write_head(&suite, &mut page);
    for section in suite.options.chosen_sections() {
        if let Err(error) = run_section(&suite, &mut page, section) {
            // The other sections are still worth their time.
            page.verdict(&format!("section {section:?} failed: {error:#}"));
        }
    }
    write_end(&suite, &mut page, started);
    if let Some(path) = &suite.options.markdown {
        std::fs::write(path, page.markdown())
            .with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(())
}

fn run_section(suite: &Suite, page: &mut Page, section: Section) -> Result<()> {
    match section {
        Section::Vdso => sections::vdso::run(suite, page),
        Section::Syscalls => sections::syscalls::run(suite, page),
        Section::Counters => sections::counters::run(suite, page),
        Section::Bystander => sections::bystander::run(suite, page),
        Section::Launch => sections::launch::run(suite, page),
        Section::Builds => sections::builds::run(suite, page),
        Section::Real => sections::real::run(suite, page),
        Section::Memory => sections::memory::run(suite, page),
        Section::Signals => sections::signals::run(suite, page),
        Section::Agreement => sections::agreement::run(suite, page),
        Section::Fastclock => sections::fastclock::run(suite, page),
        Section::Start => sections::start::run(suite, page),
        Section::Accuracy => sections::accuracy::run(suite, page),
        Section::Order => sections::order::run(suite, page),
        Section::RunTsc => sections::run_tsc::run(suite, page),
        Section::Sampling => sections::sampling::run(suite, page),
        Section::Attach => sections::attach::run(suite, page),
    }
}

fn write_head(suite: &Suite, page: &mut Page) {
    page.heading(1, "Performance");
    page.text(
        "Written by `make bench`. Ratios and differences are between variants of the same round.",
    );
    let quick = if suite.options.quick { " (quick mode: a look, not a measurement)" } else { "" };
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|word| word != "--bench").collect();
    page.text(&format!(
        "Command: `cargo bench -p clockscope --bench peers -- {}`{quick}",
        arguments.join(" ")
    ));
    page.text(&machine::described());
    page.table(&["date, system, tools", ""], &versions());
    page.text(HOW_TO_READ);
}

const HOW_TO_READ: &str = "How to read it: *min* is the fastest batch seen. *median* is the median over rounds of each \
    launch's median batch, counting only batches between two undisturbed control loops; *gated* is their share, and \
    `noisy` means that too few were undisturbed and all were used. *added* and *ratio* are medians of the \
    differences and quotients with the first row of the same round. Brackets hold the order-statistic interval of \
    the median, at 95 % unless another confidence is named.";

fn versions() -> Vec<Vec<String>> {
    let system = machine::output_of("sh", &["-c", ". /etc/os-release; echo \"$PRETTY_NAME\""]);
    let known = [("date", machine::date()), ("system", system)];
    let tools = [
        ("strace", "--version"),
        ("ltrace", "--version"),
        ("perf", "--version"),
        ("bpftrace", "--version"),
        ("nginx", "-v"),
        ("redis-server", "--version"),
        ("pgbench", "--version"),
        ("gdb", "--version"),
        ("sqlite3", "--version"),
    ];
    let installed = |&(tool, flag): &(&str, &str)| {
        let version = if tools::is_installed(tool) {
            version_of(tool, flag)
        } else {
            "not installed".to_owned()
        };
        vec![tool.to_owned(), version]
    };
    let known = known.map(|(name, value)| vec![name.to_owned(), value]);
    known.into_iter().chain(tools.iter().map(installed)).collect()
}

/// The first line of the version, from either output, in at most 40 characters.
fn version_of(tool: &str, flag: &str) -> String {
    let line = machine::output_of("sh", &["-c", &format!("{tool} {flag} 2>&1")]);
    line.chars().take(40).collect()
}

fn write_end(suite: &Suite, page: &mut Page, started: Instant) {
    let refusals = suite.refusals();
    if !refusals.is_empty() {
        page.heading(2, "Not compared on this machine");
        for (name, reason) in refusals {
            page.text(&format!("- `{name}`: {reason}"));
        }
    }
    page.heading(2, "All verdicts");
    let verdicts: Vec<String> =
        page.verdicts().iter().map(|verdict| format!("- {verdict}")).collect();
    page.text(&verdicts.join("\n"));
    let seconds = started.elapsed().as_secs();
    page.text(&format!("The suite took {seconds} s; load after: {}.", machine::load()));
}
