//! Pictures with a row for each thing and one axis below: costs by path, ratios, shifts, bars.

use plotters::chart::{ChartBuilder, ChartContext, LabelAreaPosition};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::DrawingArea;
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::prelude::SVGBackend;
use plotters::style::text_anchor::{HPos, VPos};
use plotters::style::{Color, ShapeStyle, TRANSPARENT};

use super::axis::{Scale, Wish};
use super::palette::Colour;
use super::quantity::Unit;
use super::{
    Area, BOLD, Drawn, Form, Picture, TEXT_PX, bold, fit, pixels, text, through, width_of,
    width_of_bold,
};

/// Height of a row in pixels.
const ROW: u32 = 22;
/// Height of the line with a group's name, where it stands above its rows.
const GROUP_LINE: u32 = 20;
/// Space between groups.
const GROUP_GAP: u32 = 7;
/// Height of the axis with its labels.
const AXIS: u32 = 46;
/// Height of a line of labels of marker lines, above the rows.
const MARKER_LINE: u32 = 17;
/// Width of one bin of a lane.
const BIN: u32 = 2;

/// The whole picture.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    /// What it shows, for who cannot see it.
    pub title: String,
    /// What the axis is of.
    pub axis: String,
    /// Unit of the axis.
    pub unit: Unit,
    /// Kind of axis.
    pub wish: Wish,
    /// Rows, by what they have in common.
    pub groups: Vec<Group>,
    /// A range to shade.
    pub band: Option<(f64, f64)>,
    /// Values to mark over all rows, each with a word.
    pub markers: Vec<(f64, String)>,
}

/// More rows than this make more than one picture, all with the same axis.
const ROWS_MAX: usize = 60;

/// Rows that have something in common.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// What that is.
    pub name: String,
    /// The rows.
    pub rows: Vec<Row>,
}

/// A row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    /// What tells it from the others of its group.
    pub label: String,
    /// Its number, printed at the end.
    pub value: String,
    /// What to draw.
    pub marks: Vec<Mark>,
}

/// Something to draw in a row.
#[derive(Clone, Debug)]
pub(crate) enum Mark {
    /// The distribution of values: above the middle of the row, or below.
    Lane(Vec<f64>, Side, Colour),
    /// An interval, and the value in it.
    Interval(f64, f64, f64, Colour),
    /// A bar from zero (or the low end of the axis).
    Bar(f64, Colour),
    /// A thin line with ends, from one value to another, over a bar.
    Whisker(f64, f64),
    /// A line from one value to another.
    Span(f64, f64, Colour),
    /// A dot.
    Dot(f64, Colour),
    /// A short upright line.
    Tick(f64, Colour),
}

/// Where a lane is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Above the middle of the row.
    Above,
    /// Below it.
    Below,
}

type Coordinates = Cartesian2d<Scale, RangedCoordf64>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Coordinates>;

/// Where the columns of one form are, in pixels.
struct Layout {
    form: Form,
    width: u32,
    /// Width of the column of groups; 0 if their names stand above their rows.
    groups: u32,
    labels: u32,
    values: u32,
    top: u32,
    rows: u32,
}

impl Rows {
    /// Draws it, in pieces if it is long; an `Err` is a sentence in place of a picture.
    pub(crate) fn draw(mut self) -> Vec<Result<Picture, String>> {
        let extent = self.extent();
        let groups = std::mem::take(&mut self.groups);
        let mut pieces: Vec<Vec<Group>> = Vec::new();
        let mut rows = ROWS_MAX;
        for group in groups.into_iter().flat_map(Group::pieces) {
            rows += group.rows.len();
            if rows > ROWS_MAX {
                rows = group.rows.len();
                pieces.push(Vec::new());
            }
            pieces.last_mut().into_iter().for_each(|piece| piece.push(group.clone()));
        }
        if pieces.is_empty() {
            return vec![Err("There is nothing to draw.".to_owned())];
        }
        let piece = |groups| Rows { groups, ..self.clone() }.draw_piece(&extent);
        pieces.into_iter().map(piece).collect()
    }

