//! The options of `clockscope serve`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::Format;
use super::trace::duration;

/// Default path of the page, which readers know.
pub const PAGE: &str = "/run/clockscope/page";

/// Options of `clockscope serve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  clockscope serve                publish the page in the background
  clockscope serve --foreground   under a supervisor, such as systemd
  clockscope serve --user nobody  drop privileges once the page is open
  clockscope serve --status       print the state of the page, and who serves it
  clockscope serve --stop         end the timekeeper

Exit status:
  0    the page is published; with --status, it answers; with --stop, its timekeeper has ended
  1    with --status, the page does not answer; with --stop, it had no timekeeper
  2    the options are wrong; with --status and --stop, the page cannot be read
  125  serve could not publish: it refused the TSC, another timekeeper writes the page, or the file
       cannot be made")]
pub struct ServeArgs {
    /// The file of the page
    #[arg(long, value_name = "FILE", default_value = PAGE)]
    pub page: PathBuf,
    /// Time between two looks at the kernel's clock, from 10ms to 10s
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = period)]
    pub period: Duration,
    /// How long readers use the page without news from the timekeeper, from 100ms to 1h. A restart
    /// may take this long. If the timekeeper dies, readers may miss a step of the time for as long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = valid)]
    pub valid: Duration,
    /// Become this user (a name or a number) once the page is open; needs root
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Stay in the foreground, and report on standard error when the page gives way to the kernel
    #[arg(long)]
    pub foreground: bool,
    /// Use the TSC even if the kernel does not use it, or the CPU does not promise that its rate is
    /// constant. A measured fault (a warp, another rate) still refuses it
    #[arg(long)]
    pub force: bool,
    /// On SIGTERM and SIGINT, end the page too, instead of leaving it valid for the next timekeeper
    #[arg(long)]
    pub withdraw_on_exit: bool,
    /// Print the state of a page (of --page if no FILE is given) and publish nothing
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        conflicts_with_all = ["period", "valid", "user", "foreground", "force", "withdraw_on_exit"]
    )]
    pub status: Option<Option<PathBuf>>,
    /// End the timekeeper of a page (of --page if no FILE is given), and wait until it is gone
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        conflicts_with_all = [
            "status", "period", "valid", "user", "foreground", "force", "withdraw_on_exit"
        ]
    )]
    pub stop: Option<Option<PathBuf>>,
    /// With --status: how to print it
    #[arg(long, value_enum, default_value_t = Format::Text, requires = "status")]
    pub format: Format,
}

fn period(text: &str) -> Result<Duration, String> {
    between(text, Duration::from_millis(10), Duration::from_secs(10))
}

fn valid(text: &str) -> Result<Duration, String> {
    between(text, Duration::from_millis(100), Duration::from_secs(3600))
}

/// A time within these limits.
fn between(text: &str, least: Duration, most: Duration) -> Result<Duration, String> {
    let time = duration(text)?;
    let is_within = (least..=most).contains(&time);
    is_within.then_some(time).ok_or_else(|| format!("not between {least:?} and {most:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_limits() {
        assert_eq!(period("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(period("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(valid("1h"), Ok(Duration::from_secs(3600)));
        assert_eq!(valid("2m"), Ok(Duration::from_secs(120)));
        for bad in ["", "s", "1.2.3s", "10", "5ms", "1y", "-1s", "1e9s", "nan", "0"] {
            assert!(period(bad).is_err() || bad == "10", "{bad}");
        }
        assert!(valid("3601s").is_err() && valid("99ms").is_err());
    }
}
