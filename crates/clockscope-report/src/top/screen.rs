//! Drawing a board. Works at any size: what does not fit is left out, the least useful first.

use clockscope_text::foreign::printable;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line as TextLine, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};

use super::board::{Board, Line};
use clockscope_model::callers::Called;
use clockscope_text::{lines, units};

/// Blocks of an eighth to a whole line of height.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Lines for the callers of the selected row, with their heading.
const CALLERS: u16 = 7;
/// Narrowest column of names.
const NAME_MIN: u16 = 14;

/// What stands in the first line.
#[derive(Clone, Debug, Default)]
pub struct Heading {
    /// Program and arguments, or process ids.
    pub program: String,
    /// Why no callers are shown, if none are looked for.
    pub no_callers: String,
}

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, board: &Board, heading: &Heading) {
    let area = frame.area();
    let shown = board.shown();
    let callers = if area.height >= 16 { CALLERS } else { 0 };
    let totals = if area.height >= 10 { 3 } else { 0 };
    let keys = u16::from(area.height >= 4);
    let parts = Layout::vertical([
        Constraint::Length(u16::from(area.height >= 3)),
        Constraint::Length(totals),
        Constraint::Min(1),
        Constraint::Length(callers),
        Constraint::Length(keys),
    ])
    .split(area);
    draw_heading(frame, parts[0], board, heading);
    draw_totals(frame, parts[1], shown);
    draw_table(frame, parts[2], shown);
    draw_callers(frame, parts[3], shown, heading);
    draw_keys(frame, parts[4], board);
}

fn draw_heading(frame: &mut Frame<'_>, area: Rect, board: &Board, heading: &Heading) {
    let shown = board.shown();
    let seconds = shown.at().as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let processes = match shown.processes() {
        1 => "1 process".to_owned(),
        many => format!("{} processes", units::count(many)),
    };
    let paused = if board.is_paused() { "  PAUSED" } else { "" };
    let right = format!("  {processes}  {hours}:{minutes:02}:{seconds:02}{paused}");
    let room = usize::from(area.width).saturating_sub(right.len() + 12);
    let program = lines::cut_middle(&printable(&heading.program), room);
    let title = Span::styled("clockscope  ", Style::new().add_modifier(Modifier::BOLD));
    frame.render_widget(TextLine::from_iter([title, program.into(), right.into()]), area);
}

fn draw_totals(frame: &mut Frame<'_>, area: Rect, board: &Board) {
    let is_vdso = |line: &Line| matches!(line.key, Called::Vdso(_));
    let row = |name: &str, rates: &[f64]| {
        let rate = rates.last().and_then(|rate| units::rate(*rate)).unwrap_or_default();
        let head = format!("{name:<13}{rate:>13}/s  ");
        let room = usize::from(area.width).saturating_sub(head.len());
        TextLine::raw(head + &sparkline(rates, room))
    };
    let text = vec![
        row("vDSO calls", &board.total(is_vdso)),
        row("system calls", &board.total(|line| !is_vdso(line))),
    ];
    frame.render_widget(Paragraph::new(text), area);
}

