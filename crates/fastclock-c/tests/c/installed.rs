//! The library as programs use it: installed below a prefix, found by `pkg-config` alone, with
//! shared and with static linking.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::page_file;
use crate::prefix::{Linking, Prefix, installed, output_of, source};

/// Names of functions in the header: they follow a space or an asterisk and precede a parenthesis.
fn functions_of_the_header() -> BTreeSet<String> {
    let header = fs::read_to_string(source("include/fastclock.h")).expect("read the header");
    let code = header.lines().filter(|line| !line.starts_with("//") && line.contains('('));
    let names = code.filter_map(|line| {
        let name = line.split('(').next()?.rsplit([' ', '*']).next()?;
        name.starts_with("fastclock_").then(|| name.to_owned())
    });
    names.collect()
}

#[test]
fn the_shared_library_exports_the_header_and_nothing_else() {
    let prefix = installed();
    let library = prefix.path("lib/libfastclock.so");
    let table = output_of(
        Command::new("nm").args(["--dynamic", "--defined-only", "--format=posix"]).arg(library),
    );
    let exported: BTreeSet<String> =
        table.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect();
    assert_eq!(exported, functions_of_the_header());
    assert!(exported.len() >= 20, "{exported:?}");
}

#[test]
fn the_shared_library_has_its_name_and_links() {
    let prefix = installed();
    let library = prefix.path("lib/libfastclock.so");
    let dynamic = output_of(Command::new("readelf").arg("--dynamic").arg("--wide").arg(&library));
    assert!(dynamic.contains("Library soname: [libfastclock.so.0]"), "{dynamic}");
    assert!(!dynamic.contains("TEXTREL"), "{dynamic}");
    let real = fs::canonicalize(&library).expect("follow the links");
    assert!(real.ends_with(format!("libfastclock.so.{}", env!("CARGO_PKG_VERSION"))), "{real:?}");
    assert_eq!(fs::canonicalize(prefix.path("lib/libfastclock.so.0")).expect("a link"), real);
}

#[test]
fn pkg_config_knows_the_library() {
    let prefix = installed();
    let root = prefix.root().display();
    assert_eq!(prefix.pkg_config(&["--modversion"]), env!("CARGO_PKG_VERSION"));
    assert_eq!(prefix.pkg_config(&["--cflags"]), format!("-I{root}/include"));
    assert_eq!(prefix.pkg_config(&["--libs"]), format!("-L{root}/lib -lfastclock"));
    let all = prefix.pkg_config(&["--static", "--libs"]);
    assert!(all.starts_with(&format!("-L{root}/lib -lfastclock -l")), "{all}");
    assert_eq!(prefix.pkg_config(&["--variable=prefix"]), root.to_string());
}

#[test]
fn destdir_is_not_in_what_is_installed() {
    let stage = tempfile::tempdir().expect("make a temporary directory");
    let libdir = "/opt/clock/lib/x86_64-linux-gnu";
    Prefix::run_script(
        "/opt/clock",
        &[("DESTDIR", stage.path().as_ref()), ("LIBDIR", libdir.as_ref())],
    );
    let folder = stage.path().join("opt/clock");
    let description = folder.join("lib/x86_64-linux-gnu/pkgconfig/fastclock.pc");
    let description = fs::read_to_string(description).expect("is installed");
    let expected = "prefix=/opt/clock\nlibdir=${prefix}/lib/x86_64-linux-gnu\n\
                    includedir=${prefix}/include\n";
    assert!(description.starts_with(expected), "{description}");
    for file in ["lib/x86_64-linux-gnu/libfastclock.a", "share/man/man3/fastclock.3"] {
        assert!(folder.join(file).is_file(), "{file} is missing");
    }
    let link = fs::read_link(folder.join("lib/x86_64-linux-gnu/libfastclock.so")).expect("a link");
    assert_eq!(link.to_str(), Some("libfastclock.so.0"));
}

#[test]
fn a_relative_prefix_is_refused() {
    let script = Prefix::script().arg("somewhere").output().expect("run the script");
    assert_eq!(script.status.code(), Some(1));
    let said = String::from_utf8_lossy(&script.stderr);
    assert_eq!(said, "install-c: say where to: scripts/install-c.sh PREFIX, an absolute path\n");
}

/// Builds and runs a test program with both kinds of linking, and compares its output.
fn says(program: &str, expected: &str) {
    let prefix = installed();
    for linking in [Linking::Shared, Linking::Static] {
        let built = prefix.build(&format!("tests/programs/{program}.c"), linking, &[]);
        assert_eq!(output_of(&mut built.command()), expected, "{program} {linking:?}");
    }
}

#[test]
fn programs_find_that_the_clock_keeps_its_promises() {
    says("sandwich", "every reading lies between two of the kernel's\n");
    says("nulls", "NULL is an error and never a crash\n");
    says("signals", "signal handlers may read the clock\n");
    says("threads", "4 threads saw no time run backwards\n");
    says("forks", "20 children read the clock of their parent\n");
}

#[test]
fn a_program_may_define_clock_gettime_by_the_clock() {
    says("interposed", "clock_gettime() is fastclock's, and the kernel's where that asks\n");
}