    fn draw_piece(&self, extent: &[f64]) -> Result<Picture, String> {
        let (wide, narrow) = (self.layout(Form::Wide), self.layout(Form::Narrow));
        Picture::draw(&self.title, wide.size(), narrow.size(), |area, form| {
            self.draw_form(area, if form == Form::Wide { &wide } else { &narrow }, extent)
        })
    }

    fn layout(&self, form: Form) -> Layout {
        let rows = || self.groups.iter().flat_map(|group| &group.rows);
        let names = || self.groups.iter().map(|group| &group.name);
        let (width, most_groups, most_labels) = match form {
            Form::Wide => (880, 340, 150),
            Form::Narrow => (360, 0, 118),
        };
        let mut layout = Layout {
            form,
            width,
            groups: column(names().map(|name| width_of_bold(name)), most_groups),
            labels: column(rows().map(|row| width_of(&row.label)), most_labels),
            values: column(rows().map(|row| width_of(&row.value)), 110).max(14),
            top: MARKER_LINE * u32::try_from(self.markers.len()).unwrap_or(0) + 6,
            rows: 0,
        };
        layout.rows = self.groups.iter().map(|group| layout.height_of(group)).sum();
        layout
    }

    fn draw_form(&self, area: &Area, layout: &Layout, extent: &[f64]) -> Drawn {
        let ticks = if layout.form == Form::Wide { 8 } else { 4 };
        let scale = Scale::new(extent.iter().copied(), self.wish, ticks);
        let mut chart = self.chart(area, layout, &scale)?;
        self.draw_axis(&mut chart, layout, &scale)?;
        self.draw_markers(&chart, layout, &scale)?;
        let mut y = layout.top;
        for group in &self.groups {
            self.draw_group(area, &chart, layout, &scale, group, y)?;
            y += layout.height_of(group);
        }
        Ok(())
    }

    /// All values that must lie on the axis.
    fn extent(&self) -> Vec<f64> {
        let marks = self.groups.iter().flat_map(|g| &g.rows).flat_map(|row| &row.marks);
        let mut values: Vec<f64> = marks.flat_map(Mark::values).collect();
        values.extend(self.markers.iter().map(|(value, _)| *value));
        values.extend(self.band.iter().flat_map(|(low, high)| [*low, *high]));
        values
    }

    fn chart<'a, 'b>(
        &self,
        area: &'a DrawingArea<SVGBackend<'b>, Shift>,
        layout: &Layout,
        scale: &Scale,
    ) -> Result<Chart<'a, 'b>, Box<dyn std::error::Error>> {
        let x = scale.clone();
        let height = f64::from(layout.top + layout.rows);
        let chart = ChartBuilder::on(area)
            .set_label_area_size(LabelAreaPosition::Left, layout.groups + layout.labels)
            .set_label_area_size(LabelAreaPosition::Right, layout.values)
            .set_label_area_size(LabelAreaPosition::Bottom, AXIS)
            .build_cartesian_2d(x, -height..0.0)?;
        Ok(chart)
    }

    fn draw_axis(&self, chart: &mut Chart, layout: &Layout, scale: &Scale) -> Drawn {
        if let Some((low, high)) = self.band {
            let bottom = -f64::from(layout.top + layout.rows);
            let corners = [(scale.place(low), bottom), (scale.place(high), 0.0)];
            let style = through(Colour::Faint, 0.22).filled();
            chart.plotting_area().draw(&Rectangle::new(corners, style))?;
        }
        let kind = if scale.logarithmic { ", logarithmic" } else { "" };
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .light_line_style(TRANSPARENT)
            .bold_line_style(Colour::Grid.rgb())
            .axis_style(Colour::Muted.rgb())
            .x_label_style(text(TEXT_PX, Colour::Muted, HPos::Center, VPos::Top))
            .x_label_formatter(&|place| self.unit.text(scale.value(*place)))
            .axis_desc_style(text(TEXT_PX, Colour::Muted, HPos::Center, VPos::Top))
            .x_desc(format!("{}{kind}", self.axis))
            .draw()?;
        Ok(())
    }

