//! Programs that start many others: a build, git, scripts.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::figure::Unit;
use crate::page::Page;
use crate::process;
use crate::sections::launch::{repeat, walls};
use crate::series::time_table;
use crate::suite::{LAUNCH_LIMIT, Suite};
use crate::tools::missing;
use crate::tracer::{STRACE, TRACE_SITES, TRACE_TIME, TRACE_VDSO, Tracer};

const TRACERS: [Tracer; 5] = [Tracer::Untraced, TRACE_VDSO, TRACE_SITES, TRACE_TIME, STRACE];

pub(crate) fn run(suite: &Suite, page: &mut Page) -> Result<()> {
    page.heading(2, "Programs that start others");
    page.text("Wall times of whole runs, the tracer's own start included; the caches are warm.");
    let (files, execs, pythons) = suite.options.choose((200, 5000, 200), (20, 200, 20));
    let folder = suite.path("builds");
    std::fs::create_dir_all(&folder)?;
    let project = write_project(&folder, files).context("failed to write the project")?;
    let make = format!("make -s -C {0} clean && make -s -j2 -C {0}", project.display());
    compare(suite, page, &format!("make -j2 of {files} files in C"), &["make", "cc"], &make);
    let repository = folder.join("repository");
    let git = format!("git -C {}", repository.display());
    if missing(&["git"]).is_none() {
        write_repository(&folder, &repository, suite.options.choose(10_000, 100))?;
    }
    for (what, rest) in [("git status", "status"), ("git log -p", "log -p >/dev/null")] {
        compare(suite, page, what, &["git"], &format!("{git} {rest}"));
    }
    let what = format!("a shell script of {execs} short commands");
    compare(suite, page, &what, &["sh"], &repeat(execs, "/bin/true"));
    let (what, python) = (format!("{pythons} short Python processes"), "/usr/bin/python3");
    // The `python3` that is found first may be a script that looks for another one.
    compare(suite, page, &what, &[python], &repeat(pythons, &format!("{python} -c pass")));
    Ok(())
}

fn compare(suite: &Suite, page: &mut Page, what: &str, programs: &[&str], script: &str) {
    page.heading(3, what);
    if let Some(reason) = missing(programs) {
        page.text(&reason);
        return;
    }
    let command: Vec<OsString> = vec!["sh".into(), "-c".into(), script.into()];
    let all = walls(suite, &TRACERS, suite.options.load_rounds(), &command);
    time_table(page, &all, Unit::Millis);
}

/// A program of so many files, with a Makefile.
fn write_project(folder: &Path, files: u32) -> Result<PathBuf> {
    let project = folder.join("project");
    std::fs::create_dir_all(&project)?;
    let mut objects = String::from("main.o");
    let (mut declared, mut called) = (String::new(), String::new());
    for number in 0..files {
        let text = format!(
            "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nint part{number}(int n)\n{{\n    char \
             text[64];\n    snprintf(text, sizeof text, \"%d\", n + {number});\n    return (int)strlen(text);\n}}\n"
        );
        std::fs::write(project.join(format!("part{number}.c")), text)?;
        write!(objects, " part{number}.o")?;
        writeln!(declared, "int part{number}(int n);")?;
        write!(called, " + part{number}(1)")?;
    }
    let main = format!("{declared}int main(void)\n{{\n    return (0{called}) == 0;\n}}\n");
    std::fs::write(project.join("main.c"), main)?;
    let rules = format!(
        "CFLAGS = -O1\nprogram: {objects}\n\t$(CC) -o $@ $^\nclean:\n\trm -f program {objects}\n"
    );
    std::fs::write(project.join("Makefile"), rules)?;
    Ok(project)
}

/// A repository of so many commits, each of which changes one of 5,000 files.
fn write_repository(folder: &Path, repository: &Path, commits: u32) -> Result<()> {
    let mut stream = String::new();
    for commit in 0..commits {
        let text: String = (0..60).map(|line| format!("{} {line}\n", commit / 5000)).collect();
        write!(
            stream,
            "commit refs/heads/master\ncommitter A <a@example.org> {0} +0000\ndata 1\n{1}\nM 100644 inline \
             d{2}/f{3}\ndata {4}\n{text}\n",
            1_700_000_000 + commit,
            commit % 10,
            commit % 20,
            commit % 5000,
            text.len()
        )?;
    }
    let commits = folder.join("commits");
    std::fs::write(&commits, stream)?;
    let make = format!(
        "rm -rf {0} && git init -q -b master {0} && git -C {0} fast-import --quiet <{1} && git -C {0} checkout -q -f master",
        repository.display(),
        commits.display()
    );
    process::run(&["sh".into(), "-c".into(), make.into()], LAUNCH_LIMIT)?;
    Ok(())
}