/// Columns right of the name: heading, width, and what to put there.
type Column = (&'static str, u16, fn(&Line) -> String);

const COLUMNS: [Column; 5] = [
    ("rate/s", 11, |line| units::rate(line.rate).unwrap_or_default()),
    ("% time", 7, |line| line.share.map_or_else(String::new, percent)),
    ("average", 8, |line| line.average_ps.map_or_else(String::new, units::picos)),
    ("calls", 15, |line| units::count(line.calls)),
    ("via", 4, |line| if matches!(line.key, Called::Vdso(_)) { "vdso" } else { "sys" }.to_owned()),
];
/// Order in which columns are given room, and how much they leave to the name and the last minute.
const BY_USE: [(usize, u16); 5] = [(0, 0), (4, 0), (1, 0), (2, 0), (3, NAME_REST + 13)];
/// Columns that most names have beyond the narrowest.
const NAME_REST: u16 = 14;

fn draw_table(frame: &mut Frame<'_>, area: Rect, board: &Board) {
    let mut left = area.width.saturating_sub(NAME_MIN);
    let mut columns: Vec<usize> = Vec::new();
    for (index, leave) in BY_USE {
        let width = COLUMNS[index].1 + 1;
        if width + leave <= left {
            left -= width;
            columns.push(index);
        }
    }
    columns.sort_unstable();
    let minute = left.saturating_sub(NAME_REST).min(61);
    let minute = if minute < 8 { 0 } else { minute };
    let name_width = usize::from(NAME_MIN + left - minute);
    let right = |text: String, width: u16| format!("{text:>width$}", width = usize::from(width));
    let rows = board.lines().iter().map(|line| {
        let name = lines::cut_middle(&printable(&line.name), name_width);
        let mut cells = vec![Cell::new(name)];
        cells.extend(columns.iter().map(|at| {
            let (_, width, text) = COLUMNS[*at];
            Cell::new(right(text(line), width))
        }));
        let rates: Vec<f64> = line.history.iter().copied().collect();
        if minute > 0 {
            cells.push(Cell::new(sparkline(&rates, usize::from(minute - 1))));
        }
        Row::new(cells)
    });
    let mut heads = vec![Cell::new("call")];
    heads.extend(columns.iter().map(|at| right(COLUMNS[*at].0.to_owned(), COLUMNS[*at].1).into()));
    let mut widths = vec![Constraint::Fill(1)];
    widths.extend(columns.iter().map(|at| Constraint::Length(COLUMNS[*at].1)));
    if minute > 0 {
        heads.push(Cell::new(if minute >= 12 { "last minute" } else { "" }));
        widths.push(Constraint::Length(minute - 1));
    }
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let table = Table::new(rows, widths)
        .header(Row::new(heads).style(bold))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(board.selected_index());
    frame.render_stateful_widget(table, area, &mut state);
    if board.lines().is_empty() && area.height > 1 {
        let below = Rect { y: area.y + 1, height: 1, ..area };
        frame.render_widget(TextLine::raw("no calls yet"), below);
    }
}

fn draw_callers(frame: &mut Frame<'_>, area: Rect, board: &Board, heading: &Heading) {
    let Some(selected) = board.selected() else { return };
    let title = format!("callers of {}", printable(&selected.name));
    let title = lines::cut_middle(&title, usize::from(area.width));
    let mut text =
        vec![TextLine::raw(""), TextLine::styled(title, Style::new().add_modifier(Modifier::BOLD))];
    match board.callers() {
        Some([]) => text.push(TextLine::raw("no stack sampled yet")),
        Some(callers) => text.extend(callers.iter().map(|(function, share)| {
            let room = usize::from(area.width).saturating_sub(9);
            let function = lines::cut_middle(&printable(function), room);
            TextLine::raw(format!("{:>7}  {function}", percent(*share)))
        })),
        None => text.push(TextLine::raw(heading.no_callers.as_str())),
    }
    frame.render_widget(Paragraph::new(text), area);
}

fn draw_keys(frame: &mut Frame<'_>, area: Rect, board: &Board) {
    let pause = if board.is_paused() { "go on" } else { "pause" };
    let order = board.shown().order().name();
    let keys = [
        ("q", "quit"),
        ("↑↓ jk", "select"),
        ("s", &format!("sort: {order}")),
        ("p", pause),
        ("r", "reset"),
        ("g G", "first, last"),
    ];
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let words = keys
        .iter()
        .flat_map(|(key, does)| [Span::styled(*key, bold), Span::raw(format!(" {does}   "))]);
    frame.render_widget(TextLine::from_iter(words), area);
}

/// A share in percent, in six columns.
fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// The last `room` rates as blocks, as high as the highest of them.
fn sparkline(rates: &[f64], room: usize) -> String {
    let rates = &rates[rates.len().saturating_sub(room)..];
    let highest = rates.iter().copied().fold(0.0, f64::max);
    let block = |rate: &f64| {
        // Nothing is nothing, and anything is at least the lowest block.
        let level = if highest > 0.0 { rate / highest * 8.0 } else { 0.0 };
        let above = BLOCKS.iter().zip(1_u32..).find(|(_, step)| level <= f64::from(*step));
        match above {
            _ if level <= 0.0 => ' ',
            Some((block, _)) => *block,
            None => '█',
        }
    };
    rates.iter().map(block).collect()
}
