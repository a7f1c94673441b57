//! PostgreSQL on a Unix socket as an unprivileged user, under pgbench.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{LIMIT, load, number_after, start};
use crate::machine::output_of;
use crate::process::{self, Running, words};
use crate::suite::Suite;
use crate::tracer::Tracer;

/// What must be installed besides the server, whose programs are not on the search path.
pub(crate) const PROGRAMS: [&str; 3] = ["pgbench", "pg_isready", "setpriv"];

/// A database cluster in the suite's directory.
pub(crate) struct Cluster {
    programs: PathBuf,
    directory: PathBuf,
    user: Vec<OsString>,
}

impl Cluster {
    /// Makes the cluster and its tables.
    pub(crate) fn create(suite: &Suite) -> Result<Self> {
        let directory = suite.path("postgres");
        // Another section may have had one.
        if directory.exists() {
            std::fs::remove_dir_all(&directory)?;
        }
        std::fs::create_dir_all(&directory)?;
        let cluster = Self {
            programs: server_programs().context("no server in /usr/lib/postgresql")?,
            user: unprivileged(&directory)?,
            directory,
        };
        let data = cluster.directory.display();
        cluster.run("initdb", &format!("-D {data}/data -U postgres -A trust --no-sync"))?;
        let server = cluster.start(suite, Tracer::Untraced)?;
        load(suite, &format!("pgbench -i -q -s 1 -h {data} -U postgres postgres"))?;
        cluster.stop(server)?;
        Ok(cluster)
    }

    /// Transactions a second under this tracer, each of them one SELECT.
    pub(crate) fn rate(&self, suite: &Suite, tracer: Tracer) -> Result<f64> {
        let server = self.start(suite, tracer)?;
        let seconds = suite.options.choose(3, 1);
        let output = load(
            suite,
            &format!(
                "pgbench -n -S -c 4 -j 2 -T {seconds} -h {} -U postgres postgres",
                self.directory.display()
            ),
        );
        self.stop(server)?;
        number_after(&output?, "tps = ")
            .context("pgbench did not say how many transactions a second")
    }

    fn start(&self, suite: &Suite, tracer: Tracer) -> Result<Running> {
        let directory = self.directory.display();
        let ready = words(&format!("pg_isready -q -h {directory} -U postgres"));
        let command = self.command(
            "postgres",
            &format!("-D {directory}/data -k {directory} -c listen_addresses= -c fsync=off"),
        );
        start(suite, tracer, &command, || process::run(&ready, LIMIT).is_ok())
    }

    fn stop(&self, server: Running) -> Result<()> {
        self.run("pg_ctl", &format!("-D {}/data -m fast -w stop", self.directory.display()))?;
        server.finish(LIMIT).map(drop)
    }

    fn run(&self, program: &str, arguments: &str) -> Result<()> {
        process::run(&self.command(program, arguments), LIMIT).map(drop)
    }

    fn command(&self, program: &str, arguments: &str) -> Vec<OsString> {
        let program = self.programs.join(program).into_os_string();
        self.user.iter().cloned().chain([program]).chain(words(arguments)).collect()
    }
}

/// The newest version's directory of programs.
fn server_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let programs = versions.flatten().map(|version| version.path().join("bin"));
    programs.filter(|path| path.join("initdb").exists() && path.join("postgres").exists()).max()
}

/// The prefix that makes a command run as `postgres`, because the server refuses root; gives that
/// user the directory.
fn unprivileged(directory: &Path) -> Result<Vec<OsString>> {
    if output_of("id", &["-u"]) != "0" {
        return Ok(Vec::new());
    }
    process::run(&words(&format!("chown postgres {}", directory.display())), LIMIT)?;
    Ok(words("setpriv --reuid=postgres --regid=postgres --clear-groups --"))
}