    fn draw_markers(&self, chart: &Chart, layout: &Layout, scale: &Scale) -> Drawn {
        let bottom = -f64::from(layout.top + layout.rows);
        let mut top = -f64::from(MARKER_LINE);
        for (value, word) in &self.markers {
            let place = scale.place(*value);
            let is_left = place < f64::midpoint(scale.low, scale.high);
            let line = vec![(place, bottom), (place, top + 3.0)];
            let style = Colour::Ink.rgb().stroke_width(1);
            chart.plotting_area().draw(&PathElement::new(line, style))?;
            let side = if is_left { HPos::Left } else { HPos::Right };
            let style = text(TEXT_PX, Colour::Ink, side, VPos::Bottom);
            chart.plotting_area().draw(&Text::new(word.clone(), (place, top + 3.0), style))?;
            top -= f64::from(MARKER_LINE);
        }
        Ok(())
    }

    fn draw_group(
        &self,
        area: &Area,
        chart: &Chart,
        layout: &Layout,
        scale: &Scale,
        group: &Group,
        top: u32,
    ) -> Drawn {
        let mut y = top + GROUP_GAP;
        let name = if layout.groups > 0 {
            let room = (f64::from(layout.groups) - 8.0) / BOLD;
            let style = bold(TEXT_PX, Colour::Ink, HPos::Left, VPos::Center);
            Some((fit(&group.name, room), style, (0, pixels(y + ROW / 2))))
        } else if group.name.is_empty() {
            None
        } else {
            y += GROUP_LINE;
            let style = bold(TEXT_PX, Colour::Ink, HPos::Left, VPos::Center);
            let name = fit(&group.name, f64::from(layout.width) / BOLD);
            Some((name, style, (0, pixels(y - GROUP_LINE / 2))))
        };
        if let Some((name, style, at)) = name {
            area.draw_text(&name, &style, at)?;
        }
        for row in &group.rows {
            let middle = pixels(y + ROW / 2);
            let style = text(TEXT_PX, Colour::Ink, HPos::Left, VPos::Center);
            let label = fit(&row.label, f64::from(layout.labels) - 6.0);
            area.draw_text(&label, &style, (pixels(layout.groups), middle))?;
            let style = text(TEXT_PX, Colour::Ink, HPos::Right, VPos::Center);
            let value = fit(&row.value, f64::from(layout.values));
            area.draw_text(&value, &style, (pixels(layout.width), middle))?;
            for mark in &row.marks {
                mark.draw(chart, layout, scale, -f64::from(middle))?;
            }
            y += ROW;
        }
        Ok(())
    }
}

impl Group {
    /// The group, or pieces of it if it has too many rows for a picture.
    fn pieces(self) -> Vec<Group> {
        let piece = |rows: &[Row]| Group { name: self.name.clone(), rows: rows.to_vec() };
        self.rows.chunks(ROWS_MAX).map(piece).collect()
    }
}

impl Layout {
    fn size(&self) -> (u32, u32) {
        (self.width, self.top + self.rows + AXIS)
    }

    fn plot(&self) -> u32 {
        self.width.saturating_sub(self.groups + self.labels + self.values)
    }

    fn height_of(&self, group: &Group) -> u32 {
        let line = if self.groups > 0 || group.name.is_empty() { 0 } else { GROUP_LINE };
        GROUP_GAP + line + ROW * u32::try_from(group.rows.len()).unwrap_or(u32::MAX / ROW / 2)
    }
}

/// The width of a column of labels of these widths, at most `most`; 0 without labels.
fn column(widths: impl Iterator<Item = f64>, most: u32) -> u32 {
    let widest = widths.fold(0.0, f64::max);
    let fits = |width: &u32| f64::from(*width) >= widest + 12.0;
    if widest == 0.0 { 0 } else { (0..most).step_by(10).find(fits).unwrap_or(most) }
}

