//! Pictures with two axes: scaling, histograms, cumulative curves, stability.

use plotters::chart::{ChartBuilder, ChartContext, LabelAreaPosition};
use plotters::coord::cartesian::Cartesian2d;
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::prelude::SVGBackend;
use plotters::series::DashedLineSeries;
use plotters::style::text_anchor::{HPos, VPos};
use plotters::style::{Color, TRANSPARENT};

use super::axis::{Scale, Wish};
use super::palette::Colour;
use super::quantity::Unit;
use super::{Area, Drawn, Form, Picture, TEXT_PX, fit, pixels, text, through, width_of};

/// Height of a line of the legend.
const LEGEND_LINE: u32 = 20;
/// Height of the axis below.
const BELOW: u32 = 46;
/// Length and gap of the dashes of a dashed line.
const DASH: (u32, u32) = (6, 5);

/// The whole picture.
#[derive(Clone, Debug)]
pub(crate) struct Curves {
    /// What it shows, for who cannot see it.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What to draw.
    pub series: Vec<Series>,
    /// Places on the horizontal axis to mark, each with words.
    pub markers: Vec<(f64, String)>,
    /// How large it is.
    pub size: Size,
}

/// An axis.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// What it is of.
    pub name: String,
    /// Unit of its labels.
    pub unit: Unit,
    /// Its kind.
    pub wish: Wish,
}

/// Points that belong together.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// Their name in the legend.
    pub name: String,
    /// Their colour.
    pub colour: Colour,
    /// How they are drawn.
    pub shape: Shape,
    /// The points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A line with a dot at each point.
    Dotted,
    /// A line.
    Line,
    /// A dashed line.
    Dashed,
    /// A filled outline down to the low end of the axis.
    Area,
}

/// How large a picture is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// The width of the page.
    Full,
    /// The same, less high, for a second picture below the first.
    Low,
    /// Half the width, to stand beside others.
    Panel,
}

type Coordinates = Cartesian2d<Scale, Scale>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Coordinates>;

impl Curves {
    /// Draws it; `Err` is a sentence in its place.
    pub(crate) fn draw(&self) -> Result<Picture, String> {
        if self.points().next().is_none() {
            return Err("There is nothing to draw.".to_owned());
        }
        let (wide, height) = match self.size {
            Size::Full => (880, 300),
            Size::Low => (880, 230),
            Size::Panel => (430, 260),
        };
        let above = |width| self.above(width);
        let wide = (wide, height + above(wide));
        let narrow = (360, if self.size == Size::Low { 200 } else { 240 } + above(360));
        Picture::draw(&self.title, wide, narrow, |area, form| {
            let width = if form == Form::Wide { wide.0 } else { narrow.0 };
            self.draw_form(area, width)
        })
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        let points = self.series.iter().flat_map(|series| series.points.iter().copied());
        points.filter(|(x, y)| x.is_finite() && y.is_finite())
    }

    /// Height of the legend, of the name of the vertical axis and of the words of the markers.
    fn above(&self, width: u32) -> u32 {
        let markers = u32::try_from(self.markers.len()).unwrap_or(0);
        (self.legend_lines(width) + 1 + markers) * LEGEND_LINE + 4
    }

    fn legend_lines(&self, width: u32) -> u32 {
        self.legend(width).last().map_or(0, |(_, line, _)| line + 1)
    }

