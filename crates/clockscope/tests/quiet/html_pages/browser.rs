//! Chromium without a window: lays a page out in a frame of a given width, measures it and takes
//! its picture.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

/// Paths of the browser in Debian's package `chromium` and in other packages.
const PLACES: [&str; 3] =
    ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
/// After this many seconds the browser counts as hung.
const HUNG_AFTER: &str = "300";
/// The browser keeps to itself: no network but the loopback, no updates, no questions.
const OPTIONS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--enable-logging=stderr",
    "--v=0",
];
/// Windows without a screen are at least this wide, so a narrower page stands in a frame.
const LEAST_WINDOW: u32 = 600;
/// Height of the window that pictures are taken of.
const HEIGHT: u32 = 1500;

/// The colour scheme that the reader's system prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ground {
    /// Dark text on light ground.
    Light,
    /// Light text on dark ground.
    Dark,
}

/// Measurements of a page as a reader sees it.
#[derive(Debug, Deserialize)]
pub(crate) struct Seen {
    /// Width of the page with all that sticks out of it.
    pub(crate) page_width: f64,
    /// Whether the page stands on dark ground.
    pub(crate) is_dark: bool,
    /// Contrast of text to ground, as in WCAG 2.
    pub(crate) contrast: f64,
    /// Pictures that are shown.
    pub(crate) pictures: usize,
    /// Size of the smallest letters in pictures.
    pub(crate) least_letter_px: f64,
    /// Labels that stick out of their picture, and cells that stick out of their table's box.
    pub(crate) cut_off: Vec<String>,
    /// Pairs of labels that lie on each other.
    pub(crate) overlapping: Vec<String>,
}

/// A page as a reader without script sees it.
#[derive(Debug, Deserialize)]
pub(crate) struct Plain {
    /// The text of the page's `pre`.
    pub(crate) text: String,
    /// Width of the page with all that sticks out of it.
    pub(crate) page_width: f64,
}

/// Chromium, with a folder for its files.
pub(crate) struct Browser {
    program: PathBuf,
    folder: TempDir,
    console: RefCell<Vec<String>>,
}

impl Browser {
    /// Finds the browser.
    pub(crate) fn new() -> Browser {
        let found = PLACES.iter().map(PathBuf::from).find(|place| place.is_file());
        let program = found.expect("the browser is missing: install the package `chromium`");
        let folder = tempfile::tempdir().expect("make a folder");
        Browser { program, folder, console: RefCell::new(Vec::new()) }
    }

    /// Lays the page out in a frame of `width` pixels and measures it.
    pub(crate) fn measure(&self, html: &str, width: u32, ground: Ground) -> Seen {
        self.result_of(&framed(html, width, MEASURE), width, ground)
    }

    /// Lays the page out, runs `steps` on it, and gives their result.
    ///
    /// `steps` are JavaScript with `inner`, the page, `view`, its window, and `press(element, key)`.
    pub(crate) fn act(&self, html: &str, width: u32, steps: &str) -> serde_json::Value {
        let outer = framed(html, width, &ACT.replace("STEPS", steps));
        self.result_of(&outer, width, Ground::Light)
    }

    /// Lays the page out without running its script.
    pub(crate) fn without_script(&self, html: &str, width: u32) -> Plain {
        let script = ACT.replace("STEPS", PLAIN);
        // Documents in a sandboxed frame may run no script; the test's own script is outside of the frame.
        let outer = framed(html, width, &script)
            .replace("<iframe ", "<iframe sandbox=\"allow-same-origin\" ");
        self.result_of(&outer, width, Ground::Light)
    }

    fn result_of<T: DeserializeOwned>(&self, outer: &str, width: u32, on: Ground) -> T {
        let page = self.write("measure.html", outer);
        let dom = self.run(&page, width, on, &["--dump-dom"]);
        let dom = String::from_utf8(dom).expect("the DOM is text");
        let result =
            dom.split("<pre id=\"seen\">").nth(1).and_then(|rest| rest.split("</pre>").next());
        let result = result.unwrap_or_else(|| panic!("the test's script did not run: {dom:.400}"));
        let json = result.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"))
    }

    /// A picture of the top of the page, as PNG.
    pub(crate) fn screenshot(&self, html: &str, width: u32, ground: Ground) -> Vec<u8> {
        let page = self.write("picture.html", &framed(html, width, ""));
        let picture = self.folder.path().join("picture.png");
        let option = format!("--screenshot={}", picture.display());
        self.run(&page, width, ground, &[&option]);
        fs::read(&picture).expect("the browser made a picture")
    }

    /// Messages of pages on the console so far.
    pub(crate) fn console(&self) -> Vec<String> {
        self.console.borrow().clone()
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("write a page");
        path
    }

    fn run(&self, page: &Path, width: u32, ground: Ground, options: &[&str]) -> Vec<u8> {
        let profile = tempfile::tempdir_in(self.folder.path()).expect("make a profile");
        let scheme = if ground == Ground::Dark { 0 } else { 1 };
        let output = Command::new("timeout")
            .arg(HUNG_AFTER)
            .arg(&self.program)
            .args(OPTIONS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(format!("--window-size={},{HEIGHT}", width.max(LEAST_WINDOW)))
            .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
            .args(options)
            .arg(format!("file://{}", page.display()))
            .stdin(Stdio::null())
            .output()
            .expect("run the browser");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the browser failed: {said}");
        let console = said.lines().filter(|line| line.contains("CONSOLE"));
        self.console.borrow_mut().extend(console.map(str::to_owned));
        output.stdout
    }
}

/// An outer page that has the page in a frame of `width` pixels, and a script beside it.
fn framed(html: &str, width: u32, script: &str) -> String {
    let html = html.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<!DOCTYPE html><html><head><meta charset=\"utf-8\">\
         <meta name=\"color-scheme\" content=\"light dark\"></head><body style=\"margin:0\">\
         <iframe id=\"frame\" style=\"border:0;width:{width}px;height:{HEIGHT}px\" \
         srcdoc=\"{html}\"></iframe><script>{script}</script></body></html>"
    )
}

/// Script of the outer page once the frame is loaded; leaves its findings as text.
const MEASURE: &str = include_str!("measure.js");

/// The text that is there without script.
const PLAIN: &str = "const pre = inner.querySelector('noscript > pre');
    return { text: pre.textContent, page_width: inner.documentElement.scrollWidth };";

/// Script of the outer page once the frame is loaded: runs a test's steps on the inner page.
const ACT: &str = include_str!("act.js");