impl Mark {
    /// The values that must lie on the axis.
    fn values(&self) -> Vec<f64> {
        match self {
            Mark::Lane(values, _, _) => {
                let low = values.iter().copied().fold(f64::INFINITY, f64::min);
                vec![low, values.iter().copied().fold(f64::NEG_INFINITY, f64::max)]
            }
            Mark::Interval(low, at, high, _) => vec![*low, *at, *high],
            Mark::Bar(value, _) | Mark::Tick(value, _) | Mark::Dot(value, _) => vec![*value],
            Mark::Whisker(low, high) | Mark::Span(low, high, _) => vec![*low, *high],
        }
    }

    fn draw(&self, chart: &Chart, layout: &Layout, scale: &Scale, y: f64) -> Drawn {
        let area = chart.plotting_area();
        let line = |from: (f64, f64), to: (f64, f64), style: ShapeStyle| {
            area.draw(&PathElement::new(vec![from, to], style))
        };
        match self {
            Mark::Lane(values, side, colour) => {
                let style = colour.rgb().filled();
                for outline in outlines(values, layout.plot(), scale, *side, y) {
                    area.draw(&Polygon::new(outline, style))?;
                }
            }
            Mark::Interval(low, at, high, colour) => {
                let (low, at, high) = (scale.place(*low), scale.place(*at), scale.place(*high));
                let style = colour.rgb().stroke_width(2);
                line((low, y), (high, y), style)?;
                line((low, y - 4.0), (low, y + 4.0), style)?;
                line((high, y - 4.0), (high, y + 4.0), style)?;
                area.draw(&Circle::new((at, y), 4, colour.rgb().filled()))?;
            }
            Mark::Bar(value, colour) => {
                let corners = [(scale.place(0.0), y - 6.0), (scale.place(*value), y + 6.0)];
                area.draw(&Rectangle::new(in_order(corners), colour.rgb().filled()))?;
            }
            Mark::Whisker(low, high) => {
                let (low, high) = (scale.place(*low), scale.place(*high));
                let style = Colour::Ink.rgb().stroke_width(1);
                line((low, y), (high, y), style)?;
                line((low, y - 3.0), (low, y + 3.0), style)?;
                line((high, y - 3.0), (high, y + 3.0), style)?;
            }
            Mark::Span(low, high, colour) => {
                let style = colour.rgb().stroke_width(3);
                line((scale.place(*low), y), (scale.place(*high), y), style)?;
            }
            Mark::Dot(value, colour) => {
                let dot = Circle::new((scale.place(*value), y), 4, colour.rgb().filled());
                area.draw(&dot)?;
            }
            Mark::Tick(value, colour) => {
                let place = scale.place(*value);
                line((place, y - 8.0), (place, y + 8.0), colour.rgb().stroke_width(3))?;
            }
        }
        Ok(())
    }
}

/// A rectangle's corners with the lower place first, and a width that can be seen.
fn in_order(corners: [(f64, f64); 2]) -> [(f64, f64); 2] {
    let [(a, y), (b, z)] = corners;
    [(a.min(b), y), (a.max(b), z)]
}