#[test]
fn a_page_in_a_file_is_a_clock() {
    let prefix = installed();
    let folder = tempfile::tempdir().expect("make a temporary directory");
    let [page, truncated, foreign] =
        ["page", "truncated", "foreign"].map(|name| folder.path().join(name));
    page_file::write(&page);
    let whole = fs::read(&page).expect("read the page");
    fs::write(&truncated, &whole[..whole.len() - 1]).expect("write a file");
    fs::write(&foreign, vec![0x5a; whole.len()]).expect("write a file");
    for linking in [Linking::Shared, Linking::Static] {
        let built = prefix.build("tests/programs/pages.c", linking, &[]);
        let output = output_of(built.command().args([&page, &truncated, &foreign]));
        assert_eq!(output, "a page is a clock, another file is none\n");
    }
}

#[test]
fn the_example_in_the_documentation_is_the_one_that_runs() {
    let page = fs::read_to_string(source("../../docs/fastclock.md")).expect("read the page");
    let example = fs::read_to_string(source("examples/elapsed.c")).expect("read the example");
    assert!(page.contains(&format!("```c\n{example}```\n")), "docs/fastclock.md has another one");
    let program = fs::read_to_string(source("tests/programs/interposed.c")).expect("read it");
    let definition =
        program.split("int clock_gettime(").nth(1).and_then(|rest| rest.split("\n}\n").next());
    let definition = definition.expect("defines clock_gettime");
    assert!(page.contains(&format!("```c\nint clock_gettime({definition}\n}}\n```\n")));
    for function in functions_of_the_header() {
        let short = function.replacen("fastclock", "", 1);
        let is_named =
            page.contains(&format!("`{function}(")) || page.contains(&format!("`{short}("));
        assert!(is_named, "docs/fastclock.md does not name {function}");
    }
}

#[test]
fn reading_allocates_nothing() {
    // The static C library has a malloc of its own.
    let built = installed().build("tests/programs/allocation.c", Linking::Shared, &[]);
    assert_eq!(output_of(&mut built.command()), "reading allocates nothing\n");
}

#[test]
fn the_library_is_loaded_and_closed() {
    let prefix = installed();
    let built = prefix.build("tests/programs/loading.c", Linking::None, &["-ldl"]);
    let library = prefix.path("lib/libfastclock.so.0");
    assert_eq!(output_of(built.command().arg(library)), "loaded and closed 20 times\n");
}

/// The rest of the line that begins with `word`.
fn after<'a>(output: &'a str, word: &str) -> &'a str {
    let line = output.lines().find_map(|line| line.strip_prefix(word));
    line.unwrap_or_else(|| panic!("no line begins with {word:?} in {output}")).trim()
}

/// Checks the status number and its text against this library.
fn check_status(output: &str) {
    let (number, words) = after(output, "status ").split_once(": ").expect("number and words");
    let number: u32 = number.parse().expect("a number");
    let known = fastclock::Decline::from_raw(number).map(fastclock::Decline::as_str);
    assert_eq!(words, known.unwrap_or("the clock answers by itself"), "{output}");
    assert_eq!(known.is_none(), number == 0, "{output}");
}

#[test]
fn the_example_in_c_times_a_loop() {
    let prefix = installed();
    for linking in [Linking::Shared, Linking::Static] {
        let output = output_of(&mut prefix.build("examples/elapsed.c", linking, &[]).command());
        let (elapsed, within) =
            after(&output, "elapsed ").split_once(" ns, within ").expect("time and bound");
        let elapsed: i64 = elapsed.parse().expect("a number");
        let within: i64 = within.strip_suffix(" ns").expect("a unit").parse().expect("a number");
        // Ten million additions take longer than a tenth of a nanosecond each.
        assert!(elapsed > 1_000_000, "{output}");
        assert!((0..elapsed).contains(&within), "{output}");
        check_status(&output);
        assert_eq!(output.lines().count(), 2, "{output}");
    }
}

#[test]
fn the_example_in_cpp_is_a_clock_of_chrono() {
    let prefix = installed();
    for (linking, standard) in [(Linking::Shared, "c++11"), (Linking::Static, "c++20")] {
        let standard = format!("-std={standard}");
        let built = prefix.build("examples/chrono.cpp", linking, &[&standard]);
        let output = output_of(&mut built.command());
        let micros = |word: &str| -> i64 {
            after(&output, word).strip_suffix(" us").expect("a unit").parse().expect("a number")
        };
        assert!(micros("fastclock ") > 1000 && micros("steady_clock ") > 1000, "{output}");
        check_status(&output);
        assert_eq!(after(&output, "system_clock "), "is the same to the second");
    }
}

#[test]
fn the_cost_of_each_way_is_printed() {
    let built = installed().build("examples/cost.c", Linking::Shared, &["-O2"]);
    let output = output_of(built.command().arg("20"));
    check_status(&output);
    for way in ["clock_gettime ", "fastclock_now_fast ", "fastclock_now ", "fastclock_recent "] {
        let cost = after(&output, way).split_once(" ns").expect("a unit").0;
        assert!(cost.parse::<f64>().expect("a number") > 0.0, "{output}");
    }
}

#[test]
fn the_man_page_describes_each_function() {
    let page = fs::read_to_string(source("man/fastclock.3")).expect("read the man page");
    for function in functions_of_the_header() {
        assert!(page.contains(&format!("{function}(")), "fastclock(3) does not name {function}");
    }
}
