//! Drawing a board. Works at any size: what does not fit is left out, the least useful first.

use clockscope_text::foreign::printable;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line as TextLine, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};

use super::board::{Board, Line, ProcessLine, View};
use crate::callers;
use clockscope_model::callers::Called;
use clockscope_text::{lines, units};

/// Blocks of an eighth to a whole line of height.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// What stands for these, and for nothing below them, where only ASCII can be shown.
const ASCII_BLOCKS: [char; 8] = ['_', '.', '-', '=', '+', '*', '%', '#'];
/// With so many lines below the heads there is room for the callers of the selected row.
const CALLERS_FROM: u16 = 6;
/// Narrowest column of names.
const NAME_MIN: u16 = 14;

/// What stands in the first line.
#[derive(Clone, Debug, Default)]
pub struct Heading {
    /// Program and arguments, or process ids.
    pub program: String,
    /// Why no callers are shown, if none are looked for.
    pub no_callers: String,
    /// The terminal shows nothing but ASCII.
    pub is_ascii: bool,
}

/// What the columns and lines mean.
const HELP: [&str; 15] = [
    "clock reads   clock_gettime, gettimeofday and time: reads a second, the time of one,",
    "              and of all of them as a share of one processor's time",
    "rate/s        calls in the last second",
    "% time        time in them of one processor's time; waits: there was nothing to do",
    "average       time of a call; of vDSO calls estimated from some of them",
    "calls         since the start, or since r; exact",
    "via           vdso: answered in the program's own memory; sys: by the kernel",
    "last minute   calls a second, relative to the highest of the line",
    "callers       who makes the calls of the selected row, by samples since the start",
    "",
    "up down j k   select a row            g G     the first, the last row",
    "Enter         only its callers        c       only reads of clocks",
    "w             which processes read    s       sort: rate, time, calls, name",
    "p             pause                   r       count from now on",
    "q             stop counting; the program goes on",
];

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, board: &Board, heading: &Heading) {
    let area = frame.area();
    let shown = board.shown();
    let has_totals = area.height >= 10 && shown.view() == View::Table;
    let parts = Layout::vertical([
        Constraint::Length(u16::from(area.height >= 3)),
        Constraint::Length(if has_totals { 3 } else { 0 }),
        Constraint::Min(1),
        Constraint::Length(u16::from(area.height >= 4)),
    ])
    .split(area);
    draw_heading(frame, parts[0], board, heading);
    match shown.view() {
        View::Table => {
            draw_totals(frame, parts[1], shown);
            let free = parts[2].height;
            let rows = u16::try_from(shown.lines().len()).unwrap_or(u16::MAX).saturating_add(1);
            // What the table leaves is the callers', and at least half.
            let table = if free < CALLERS_FROM { free } else { rows.max(2).min(free / 2) };
            let [table, below] =
                Layout::vertical([Constraint::Length(table), Constraint::Min(0)]).areas(parts[2]);
            draw_table(frame, table, shown);
            draw_callers(frame, below, shown, heading);
        }
        View::Callers => draw_callers(frame, parts[2], shown, heading),
        View::Processes => draw_processes(frame, parts[2], shown),
        View::Help => {
            let lines = [""].into_iter().chain(HELP).map(TextLine::raw);
            frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), parts[2]);
        }
    }
    draw_keys(frame, parts[3], board);
    if heading.is_ascii {
        in_ascii(frame.buffer_mut());
    }
}

/// Puts ASCII characters in the place of others, cell by cell.
fn in_ascii(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        // A letter may have marks of its own.
        let Some(shown) = cell.symbol().chars().find(|c| !c.is_ascii()) else { continue };
        let block = BLOCKS.iter().position(|block| *block == shown);
        cell.set_char(match (block, shown) {
            (Some(height), _) => ASCII_BLOCKS[height],
            (None, '…') => '~',
            (None, '↑') => '^',
            (None, '↓') => 'v',
            _ => '?',
        });
    }
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
    let is_system_call = |line: &Line| matches!(line.key, Called::Syscall(_));
    let row = |name: &str, rates: &[f64], cost: &str| {
        let rate = rates.last().and_then(|rate| units::rate(*rate)).unwrap_or_default();
        let head = format!("{name:<13}{rate:>13}/s  {cost:<COST$}");
        let room = usize::from(area.width).saturating_sub(head.len());
        TextLine::raw(head + &sparkline(rates, room))
    };
    let cost = board
        .clock_cost()
        .map(|(each_ps, share)| format!("{} each, {} of a CPU", picos(each_ps), percent(share)));
    let text = vec![
        row("clock reads", &board.total(|line| line.is_clock), &cost.unwrap_or_default()),
        row("system calls", &board.total(is_system_call), ""),
    ];
    frame.render_widget(Paragraph::new(text), area);
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn picos(ps: f64) -> String {
    units::picos(ps as u64)
}

