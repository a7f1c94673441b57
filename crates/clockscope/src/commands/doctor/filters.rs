//! Seccomp filters of processes and containers, and their answers to reads of the clock.

use anyhow::{Result, anyhow};

use crate::cli::explain::DoctorArgs;
use clock_doctor::facts::ReadFilter;
use clockscope_containers::clock_reads::{self, Refused};
use clockscope_containers::filter::{self, Answer};
use clockscope_text::foreign::printable;
use clockscope_trace::attach::groups;
use clockscope_tracee::attach::{Refusal, command_name, filters};

/// The filters of the processes and containers in `args`. Tells the user about those that refuse no read.
///
/// # Errors
///
/// A clause with the filter that cannot be read, and the reason.
pub(super) fn asked(args: &DoctorArgs) -> Result<Vec<ReadFilter>> {
    let mut all = Vec::new();
    for pid in &args.pid {
        all.push(of_process(*pid, format!("process {} ({pid})", command_name(*pid)))?);
    }
    for name in &args.container {
        let pid = groups::first_process(name)?;
        all.push(of_process(pid, format!("container {}", printable(name)))?);
    }
    for filter in all.iter().filter(|filter| filter.refuses.is_empty()) {
        let of = &filter.of;
        crate::printing::warn_user(&format!("{of}: no seccomp filter refuses a read of the clock"));
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
    let refused = clock_reads::refused(filters::AUDIT_ARCH, &|call| filter::answer(&filters, call));
    Ok(ReadFilter { of, refuses: refused.iter().map(clause).collect() })
}

/// The outcome of a refused read, as a clause.
fn clause(refused: &Refused) -> String {
    let becomes = match refused.answer {
        Answer::Fails(1) => "fails with EPERM".to_owned(),
        Answer::Fails(38) => "fails with ENOSYS".to_owned(),
        Answer::Fails(number) => format!("fails with error {number}"),
        _ => "kills the program".to_owned(),
    };
    format!("{} of {}-bit programs {becomes}", refused.call, refused.bits)
}
