//! The pages of `--format html` in a real browser: Chromium, without a window.
//!
//! Each page is laid out at 1200 and at 400 pixels, on light and on dark ground. A script of the
//! test, outside the page, measures what a reader would see: whether the page is wider than the
//! window, whether labels overlap, are cut off or too small.

#[path = "html_pages/browser.rs"]
mod browser;

use std::fs;
use std::path::{Path, PathBuf};

use browser::{Browser, Ground};
use clockscope::report::{bench, compare, wrongness};
use serde::de::DeserializeOwned;

/// Widths of windows: a desk's and a telephone's.
const WIDTHS: [u32; 2] = [1200, 400];
/// Letters smaller than this cannot be read.
const LEAST_LETTER_PX: f64 = 10.0;

fn fixture<T: DeserializeOwned>(name: &str) -> T {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/reports");
    let path = Path::new(folder).join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Where pictures of the pages go if somebody wants to look at them.
fn pictures_wanted() -> Option<PathBuf> {
    std::env::var_os("CLOCKSCOPE_PICTURES").map(PathBuf::from)
}

/// Opens the page in all forms and asserts what a reader may expect.
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
            if let Some(folder) = pictures_wanted() {
                let file = format!("{name}-{width}-{ground:?}.png").to_lowercase();
                fs::write(folder.join(file), &picture).expect("save the picture");
            }
        }
    }
    assert_eq!(browser.console(), Vec::<String>::new(), "{name}: the console has messages");
}

#[test]
fn the_page_of_bench_is_readable() {
    let report: bench::model::BenchReport = fixture("bench.json");
    assert_readable("bench", &bench::html::render(&report), 7);
}

#[test]
fn the_page_of_compare_is_readable() {
    let report: compare::model::CompareReport = fixture("compare.json");
    assert_readable("compare", &compare::html::render(&report), 2);
    let plain: compare::model::CompareReport = fixture("compare-plain.json");
    let seen = Browser::new().measure(&compare::html::render(&plain), 400, Ground::Light);
    assert!(seen.page_width <= 400.0 && seen.pictures == 2, "{seen:?}");
    assert!(seen.cut_off.is_empty() && seen.overlapping.is_empty(), "{seen:?}");
}

#[test]
fn the_page_of_wrongness_is_readable() {
    let report: wrongness::model::WrongnessReport = fixture("wrongness.json");
    assert_readable("wrongness", &wrongness::html::render(&report), 8);
}

/// A page that breaks the rules is caught, so that the others passed for a reason.
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