/// The outlines of a lane: a step for each bin with values in it, as high as the root of their
/// number, a polygon for each run of bins without a hole.
fn outlines(values: &[f64], width: u32, scale: &Scale, side: Side, y: f64) -> Vec<Vec<(f64, f64)>> {
    let mut places: Vec<f64> =
        values.iter().filter(|v| v.is_finite()).map(|v| scale.place(*v)).collect();
    places.sort_unstable_by(f64::total_cmp);
    let bins = (width / BIN).max(1);
    let step = (scale.high - scale.low) / f64::from(bins);
    let mut counts = Vec::new();
    let mut rest = places.as_slice();
    for bin in 1..=bins {
        let end = if bin == bins { f64::INFINITY } else { scale.low + step * f64::from(bin) };
        let inside = rest.partition_point(|place| *place < end);
        counts.push((scale.low + step * f64::from(bin - 1), inside));
        rest = &rest[inside..];
    }
    let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(0) as f64;
    let (height, sign) = if side == Side::Above { (10.0, 1.0) } else { (9.0, -1.0) };
    let top = |count: usize| y + sign * (1.0 + (height - 1.0) * (count as f64 / most).sqrt());
    let runs = counts.split(|(_, count)| *count == 0).filter(|run| !run.is_empty());
    runs.map(|run| {
        let mut outline = vec![(run[0].0, y)];
        for (from, count) in run {
            outline.push((*from, top(*count)));
            outline.push((*from + step, top(*count)));
        }
        outline.push((run[run.len() - 1].0 + step, y));
        outline
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(groups: Vec<Group>) -> Rows {
        Rows {
            title: "costs".to_owned(),
            axis: "cost of a call".to_owned(),
            unit: Unit::Picos,
            wish: Wish::Fitting,
            groups,
            band: None,
            markers: Vec::new(),
        }
    }

    fn group(marks: Vec<Mark>) -> Group {
        let row = Row { label: "vdso".to_owned(), value: "21.6 ns".to_owned(), marks };
        Group { name: "CLOCK_<MONOTONIC>".to_owned(), rows: vec![row] }
    }

    #[test]
    fn nothing_to_draw_is_said() {
        assert!(rows(vec![]).draw()[0].is_err());
        assert!(rows(vec![Group::default()]).draw()[0].is_err());
    }

    #[test]
    fn many_rows_make_pieces_with_one_axis() {
        let mut long = group(vec![Mark::Bar(1e3, Colour::Blue)]);
        long.rows = vec![long.rows[0].clone(); 130];
        let pictures = rows(vec![long, group(vec![Mark::Bar(1.0, Colour::Blue)])]).draw();
        assert_eq!(pictures.len(), 3);
        assert!(pictures.iter().flatten().all(|picture| picture.wide.contains(">1 ns</text>")));
    }

    #[test]
    fn names_are_escaped_and_both_forms_are_drawn() {
        let lane = Mark::Lane(vec![20.0, 21.0, 300.0], Side::Above, Colour::Blue);
        let picture = rows(vec![group(vec![lane])]).draw().remove(0).unwrap();
        for svg in [&picture.wide, &picture.narrow] {
            assert!(svg.contains("CLOCK_&lt;MONOTONIC&gt;"), "{svg}");
            assert!(svg.contains("<polygon"), "{svg}");
            assert!(!svg.contains("http"), "{svg}");
        }
        assert!(picture.narrow.contains("viewBox=\"0 0 360 "));
    }

    #[test]
    fn a_lane_keeps_all_values_and_few_points() {
        let scale = Scale::new([1.0, 100.0], Wish::Fitting, 5);
        let values: Vec<f64> = (0..10_000).map(|n| 1.0 + f64::from(n % 100)).collect();
        let outlines = outlines(&values, 400, &scale, Side::Below, -11.0);
        let points: usize = outlines.iter().map(Vec::len).sum();
        assert!(points < 800, "{points}");
        assert!(outlines.iter().flatten().all(|(_, y)| (-20.0..=-11.0).contains(y)));
    }

    proptest::proptest! {
        #[test]
        fn no_value_makes_it_panic(
            values in proptest::collection::vec(proptest::num::f64::ANY, 1..9),
            a in proptest::num::f64::ANY,
            b in proptest::num::f64::ANY,
        ) {
            let marks = vec![
                Mark::Lane(values, Side::Above, Colour::Blue),
                Mark::Interval(a, b, a, Colour::Ink),
                Mark::Bar(b, Colour::Green),
                Mark::Span(a, b, Colour::Sky),
                Mark::Tick(a, Colour::Ink),
            ];
            let mut rows = rows(vec![group(marks)]);
            rows.band = Some((a, b));
            rows.markers = vec![(b, "limit".to_owned())];
            proptest::prop_assert!(rows.draw().iter().all(Result::is_ok));
        }
    }
}