    fn draw_form(&self, area: &Area, width: u32) -> Drawn {
        let ticks = if width > 600 { 8 } else { 5 };
        let xs = self.points().map(|p| p.0).chain(self.markers.iter().map(|(x, _)| *x));
        let x = Scale::new(xs, self.x.wish, ticks);
        let y = Scale::new(self.points().map(|p| p.1), self.y.wish, 5);
        let widest = y.ticks.iter().map(|at| width_of(&self.y.unit.text(y.value(*at))));
        let widest = widest.fold(0.0, f64::max);
        let left = (52..110).step_by(4).find(|px| f64::from(*px) >= widest + 14.0).unwrap_or(110);
        let mut chart = ChartBuilder::on(area)
            .margin_top(self.above(width))
            .margin_right(14)
            .set_label_area_size(LabelAreaPosition::Left, left)
            .set_label_area_size(LabelAreaPosition::Bottom, BELOW)
            .build_cartesian_2d(x.clone(), y.clone())?;
        self.draw_axes(&mut chart, &x, &y)?;
        for series in &self.series {
            series.draw(&mut chart, &x, &y)?;
        }
        self.draw_markers(&chart, &x, &y)?;
        let kind = if y.logarithmic { ", logarithmic" } else { "" };
        let name = fit(&format!("{}{kind}", self.y.name), f64::from(width));
        let middle = pixels(self.legend_lines(width) * LEGEND_LINE + LEGEND_LINE / 2);
        let style = text(TEXT_PX, Colour::Muted, HPos::Left, VPos::Center);
        area.draw_text(&name, &style, (0, middle))?;
        self.draw_legend(area, width)
    }

    fn draw_axes(&self, chart: &mut Chart, x: &Scale, y: &Scale) -> Drawn {
        let kind = |scale: &Scale| if scale.logarithmic { ", logarithmic" } else { "" };
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(Colour::Grid.rgb())
            .axis_style(Colour::Muted.rgb())
            .x_label_style(text(TEXT_PX, Colour::Muted, HPos::Center, VPos::Top))
            .y_label_style(text(TEXT_PX, Colour::Muted, HPos::Right, VPos::Center))
            .x_label_formatter(&|place| self.x.unit.text(x.value(*place)))
            .y_label_formatter(&|place| self.y.unit.text(y.value(*place)))
            .axis_desc_style(text(TEXT_PX, Colour::Muted, HPos::Center, VPos::Top))
            .x_desc(format!("{}{}", self.x.name, kind(x)))
            .draw()?;
        Ok(())
    }

    fn draw_markers(&self, chart: &Chart, x: &Scale, y: &Scale) -> Drawn {
        let plot = chart.plotting_area();
        let pixel = (y.high - y.low) / f64::from(plot.dim_in_pixel().1.max(1));
        for (index, (value, words)) in self.markers.iter().enumerate() {
            let place = x.place(*value);
            let rise = f64::from(LEGEND_LINE) * f64::from(u32::try_from(index).unwrap_or(0));
            let top = y.high + pixel * (rise + 4.0);
            let line = vec![(place, y.low), (place, top)];
            plot.draw(&PathElement::new(line, Colour::Ink.rgb().stroke_width(2)))?;
            let share = (place - x.low) / (x.high - x.low);
            let side = if share < 0.5 { HPos::Left } else { HPos::Right };
            let style = text(TEXT_PX, Colour::Ink, side, VPos::Bottom);
            plot.draw(&Text::new(words.clone(), (place, top), style))?;
        }
        Ok(())
    }

    /// Each series that has a name, with the line of the legend it is in and its left edge.
    fn legend(&self, width: u32) -> Vec<(&Series, u32, u32)> {
        let (mut line, mut left) = (0, 0);
        let mut places = Vec::new();
        for series in self.series.iter().filter(|series| !series.name.is_empty()) {
            let wide = width_of(&series.name) + 44.0;
            let wide = (0..width).step_by(8).find(|px| f64::from(*px) >= wide).unwrap_or(width);
            if left > 0 && left + wide > width {
                line += 1;
                left = 0;
            }
            places.push((series, line, left));
            left += wide;
        }
        places
    }

