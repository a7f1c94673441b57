//! What seccomp filters of processes and containers, and profiles, make of reads of the clock.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};

use crate::cli::explain::DoctorArgs;
use crate::commands::groups;
use clock_doctor::facts::ReadFilter;
use clockscope_containers::clock_reads::{self, Refused};
use clockscope_containers::filter::{self, Answer};
use clockscope_containers::profile::Profile;
use clockscope_text::foreign::printable;
use clockscope_tracee::attach::{Refusal, command_name, filters};

/// No profile is longer.
const LONGEST: u64 = 8 << 20;

/// What was asked about. Says of those that refuse nothing that they do not.
///
/// # Errors
///
/// A clause that says what cannot be looked at, and why.
pub(super) fn asked(args: &DoctorArgs) -> Result<Vec<ReadFilter>> {
    let mut all = Vec::new();
    for pid in &args.pid {
        all.push(of_process(*pid, format!("process {} ({pid})", command_name(*pid)))?);
    }
    for name in &args.container {
        let pid = groups::first_process(name)?;
        all.push(of_process(pid, format!("container {}", printable(name)))?);
    }
    for path in &args.seccomp_profile {
        all.push(of_profile(path)?);
    }
    for filter in all.iter().filter(|filter| filter.refuses.is_empty()) {
        let of = &filter.of;
        crate::commands::warn_user(&format!("{of}: no seccomp filter refuses a read of the clock"));
    }
    Ok(all)
}

fn of_process(pid: i32, of: String) -> Result<ReadFilter> {
    let filters = filters::of_running(pid).map_err(|refusal| match refusal {
        Refusal::Filters => anyhow!(
            "cannot look at the filter of {of}: the kernel shows it to root only, and to nobody under a filter"
        ),
        _ => anyhow!("cannot look at the filter of {of}: {refusal}"),
    })?;
    let refused = clock_reads::refused(&|call| filter::answer(&filters, call));
    Ok(ReadFilter { of, refuses: refused.iter().map(clause).collect() })
}

fn of_profile(path: &Path) -> Result<ReadFilter> {
    let of = printable(&path.to_string_lossy());
    let text = read(path).with_context(|| format!("cannot read {of}"))?;
    let profile = match Profile::parse(&text) {
        Ok(profile) => profile,
        Err(error) => bail!("{of} is no seccomp profile of a container: {error}"),
    };
    let refused = clock_reads::refused(&|call| profile.answer(call));
    Ok(ReadFilter { of, refuses: refused.iter().map(clause).collect() })
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(LONGEST + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LONGEST {
        return Err(io::Error::other("it is longer than 8 MiB, which no profile is"));
    }
    Ok(text)
}

/// What becomes of a read.
fn clause(refused: &Refused) -> String {
    let becomes = match refused.answer {
        Answer::Fails(1) => "fails with EPERM".to_owned(),
        Answer::Fails(38) => "fails with ENOSYS".to_owned(),
        Answer::Fails(number) => format!("fails with error {number}"),
        _ => "kills the program".to_owned(),
    };
    format!("{} of {}-bit programs {becomes}", refused.call, refused.bits)
}
