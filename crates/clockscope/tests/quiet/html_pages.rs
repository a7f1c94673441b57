//! The pages of `--format html` in a real browser: Chromium, without a window.
//!
//! Each page is laid out at 1200 and at 400 pixels, on light and on dark ground. A script of the test, outside the
//! page, measures the layout: whether the page is wider than the window, whether labels overlap, are cut off or too
//! small.

mod browser;

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use crate::support::command::{fixture, said_in};
use browser::{Browser, Ground};
use clockscope_model::bench::BenchReport;
use clockscope_page::Document;
use clockscope_report::pages;
use clockscope_text::units;
use serde_json::{Value, json};

/// Widths of windows: a desk's, half of it, and a telephone's.
const WIDTHS: [u32; 3] = [1200, 800, 400];
/// Letters smaller than this cannot be read.
const LEAST_LETTER_PX: f64 = 10.0;

/// A saved report.
fn saved(name: &str) -> String {
    fs::read_to_string(fixture(&format!("reports/{name}"))).expect("read a report")
}

/// The page of a saved report.
fn page_of(name: &str) -> String {
    let document =
        Document::parse(saved(name).as_bytes()).unwrap_or_else(|e| panic!("{name}: {e}"));
    pages::of_document(&document, None).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The result of steps on the page in a new browser, whose console must stay empty.
#[track_caller]
fn acted(html: &str, width: u32, steps: &str) -> Value {
    let browser = Browser::new();
    let result = browser.act(html, width, steps);
    assert_eq!(browser.console(), Vec::<String>::new());
    result
}

/// The text of the page.
#[track_caller]
fn shown(html: &str, width: u32) -> String {
    let text = acted(html, width, "return inner.querySelector('main').innerText;");
    text.as_str().expect("text").to_owned()
}

/// Opens the page in all forms and checks that it is readable.
fn assert_readable(name: &str, html: &str, figures: usize) {
    let browser = Browser::new();
    let blank = browser.screenshot("<!DOCTYPE html><title>b</title>", WIDTHS[0], Ground::Light);
    for ground in [Ground::Light, Ground::Dark] {
        for width in WIDTHS {
            let what = format!("{name} at {width} px on {ground:?} ground");
            let seen = browser.measure(html, width, ground);
            assert!(seen.page_width <= f64::from(width), "{what} overflows: {seen:?}");
            assert_eq!(seen.is_dark, ground == Ground::Dark, "{what}: {seen:?}");
            assert!(seen.contrast >= 7.0, "{what}: {seen:?}");
            assert!(seen.pictures >= figures, "{what} lacks pictures: {seen:?}");
            assert!(seen.least_letter_px >= LEAST_LETTER_PX, "{what}: {seen:?}");
            assert_eq!(seen.cut_off, Vec::<String>::new(), "{what}: cut off");
            assert_eq!(seen.overlapping, Vec::<String>::new(), "{what}: labels overlap");
            let picture = browser.screenshot(html, width, ground);
            assert!(picture.starts_with(b"\x89PNG"), "{what}: no picture");
            assert!(picture.len() > 10 * blank.len(), "{what}: the picture is blank");
        }
    }
    assert_eq!(browser.console(), Vec::<String>::new(), "{name}: the console has messages");
}

#[test]
fn every_page_is_readable() {
    for (name, figures) in [("bench", 2), ("wrongness", 6), ("survey", 1), ("trace", 2)] {
        assert_readable(name, &page_of(&format!("{name}.json")), figures);
    }
}

#[test]
fn the_table_of_trace_is_sorted_by_its_headings() {
    let realtime = "clock_gettime(REALTIME)";
    let expected = json!([
        ["time descending", "epoll_wait", "clock_gettime(PROCESS_CPUTIME)"],
        ["calls descending", realtime, "openat"],
        ["calls ascending", "openat", realtime],
        ["call ascending", "clock_gettime(PROCESS_CPUTIME)", "read"],
        ["call descending", "read", "clock_gettime(PROCESS_CPUTIME)"],
        ["errors descending", "futex", "clock_gettime(PROCESS_CPUTIME)"],
    ]);
    let steps = include_str!("html_pages/table_steps.js");
    assert_eq!(acted(&page_of("trace.json"), 1200, steps), expected);
}

#[test]
fn the_flame_graph_of_trace_zooms_and_finds() {
    let steps = include_str!("html_pages/flame_steps.js");
    let expected = json!({
        "whole": ["all calls", 91, 69],
        "zoomed": ["fd_psm_th", 100, 100, 77, true],
        "back": ["all calls", 91],
        "walked": "fd_msg_rt_th",
        "told": "fd_msg_rt_th [libfdcore.so.7]: 220,000 calls, 22.0 % of all",
        "reached": 1,
        "entered": ["fd_msg_rt_th", "fd_msg_rt_th"],
        "found": ["2 found, in 62.0 % of all calls", 2],
        "cleared": ["", 0],
        "scripts": 3,
    });
    assert_eq!(acted(&page_of("trace.json"), 1200, steps), expected);
}

/// Accepts connections, hangs up at once, and counts them.
struct Listener {
    address: SocketAddr,
    callers: Receiver<SocketAddr>,
}

impl Listener {
    fn new() -> Listener {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("listen");
        let address = listener.local_addr().expect("have an address");
        let (sender, callers) = mpsc::channel();
        thread::spawn(move || {
            while let Ok((_, caller)) = listener.accept()
                && sender.send(caller).is_ok()
            {}
        });
        Listener { address, callers }
    }

    /// The number of connections made before this call: connections are accepted in their order.
    fn count(self) -> usize {
        let own = TcpStream::connect(self.address).expect("connect");
        let own = own.local_addr().expect("have an address");
        self.callers.iter().take_while(|caller| *caller != own).count()
    }
}

/// Whether a foreign script has run, and the number of resources that the page has loaded besides itself.
const LOADED: &str =
    "return [view.ran || 0, view.performance.getEntriesByType('resource').length];";

#[test]
fn the_page_of_trace_asks_for_nothing_and_lets_nothing_in() {
    let html = page_of("trace.json");
    assert_eq!(acted(&html, 400, LOADED), json!([0, 0]));

    // The content security policy keeps foreign markup in the page from loading or running anything.
    let listener = Listener::new();
    let through = format!(
        "<script>window.ran = 1</script><img src='http://{}/x.png'></main>",
        listener.address
    );
    let browser = Browser::new();
    browser.act(&html.replace("</main>", &through), 400, LOADED);
    let refused =
        browser.console().iter().filter(|line| line.contains("Content Security Policy")).count();
    assert!(refused >= 2, "{:?}", browser.console());
    assert_eq!(listener.count(), 0);

    let listener = Listener::new();
    let bad = format!(
        "<!DOCTYPE html><title>bad</title><script>window.ran = 1</script>\
         <img src='http://{}/x.png'>",
        listener.address
    );
    assert_eq!(browser.act(&bad, 400, LOADED)[0], 1);
    assert!(listener.count() > 0, "a page that loads something is noticed");
}

#[test]
fn the_page_of_a_traced_program_is_whole() {
    let folder = tempfile::tempdir().expect("make a folder");
    let options = ["trace", "--via", "none", "--per-process", "--format", "html", "-o", "page"];
    let program = ["--", "sh", "-c", "date; date '+<b>%s'; exit 3"];
    let said = said_in(folder.path(), &[&options[..], &program].concat(), "");
    assert_eq!(said.code, Some(3), "{said:?}");
    let html = fs::read_to_string(folder.path().join("page")).expect("read the page");
    let shown = shown(&html, 400);
    let quoted = r"-- sh -c 'date; date '\''+<b>%s'\''; exit 3'";
    for words in ["3 processes with 3 threads", "exit code 3", "date (", "sh (", quoted] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let seen = Browser::new().measure(&html, 400, Ground::Light);
    assert!(seen.page_width <= 400.0 && seen.contrast >= 7.0, "{seen:?}");
    let steps = "const details = [...inner.querySelectorAll('.tree details')];
        return [details.length > 0, details[0].open, details[0].querySelectorAll('li').length];";
    assert_eq!(acted(&html, 400, steps), json!([true, true, 2]));
}

/// A reader without script at 400 px has the text report, in a box that scrolls by itself.
#[test]
fn without_script_the_report_is_there_as_text() {
    for (html, words) in [
        (page_of("bench.json"), "rdtscp             tsc       14.09"),
        (page_of("wrongness.json"), "No fault found in"),
        (page_of("trace.json"), "clock_gettime(REALTIME)"),
    ] {
        let browser = Browser::new();
        let seen = browser.without_script(&html, 400);
        assert!(seen.text.contains(words), "{words}: {}", seen.text);
        assert!(seen.text.lines().count() > 10 && seen.page_width <= 400.0, "{}", seen.page_width);
    }
}

/// The cells of the column with this heading in the page's first table whose caption begins so, as shown.
fn column(html: &str, caption: &str, heading: &str) -> Vec<String> {
    let steps = format!(
        "const table = [...inner.querySelectorAll('table')]
           .find(t => t.caption.textContent.startsWith('{caption}'));
         const at = [...table.tHead.rows[0].cells].findIndex(c => c.textContent === '{heading}');
         return [...table.tBodies[0].rows].map(row => row.cells[at].textContent);"
    );
    serde_json::from_value(acted(html, 1200, &steps)).expect("texts")
}

fn report(name: &str) -> Value {
    serde_json::from_str(&saved(name)).expect("JSON")
}

#[test]
fn figures_are_those_of_the_json() {
    let bench = report("bench.json");
    let paths = bench["paths"].as_array().expect("paths");
    let ps = |path: &Value, name: &str| path[name].as_u64().expect("picoseconds");
    let html = page_of("bench.json");
    for (heading, name) in [("median", "cost_ps_median"), ("minimum", "cost_ps_min")] {
        let expected: Vec<String> = paths.iter().map(|path| units::picos(ps(path, name))).collect();
        assert_eq!(column(&html, "", heading), expected, "{heading}");
    }
    let wrongness = report("wrongness.json");
    let ages = wrongness["clocks"].as_array().expect("clocks").iter();
    let ages = ages.filter_map(|clock| clock["staleness"].as_object());
    let medians: Vec<String> = ages
        .flat_map(|ages| ["busy", "idle"].map(|how| units::nanos(ps(&ages[how], "p50_ns"))))
        .collect();
    assert!(medians.len() >= 4);
    assert_eq!(column(&page_of("wrongness.json"), "", "median"), medians);
    let calls = column(&page_of("trace.json"), "Calls of all processes", "calls");
    assert!(calls.contains(&units::count(402_113)) && calls.contains(&units::count(970_000)));
}

#[test]
fn the_page_of_a_saved_report_is_that_of_the_command() {
    let folder = tempfile::tempdir().expect("make a folder");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("read a file");
    let run = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        said_in(folder.path(), &words, "").printed()
    };
    fs::write(folder.path().join("json"), "x".repeat(1_000_000)).expect("write what was there");
    let printed = run("bench tai --quick --save json --format html");
    assert_eq!(run("view json -o page"), "");
    assert_eq!(read("page"), printed);
    assert_eq!(run("view json"), printed);
    // A saved report of trace names its machine, and so does its page.
    run("run --stats --clock kernel --format json -o run -- date");
    run("view run -o page");
    let shown = shown(&read("page"), 400);
    assert!(shown.contains("How often date reads the clock"), "{shown}");
    assert!(shown.contains("The machine"), "{shown}");
}