    fn draw_legend(&self, area: &Area, width: u32) -> Drawn {
        for (series, line, left) in self.legend(width) {
            let middle = pixels(line * LEGEND_LINE + LEGEND_LINE / 2);
            let left = pixels(left);
            let colour = series.colour.rgb();
            match series.shape {
                Shape::Area => {
                    let corners = [(left, middle - 6), (left + 22, middle + 5)];
                    area.draw(&Rectangle::new(corners, through(series.colour, 0.5).filled()))?;
                    area.draw(&Rectangle::new(corners, colour))?;
                }
                Shape::Dashed => {
                    for dash in [0, 9, 18] {
                        let line = vec![(left + dash, middle), (left + dash + 5, middle)];
                        area.draw(&PathElement::new(line, colour.stroke_width(2)))?;
                    }
                }
                Shape::Line | Shape::Dotted => {
                    let line = vec![(left, middle), (left + 22, middle)];
                    area.draw(&PathElement::new(line, colour.stroke_width(2)))?;
                }
            }
            if series.shape == Shape::Dotted {
                area.draw(&Circle::new((left + 11, middle), 4, colour.filled()))?;
            }
            let style = text(TEXT_PX, Colour::Ink, HPos::Left, VPos::Center);
            area.draw_text(&series.name, &style, (left + 28, middle))?;
        }
        Ok(())
    }
}

impl Series {
    fn draw(&self, chart: &mut Chart, x: &Scale, y: &Scale) -> Drawn {
        let finite = self.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
        let places: Vec<(f64, f64)> = finite.map(|p| (x.place(p.0), y.place(p.1))).collect();
        let (Some(first), Some(last)) = (places.first(), places.last()) else { return Ok(()) };
        let stroke = self.colour.rgb().stroke_width(2);
        match self.shape {
            Shape::Area => {
                let mut outline = vec![(first.0, y.low)];
                outline.extend(&places);
                outline.push((last.0, y.low));
                let fill = through(self.colour, 0.35).filled();
                chart.plotting_area().draw(&Polygon::new(outline, fill))?;
                chart.plotting_area().draw(&PathElement::new(places, stroke))?;
            }
            Shape::Line => chart.plotting_area().draw(&PathElement::new(places, stroke))?,
            Shape::Dashed => {
                let line = DashedLineSeries::new(places, DASH.0, DASH.1, stroke);
                chart.draw_series(line)?;
            }
            Shape::Dotted => {
                for place in &places {
                    let dot = Circle::new(*place, 4, self.colour.rgb().filled());
                    chart.plotting_area().draw(&dot)?;
                }
                chart.plotting_area().draw(&PathElement::new(places, stroke))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curves(points: Vec<(f64, f64)>, shape: Shape, wish: Wish) -> Curves {
        let axis = |name: &str| Axis { name: name.to_owned(), unit: Unit::Nanos, wish };
        let name = "<busy>".to_owned();
        Curves {
            title: "ages".to_owned(),
            x: axis("age"),
            y: axis("reads"),
            series: vec![Series { name, colour: Colour::Blue, shape, points }],
            markers: vec![(4.0, "clock_getres".to_owned())],
            size: Size::Full,
        }
    }

    #[test]
    fn nothing_to_draw_is_said() {
        assert!(curves(vec![], Shape::Line, Wish::Linear).draw().is_err());
        assert!(curves(vec![(f64::NAN, 1.0)], Shape::Line, Wish::Linear).draw().is_err());
    }

    #[test]
    fn a_curve_has_its_legend_and_its_marker() {
        let picture =
            curves(vec![(1.0, 1.0), (9.0, 4.0)], Shape::Area, Wish::Linear).draw().unwrap();
        for svg in [&picture.wide, &picture.narrow] {
            assert!(svg.contains("&lt;busy&gt;") && svg.contains("clock_getres"), "{svg}");
            assert!(svg.contains("<polygon") && svg.contains("<polyline"), "{svg}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_value_makes_it_panic(
            points in proptest::collection::vec((proptest::num::f64::ANY, proptest::num::f64::ANY), 0..9),
            shape in 0_usize..4,
            wish in 0_usize..4,
        ) {
            let shape = [Shape::Dotted, Shape::Line, Shape::Dashed, Shape::Area][shape];
            let wish = [Wish::Linear, Wish::FromZero, Wish::Logarithmic, Wish::Fitting][wish];
            let finite = points.iter().any(|(x, y)| x.is_finite() && y.is_finite());
            proptest::prop_assert_eq!(curves(points, shape, wish).draw().is_ok(), finite);
        }
    }
}
