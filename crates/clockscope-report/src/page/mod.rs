//! The pages of `--format html`: one file each, complete without network and without script.
//!
//! Only this folder writes tags. What the reports put in is text, and is escaped here. A policy at
//! the head of each page forbids it to load anything, and to run any script but the one whose hash
//! it names: text that got through as markup would still do nothing.

mod flame;
mod host_facts;
mod policy;
mod table;
mod tiles;
mod tree;

use super::chart::Picture;
use super::chart::palette;
use clockscope_text::foreign::{REPLACEMENT, is_hidden};

pub(crate) use flame::FlameView;
pub(crate) use table::{Cell, Table};
pub(crate) use tiles::Tile;
pub(crate) use tree::Branch;

/// Everything but colours.
const STYLE: &str = include_str!("page.css");

/// A page in the making.
#[derive(Debug)]
pub(crate) struct Page {
    title: String,
    body: String,
    figures: u32,
    in_section: bool,
    style: &'static str,
    script: &'static str,
}

/// What a box at the top says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// What follows from the data.
    Conclusion,
    /// Something is wrong, or makes the numbers doubtful.
    Warning,
}

impl Page {
    /// A page with a title; `kind` says what made it.
    #[must_use]
    pub(crate) fn new(title: &str, kind: &str) -> Page {
        let mut page = Page {
            title: title.to_owned(),
            body: String::new(),
            figures: 0,
            in_section: false,
            style: "",
            script: "",
        };
        page.push(&[
            "<header>\n<p class=\"kind\">",
            &escape(kind),
            "</p>\n<h1>",
            &escape(title),
            "</h1>\n</header>\n",
        ]);
        page
    }

    /// Rules and a script of this kind of page, both ours. The page must be complete without them.
    #[must_use]
    pub(crate) fn with_script(mut self, style: &'static str, script: &'static str) -> Page {
        self.style = style;
        self.script = script;
        self
    }

    fn push(&mut self, parts: &[&str]) {
        self.body.extend(parts.iter().copied());
    }

    /// A box with sentences; nothing if there are none.
    pub(crate) fn say(&mut self, tone: Tone, heading: &str, sentences: &[String]) {
        if sentences.is_empty() {
            return;
        }
        let class = if tone == Tone::Warning { "warning" } else { "conclusion" };
        self.push(&["<aside class=\"", class, "\">\n<h2>", &escape(heading), "</h2>\n"]);
        self.list(sentences);
        self.body.push_str("</aside>\n");
    }

    /// Begins a section.
    pub(crate) fn section(&mut self, heading: &str) {
        self.close_section();
        self.in_section = true;
        self.push(&["<section>\n<h2>", &escape(heading), "</h2>\n"]);
    }

    fn close_section(&mut self) {
        if std::mem::take(&mut self.in_section) {
            self.body.push_str("</section>\n");
        }
    }

    /// A heading inside a section.
    pub(crate) fn subheading(&mut self, heading: &str) {
        self.push(&["<h3>", &escape(heading), "</h3>\n"]);
    }

    /// A paragraph.
    pub(crate) fn paragraph(&mut self, text: &str) {
        self.push(&["<p>", &escape(text), "</p>\n"]);
    }

    /// A list of sentences; nothing if there are none.
    pub(crate) fn list(&mut self, sentences: &[String]) {
        if sentences.is_empty() {
            return;
        }
        self.body.push_str("<ul>\n");
        for sentence in sentences {
            self.push(&["<li>", &escape(sentence), "</li>\n"]);
        }
        self.body.push_str("</ul>\n");
    }

    /// Pictures with what to conclude from them and, less loud, how to read them. A picture that
    /// could not be drawn is replaced by the sentence that says so.
    pub(crate) fn figure(
        &mut self,
        pictures: &[Result<Picture, String>],
        conclusion: &str,
        reading: &str,
    ) {
        self.figures += 1;
        let number = self.figures.to_string();
        let panels =
            if pictures.len() > 1 && is_panels(pictures) { " class=\"panels\"" } else { "" };
        self.push(&["<figure>\n<div", panels, ">\n"]);
        for picture in pictures {
            self.picture(picture.as_ref());
        }
        self.push(&["</div>\n<figcaption><strong>Figure ", &number, ". ", &escape(conclusion)]);
        self.push(&["</strong> ", &escape(reading), "</figcaption>\n</figure>\n"]);
    }

    fn picture(&mut self, picture: Result<&Picture, &String>) {
        match picture {
            Ok(picture) => self.push(&[
                "<div class=\"picture\"><div class=\"wide\">",
                &picture.wide,
                "</div><div class=\"narrow\">",
                &picture.narrow,
                "</div></div>\n",
            ]),
            Err(sentence) => self.paragraph(sentence),
        }
    }

    /// A table; nothing if it has no rows.
    pub(crate) fn table(&mut self, table: &Table) {
        self.body.push_str(&table.html());
    }

    /// A command to type.
    pub(crate) fn command(&mut self, command: &str) {
        self.push(&["<pre><code>", &escape(command), "</code></pre>\n"]);
    }

    /// The whole document.
    #[must_use]
    pub(crate) fn finish(mut self) -> String {
        self.close_section();
        let style = format!(
            ":root{{{light}}}\n\
             @media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n{STYLE}{rules}{own}",
            own = self.style,
            light = palette::variables(false),
            dark = palette::variables(true),
            rules = palette::rules(),
        );
        let style = format!("\n{style}");
        let script = match self.script {
            "" => String::new(),
            script => format!("<script>{script}</script>\n"),
        };
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta name=\"generator\" content=\"clockscope\">\n\
             <title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n\
             {body}</main>\n{script}</body>\n</html>\n",
            policy = policy::policy(&style, self.script),
            title = escape(&self.title),
            body = self.body,
        )
        .replace(is_forbidden, "\u{FFFD}")
    }
}

/// Whether all pictures are narrow enough to stand side by side.
fn is_panels(pictures: &[Result<Picture, String>]) -> bool {
    pictures.iter().flatten().all(|picture| picture.wide_px < 500)
}

/// Characters that HTML does not allow in a document, and hidden ones that came in past [`escape`].
fn is_forbidden(c: char) -> bool {
    let is_noncharacter =
        (0xFDD0..=0xFDEF).contains(&u32::from(c)) || u32::from(c) & 0xFFFE == 0xFFFE;
    (is_hidden(c) && c != '\n') || is_noncharacter
}

/// The text with HTML's special characters written as references, and without hidden ones.
#[must_use]
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if is_hidden(c) && c != '\n' => escaped.push(REPLACEMENT),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
pub(crate) mod check;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_never_becomes_markup() {
        let hostile = "<script>alert('1')</script> & \"\u{0}\u{1b}";
        let mut page = Page::new(hostile, hostile);
        page.say(Tone::Warning, hostile, &[hostile.to_owned()]);
        page.section(hostile);
        page.paragraph(hostile);
        page.command(hostile);
        page.figure(&[Err(hostile.to_owned())], hostile, hostile);
        let mut table = Table::new(hostile, &[hostile]);
        table.row(vec![hostile.to_owned()]);
        page.table(&table);
        let html = page.finish();
        assert!(!html.contains('\u{0}') && !html.contains('\u{1b}'), "{html}");
        check::page(&html);
    }

    #[test]
    fn an_empty_page_is_a_page() {
        check::page(&Page::new("t", "k").finish());
    }
}
