//! Pictures of the pages: SVG drawn by plotters into strings, once for a wide window and once for
//! a narrow one, so that text keeps its size on a telephone.

pub(crate) mod axis;
pub(crate) mod curves;
pub(crate) mod flame;
pub(crate) mod palette;
pub(crate) mod quantity;
pub(crate) mod rows;

use std::error::Error;

use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::prelude::SVGBackend;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontStyle, IntoFont, TextStyle};

use palette::Colour;

/// plotters' SVG backend divides the size of a font by this.
const FONT_SCALE: f64 = 1.24;
/// Width of a letter of a wide sans-serif font, on average, as a share of the font's size: of
/// small letters and digits, and of capitals.
const LETTER: (f64, f64) = (0.57, 0.68);
/// Bold letters are wider.
const BOLD: f64 = 1.1;
/// Size of text in pixels.
pub(crate) const TEXT_PX: f64 = 13.0;

/// What drawing gives: nothing, or what plotters complained of.
pub(crate) type Drawn = Result<(), Box<dyn Error>>;
/// The whole area of a picture.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A picture in two widths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Picture {
    /// What it shows, for who cannot see it.
    pub title: String,
    /// Width of the wide form in pixels.
    pub wide_px: u32,
    /// SVG elements of the wide form, with the `svg` element around them.
    pub wide: String,
    /// The same for narrow windows.
    pub narrow: String,
}

/// Which form is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// For windows of 720 pixels and more, and for paper.
    Wide,
    /// For telephones.
    Narrow,
}

impl Picture {
    /// Draws both forms; an error is a sentence to print in place of the picture.
    pub(crate) fn draw(
        title: &str,
        wide: (u32, u32),
        narrow: (u32, u32),
        draw: impl Fn(&Area, Form) -> Drawn,
    ) -> Result<Picture, String> {
        let form = |size, form| {
            svg(title, size, |area| draw(area, form))
                .map_err(|error| format!("The picture could not be drawn: {error}."))
        };
        Ok(Picture {
            title: title.to_owned(),
            wide_px: wide.0,
            wide: form(wide, Form::Wide)?,
            narrow: form(narrow, Form::Narrow)?,
        })
    }
}

/// Draws one `svg` element. plotters' own start tag is replaced: the page scales the picture, and
/// who cannot see it hears its title.
fn svg(
    title: &str,
    size: (u32, u32),
    draw: impl Fn(&Area) -> Drawn,
) -> Result<String, Box<dyn Error>> {
    let mut drawn = String::new();
    {
        let area = SVGBackend::with_string(&mut drawn, size).into_drawing_area();
        draw(&area)?;
        area.present()?;
    }
    let (_, elements) = drawn.split_once('>').ok_or("there is no svg element")?;
    let title = super::page::escape(title);
    Ok(format!(
        "<svg role=\"img\" aria-label=\"{title}\" viewBox=\"0 0 {} {}\"><title>{title}</title>{}",
        size.0,
        size.1,
        compact(elements)
    ))
}

/// The elements without what is the same on each and what HTML does not need.
fn compact(elements: &str) -> String {
    elements
        .replace(" opacity=\"1\"", "")
        .replace(" font-family=\"sans-serif\"", "")
        .replace(" stroke=\"none\"", "")
        .replace(" stroke-width=\"1\"", "")
        .replace(" \"/>", "\"/>")
        .replace("\">\n", "\">")
        .replace("\n</text>", "</text>")
}

/// A style for text of `px` pixels.
pub(crate) fn text(px: f64, colour: Colour, h: HPos, v: VPos) -> TextStyle<'static> {
    ("sans-serif", px * FONT_SCALE).into_font().color(&colour.rgb()).pos(Pos::new(h, v))
}

/// [`text`] in bold.
pub(crate) fn bold(px: f64, colour: Colour, h: HPos, v: VPos) -> TextStyle<'static> {
    let font = ("sans-serif", px * FONT_SCALE).into_font().style(FontStyle::Bold);
    font.color(&colour.rgb()).pos(Pos::new(h, v))
}

/// About how many pixels a text of normal size takes.
pub(crate) fn width_of(label: &str) -> f64 {
    label.chars().map(width_of_letter).sum()
}

/// [`width_of`] for bold text.
pub(crate) fn width_of_bold(label: &str) -> f64 {
    width_of(label) * BOLD
}

fn width_of_letter(c: char) -> f64 {
    let share = match c {
        _ if c.is_uppercase() => LETTER.1,
        // Letters of East Asia fill a square.
        _ if u32::from(c) > 0x1100 => 1.0,
        _ => LETTER.0,
    };
    share * TEXT_PX
}

/// The text, with its end cut off if it would be wider than `px`.
pub(crate) fn fit(label: &str, px: f64) -> String {
    if label.is_empty() || width_of(label) <= px {
        return label.to_owned();
    }
    let mut room = px - TEXT_PX;
    let fits = |c: &char| {
        room -= width_of_letter(*c);
        room >= 0.0
    };
    let kept: String = label.chars().take_while(fits).collect();
    format!("{}\u{2026}", kept.trim_end())
}

/// A colour that lets through what is below it.
pub(crate) fn through(colour: Colour, opacity: f64) -> plotters::style::RGBAColor {
    colour.rgb().mix(opacity)
}

/// A number of pixels that is known to be small.
pub(crate) fn pixels(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