/// Columns right of the name: heading, width, and what to put there.
type Column = (&'static str, u16, fn(&Line) -> String);

const COLUMNS: [Column; 5] = [
    ("rate/s", 11, |line| units::rate(line.rate).unwrap_or_default()),
    ("% time", 7, |line| match line.share {
        Some(_) if line.waits => "waits".to_owned(),
        share => share.map_or_else(String::new, percent),
    }),
    ("average", 8, |line| line.average_ps.map_or_else(String::new, units::picos)),
    ("calls", 15, |line| units::count(line.calls)),
    ("via", 4, |line| if matches!(line.key, Called::Vdso(_)) { "vdso" } else { "sys" }.to_owned()),
];
/// Order in which columns are given room, and how much they leave to the name and the last minute.
const BY_USE: [(usize, u16); 5] = [(0, 0), (4, 0), (1, 0), (2, 0), (3, NAME_REST + 13)];
/// Columns of the cost of clock reads.
const COST: usize = 31;
/// Between two keys.
const KEYS_APART: &str = "  ";
/// Columns of the names of containers, at most.
const CONTAINER_MAX: usize = 24;
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
    let rows = board.lines().into_iter().map(|line| {
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
        let none = if board.only_clocks() { "no clock was read yet" } else { "no calls yet" };
        frame.render_widget(TextLine::raw(none), below);
    }
}

/// The processes, as far as there is room.
fn draw_processes(frame: &mut Frame<'_>, area: Rect, board: &Board) {
    let container = |process: &ProcessLine| printable(process.container.as_deref().unwrap_or(""));
    let longest = board.by_process().iter().map(|process| lines::width(&container(process))).max();
    // None at all if no process runs in a container.
    let in_width = longest.filter(|width| *width > 0).map(|width| width.clamp(9, CONTAINER_MAX));
    let in_column = |text: &str| {
        in_width.map_or_else(String::new, |width| {
            let shown = lines::cut_middle(text, width);
            let pad = width.saturating_sub(lines::width(&shown)) + 2;
            format!("{shown}{:pad$}", "")
        })
    };
    let head = format!("{:>8} {:>11} {:>7}  {}", "pid", "reads/s", "% CPU", in_column("container"));
    let room = usize::from(area.width).saturating_sub(head.len());
    let head = head + "process";
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut text = vec![TextLine::raw(""), TextLine::styled(head, bold)];
    text.extend(board.by_process().iter().map(|process| {
        let rate = process.rate.and_then(units::rate).unwrap_or_default();
        let cpu = process.cpu.map(percent).unwrap_or_default();
        let title = lines::cut_middle(&printable(&process.title), room);
        let within = in_column(&container(process));
        TextLine::raw(format!("{:>8} {rate:>11} {cpu:>7}  {within}{title}", process.pid))
    }));
    if board.by_process().is_empty() {
        text.push(TextLine::raw("looked at within a second"));
    }
    frame.render_widget(Paragraph::new(text), area);
}

/// A tree from its first branch on, as far as there is room.
fn draw_callers(frame: &mut Frame<'_>, area: Rect, board: &Board, heading: &Heading) {
    let (Some(selected), 2..) = (board.selected(), area.height) else { return };
    let width = usize::from(area.width);
    let (below, tree) = match board.callers() {
        Some(callers) => callers::live_tree(callers, width),
        None => (None, vec![heading.no_callers.clone()]),
    };
    let name = printable(&selected.name);
    let title = match below {
        Some(function) => format!("callers of {}, which calls {name}", printable(&function)),
        None => format!("callers of {name}"),
    };
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut text =
        vec![TextLine::raw(""), TextLine::styled(lines::cut_middle(&title, width), bold)];
    if tree.is_empty() {
        text.push(TextLine::raw("no stack sampled yet"));
    }
    let room = usize::from(area.height) - 2;
    let fits = if tree.len() > room { room.saturating_sub(1) } else { tree.len() };
    let more = tree.len() - fits;
    text.extend(tree.into_iter().take(fits).map(TextLine::raw));
    if more > 0 {
        let all = if board.view() == View::Table { ", see Enter" } else { "" };
        text.push(TextLine::raw(format!(
            "  ... {}{all}",
            units::counted(more as u64, "more line", "more lines")
        )));
    }
    frame.render_widget(Paragraph::new(text), area);
}

fn draw_keys(frame: &mut Frame<'_>, area: Rect, board: &Board) {
    let pause = if board.is_paused() { "go on" } else { "pause" };
    let shown = board.shown();
    let keys = [
        ("q", "quit"),
        ("?", if shown.view() == View::Help { "back" } else { "help" }),
        ("↑↓", "select"),
        ("Enter", if shown.view() == View::Callers { "back" } else { "callers" }),
        ("c", if shown.only_clocks() { "all calls" } else { "clocks" }),
        ("s", &format!("sort: {}", shown.order().name())),
        ("w", if shown.view() == View::Processes { "back" } else { "processes" }),
        ("p", pause),
    ];
    let is_shown = |key: &str| match shown.view() {
        View::Table => true,
        View::Processes => ["q", "?", "w", "p"].contains(&key),
        View::Callers | View::Help => ["q", "?", "↑↓", "Enter"].contains(&key),
    };
    let mut left = usize::from(area.width);
    let mut fits = |key: &str, does: &str| {
        let width = key.chars().count() + does.chars().count() + 1;
        let fits = width <= left;
        left = left.saturating_sub(width + KEYS_APART.len());
        fits
    };
    let keys =
        keys.iter().filter(|(key, _)| is_shown(key)).take_while(|(key, does)| fits(key, does));
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let words = keys.flat_map(|(key, does)| {
        [Span::styled(*key, bold), Span::raw(format!(" {does}{KEYS_APART}"))]
    });
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