/// Replaces each fraction by JSON's `null`; gives how many there were.
fn without_fractions(value: &mut Value) -> usize {
    match value {
        Value::Object(fields) => fields
            .values_mut()
            .map(|field| {
                let is_fraction = field.is_f64();
                if is_fraction {
                    *field = Value::Null;
                }
                usize::from(is_fraction) + without_fractions(field)
            })
            .sum(),
        Value::Array(items) => items.iter_mut().map(without_fractions).sum(),
        _ => 0,
    }
}

/// JSON has `null` for a figure that is not a number, such as a ratio to zero.
#[test]
fn a_report_with_figures_that_are_no_numbers_has_a_page() {
    for (name, least) in [("bench.json", 25), ("wrongness.json", 28)] {
        let mut report = report(name);
        assert!(without_fractions(&mut report) >= least, "{name}");
        let document = Document::parse(report.to_string().as_bytes()).expect("a report");
        let html = pages::of_document(&document, None).unwrap_or_else(|e| panic!("{name}: {e:#}"));
        let shown = shown(&html, 1200);
        assert!(!shown.contains("NaN") && shown.len() > 1000, "{name}: {shown}");
    }
}

#[test]
fn a_report_that_was_just_made_has_a_page_whatever_its_figures() {
    let mut report = BenchReport::default();
    report.method.gate_percent = f64::NAN;
    let html = pages::of_report(&report, None).expect("make the page");
    assert!(html.contains("\"gate_percent\":null"), "{html:.3000}");
}

