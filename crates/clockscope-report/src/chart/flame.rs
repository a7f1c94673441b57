//! Flame graphs that stand still: a bar for each function, as wide as its share of the calls, its
//! callers above it.

use plotters::element::Rectangle;
use plotters::style::Color;
use plotters::style::text_anchor::{HPos, VPos};

use super::palette::Colour;
use super::{Area, Drawn, Form, Picture, TEXT_PX, fit, pixels, text, through};

/// Height of a level in pixels.
const LEVEL: u32 = 21;
/// Width of the picture in both forms.
const WIDTH: (u32, u32) = (880, 360);
/// Bars of fewer pixels have no name.
const NAMED_FROM: f64 = 34.0;
/// Bars of fewer pixels are not drawn.
const DRAWN_FROM: f64 = 0.7;
/// Levels drawn.
const LEVELS_MAX: u32 = 40;

/// The whole picture.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flame {
    /// What it shows, for who cannot see it.
    pub title: String,
    /// The bars.
    pub bars: Vec<Bar>,
}

/// A bar.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    /// Its level, from 0 at the top.
    pub level: u32,
    /// Where it begins: a share (0 to 1) of the width.
    pub start: f64,
    /// How wide it is: a share of the width.
    pub share: f64,
    /// Its name.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
}

impl Flame {
    /// Draws it; `Err` is a sentence in its place.
    pub(crate) fn draw(&self) -> Result<Picture, String> {
        let bars = || self.bars.iter().filter(|bar| bar.level < LEVELS_MAX);
        let Some(deepest) = bars().map(|bar| bar.level).max() else {
            return Err("There is nothing to draw.".to_owned());
        };
        let height = (deepest + 1) * LEVEL + 2;
        Picture::draw(&self.title, (WIDTH.0, height), (WIDTH.1, height), |area, form| {
            let width = if form == Form::Wide { WIDTH.0 } else { WIDTH.1 };
            bars().try_for_each(|bar| bar.draw(area, f64::from(width)))
        })
    }
}

impl Bar {
    fn draw(&self, area: &Area, width: f64) -> Drawn {
        let place = |share: f64| nearest(share.clamp(0.0, 1.0) * width);
        let wide = self.share * width;
        if wide < DRAWN_FROM || !wide.is_finite() {
            return Ok(());
        }
        let (left, right) = (place(self.start), place(self.start + self.share));
        let top = pixels(self.level * LEVEL + 1);
        let corners = [(left, top), ((right - 1).max(left + 1), top + pixels(LEVEL) - 2)];
        area.draw(&Rectangle::new(corners, through(self.colour, 0.4).filled()))?;
        if wide >= NAMED_FROM {
            let style = text(TEXT_PX, Colour::Ink, HPos::Left, VPos::Center);
            let middle = top + pixels(LEVEL / 2) - 1;
            area.draw_text(&fit(&self.name, wide - 8.0), &style, (left + 4, middle))?;
        }
        Ok(())
    }
}

/// The nearest whole pixel of a picture.
fn nearest(px: f64) -> i32 {
    (0..=pixels(WIDTH.0)).rev().find(|whole| f64::from(*whole) <= px + 0.5).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(level: u32, start: f64, share: f64) -> Bar {
        Bar { level, start, share, name: "a<b>()".to_owned(), colour: Colour::Blue }
    }

    #[test]
    fn bars_are_drawn_with_names_where_there_is_room() {
        let bars = vec![bar(0, 0.0, 1.0), bar(1, 0.5, 0.2), bar(2, 0.5, 0.01), bar(3, 0.5, 0.0001)];
        let picture = Flame { title: "t".to_owned(), bars }.draw().unwrap();
        assert_eq!(picture.wide.matches("<rect").count(), 3, "{}", picture.wide);
        assert_eq!(picture.wide.matches("a&lt;b&gt;()").count(), 2, "{}", picture.wide);
    }

    #[test]
    fn nothing_and_nonsense_do_no_harm() {
        assert!(Flame::default().draw().is_err());
        let bars = vec![bar(0, f64::NAN, 1.0), bar(0, 2.0, f64::INFINITY), bar(u32::MAX, 0.0, 1.0)];
        assert!(Flame { title: String::new(), bars }.draw().is_ok());
    }

    #[test]
    fn pixels_are_whole() {
        assert_eq!([0.0, 0.4, 0.6, 879.9, 1e9].map(nearest), [0, 0, 1, 880, 880]);
    }
}