/// `clockscope-page` tests more reasons, and `compare_command` more files.
#[test]
fn what_is_no_report_is_refused_in_one_line() {
    let folder = tempfile::tempdir().expect("make a folder");
    let whole = saved("bench.json");
    let newer = whole.replacen("\"schema\": 2", "\"schema\": 3", 1);
    let wrong = whole.replace("\"batches\":", "\"batches\":-");
    for (name, content, reason) in [
        ("newer", newer.as_bytes(), "it has schema 3, and this clockscope understands schema 2"),
        ("wrong", wrong.as_bytes(), "not as clockscope bench prints it: invalid value"),
        ("bytes", b"\xff\xfe\0", "it is not text: byte 0 is not UTF-8"),
    ] {
        fs::write(folder.path().join(name), content).expect("write a file");
        let said = said_in(folder.path(), &["view", name, "-o", "page"], "");
        said.is_refused(2, &[&format!("clockscope: cannot show {name}: {reason}")]);
        assert!(!folder.path().join("page").exists(), "nothing is written");
    }
}

#[test]
fn words_of_other_versions_are_shown() {
    let folder = tempfile::tempdir().expect("make a folder");
    let whole = saved("trace.json");
    let mut other = whole.clone();
    let of_called = r#""called": [{"via": "vdso""#;
    for (known, unknown) in [
        (r#""ended": "duration""#, r#""ended": "x""#),
        (r#""what": "vdso""#, r#""what": "x""#),
        (r#""via": "bpf""#, r#""via": "x""#),
        (of_called, r#""called": [{"via": "x""#),
    ] {
        assert!(other.contains(known), "{known}");
        other = other.replacen(known, unknown, 1);
    }
    fs::write(folder.path().join("one"), &whole).expect("write a report");
    fs::write(folder.path().join("other"), &other).expect("write a report");
    let page = said_in(folder.path(), &["view", "other"], "").printed();
    for words in ["why counting ended is not known", "something unknown of old32 (process 4100)"] {
        assert!(page.contains(words), "{words}");
    }
    let compared = said_in(folder.path(), &["compare", "one", "other"], "").printed();
    assert!(compared.contains("counted by bpf, then by unknown means"), "{compared}");
}

/// The measurements detect a page that breaks the rules, so the pages above passed for a reason.
#[test]
fn a_bad_page_is_noticed() {
    let browser = Browser::new();
    let bad = "<!DOCTYPE html><title>bad</title><p style='width:700px'>wide</p>\
        <svg role='img' viewBox='0 0 800 40' style='width:100%'>\
        <text x='10' y='20' font-size='12'>small</text><text x='14' y='20'>over it</text>\
        <text x='790' y='20'>cut off</text></svg><script>console.error('broken')</script>";
    let seen = browser.measure(bad, 400, Ground::Light);
    assert!(seen.page_width >= 700.0, "{seen:?}");
    assert!(seen.least_letter_px < LEAST_LETTER_PX, "{seen:?}");
    assert_eq!(seen.cut_off, ["cut off"], "{seen:?}");
    assert_eq!(seen.overlapping, ["small / over it"], "{seen:?}");
    assert!(browser.console().iter().any(|line| line.contains("broken")), "console.error is seen");
}
