//! The live view with made-up readings, drawn on terminals of several sizes.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::text::Span;

use super::board::{Action, Board, HISTORY, Order, View};
use super::plain::PlainLines;
use super::reading::{CallersOf, ProcessRow, Reading, Row};
use super::screen::{Heading, draw};
use clockscope_model::callers::{Called, CalledRow, Callers, FrameRow, StackRow};

const MONOTONIC: Called = Called::Vdso(1);
const FUTEX: Called = Called::Syscall(202);

fn row(key: Called, name: &str, calls: u64, time_ns: u64) -> Row {
    let is_clock = name.starts_with("clock_gettime") || name == "gettimeofday";
    Row { key, name: name.to_owned(), calls, time_ns, is_clock, waits: name == "futex" }
}

/// Callers of the clock: stacks, the caller first, and their calls.
fn callers(key: Called, stacks: &[(&[&str], f64)]) -> CallersOf {
    let mut callers = Callers { called: vec![CalledRow::default()], ..Callers::default() };
    for (names, calls) in stacks {
        let frames = names.iter().map(|name| {
            let row = FrameRow { function: Some((*name).into()), ..FrameRow::default() };
            callers.frames.iter().position(|known| *known == row).unwrap_or_else(|| {
                callers.frames.push(row);
                callers.frames.len() - 1
            })
        });
        let frames = frames.collect();
        let complete = true;
        callers.stacks.push(StackRow { frames, calls: *calls, complete, ..StackRow::default() });
    }
    CallersOf { key: Some(key), callers: Arc::new(callers) }
}

/// A server in which one function reads the clock for two others.
fn server() -> CallersOf {
    let post: &[&str] = &["read_clock", "fd_fifo_post_internal", "fd_fifo_post", "receiver"];
    let get: &[&str] = &["read_clock", "fd_fifo_timedget", "sender"];
    callers(MONOTONIC, &[(post, 53.0), (get, 47.0)])
}

/// What is known after so many seconds of a program that reads the clock ever more often.
fn reading(seconds: u64) -> Reading {
    let calls: u64 = (1..=seconds).map(|second| second * 1_000).sum();
    let rows = vec![
        row(FUTEX, "futex", seconds * 200, seconds * 200 * 3_000),
        row(MONOTONIC, "clock_gettime(MONOTONIC)", calls, calls * 25),
        row(Called::Vdso(24), "gettimeofday", 7, 0),
    ];
    let process = |pid, title: &str, clock_reads, cpu_ms| ProcessRow {
        pid,
        title: title.to_owned(),
        container: None,
        clock_reads,
        cpu: Some(Duration::from_millis(cpu_ms)),
    };
    let by_process = vec![
        process(4711, "server: listener", 7, 10),
        process(4712, "server: worker", calls, 80 * seconds),
    ];
    Reading { at: Duration::from_secs(seconds), processes: 2, rows, by_process }
}

fn board(seconds: u64) -> Board {
    let mut board = Board::default();
    (1..=seconds).for_each(|second| board.read(reading(second)));
    board
}

fn heading() -> Heading {
    let no_callers = "not sampled".to_owned();
    Heading { program: "./server --port 80".to_owned(), no_callers, is_ascii: false }
}

fn drawn(board: &Board, width: u16, height: u16) -> String {
    drawn_with(board, &heading(), width, height)
}

fn drawn_with(board: &Board, heading: &Heading, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| draw(frame, board, heading)).expect("is drawn");
    let buffer = terminal.backend().buffer();
    let line = |y| -> String {
        let mut x = 0;
        let mut line = String::new();
        while x < width {
            let symbol = buffer[(x, y)].symbol();
            line += symbol;
            // A wide character has the cell behind it too.
            x += u16::try_from(Span::raw(symbol).width()).map_or(1, |columns| columns.max(1));
        }
        line
    };
    (0..height).map(|y| line(y).trim_end().to_owned() + "\n").collect()
}

fn names(board: &Board) -> Vec<&str> {
    board.shown().lines().iter().map(|line| line.name.as_str()).collect()
}

#[test]
fn the_usual_terminal() {
    let mut board = board(12);
    board.set_callers(server());
    insta::assert_snapshot!(drawn(&board, 80, 24));
}

#[test]
fn a_small_terminal() {
    insta::assert_snapshot!(drawn(&board(12), 40, 10));
}

#[test]
fn half_a_terminal_has_callers_too() {
    let mut board = board(12);
    board.set_callers(server());
    insta::assert_snapshot!(drawn(&board, 50, 12));
}

#[test]
fn without_utf_8_all_is_ascii() {
    let mut board = board(12);
    board.set_callers(server());
    let heading = Heading { is_ascii: true, ..heading() };
    let text = drawn_with(&board, &heading, 80, 24);
    assert!(text.is_ascii(), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn views_of_clocks_only_callers_only_and_help() {
    let mut board = board(12);
    board.set_callers(server());
    board.act(Action::Clocks);
    assert_eq!(names(&board), ["clock_gettime(MONOTONIC)", "gettimeofday"]);
    board.act(Action::Last);
    assert_eq!(board.selected().map(|line| line.name.as_str()), Some("gettimeofday"));
    board.act(Action::Clocks);
    board.act(Action::First);
    assert_eq!(names(&board).len(), 3);
    board.act(Action::Open);
    assert_eq!(board.view(), View::Callers);
    insta::assert_snapshot!(drawn(&board, 80, 12));
    board.act(Action::Help);
    insta::assert_snapshot!(drawn(&board, 100, 18));
    board.act(Action::Pause);
    board.act(Action::Back);
    assert_eq!(board.shown().view(), View::Table);
    board.act(Action::Pause);
    assert_eq!(board.shown().view(), View::Table);
}

#[test]
fn processes_stand_in_the_order_of_their_rates() {
    let mut board = board(12);
    board.act(Action::Processes);
    insta::assert_snapshot!(drawn(&board, 80, 12));
    insta::assert_snapshot!(drawn(&board, 50, 12));
    board.act(Action::Processes);
    assert_eq!(board.view(), View::Table);
}

#[test]
fn processes_in_containers_are_shown_with_their_containers() {
    let mut board = board(11);
    let mut last = reading(12);
    last.by_process[0].container = Some("shop/web-0/nginx-with-a-long-name".to_owned());
    board.read(last);
    board.act(Action::Processes);
    insta::assert_snapshot!(drawn(&board, 80, 12));
}

/// Its counts are those since the start, of which nobody knows how many are of the last second.
#[test]
fn a_process_that_was_not_looked_at_before_has_no_rate_yet() {
    let mut board = Board::default();
    board.read(Reading { by_process: Vec::new(), ..reading(11) });
    let rates = |board: &Board| -> Vec<(i32, Option<f64>)> {
        board.by_process().iter().map(|line| (line.pid, line.rate)).collect()
    };
    board.read(reading(12));
    assert_eq!(rates(&board), [(4711, None), (4712, None)]);
    board.read(reading(13));
    assert_eq!(rates(&board), [(4712, Some(13_000.0)), (4711, Some(0.0))]);
}

#[test]
fn what_clocks_cost_is_that_of_what_was_timed() {
    let (each_ps, share) = board(12).clock_cost().expect("is timed");
    assert!((each_ps - 25_000.0).abs() < 1.0 && (share - 12_000.0 * 25e-9).abs() < 1e-9);
    assert_eq!(Board::default().clock_cost(), None);
}

#[test]
fn a_large_terminal() {
    insta::assert_snapshot!(drawn(&board(90), 200, 50));
}

#[test]
fn no_rows_yet() {
    insta::assert_snapshot!(drawn(&Board::default(), 80, 24));
}

#[test]
fn long_wide_and_hostile_names() {
    let mut board = Board::default();
    let wide = "時計を読む関数の名前はとても長いことがあります時計を読む関数";
    let rows = vec![
        row(Called::Vdso(29), &"very_long_name_".repeat(20), 3, 0),
        row(Called::Vdso(30), wide, 2, 0),
        row(Called::Vdso(31), "a\x1b[31mred\u{202e}\n", 1, 0),
    ];
    board.read(Reading { at: Duration::from_secs(1), processes: 1, rows, ..Reading::default() });
    let hostile: [(&[&str], f64); 2] = [(&[&wide.repeat(3)], 0.9), (&["b\x1b[2J"], 0.1)];
    board.set_callers(callers(Called::Vdso(29), &hostile));
    let heading = Heading { program: "名前".repeat(50), ..heading() };
    let text = drawn_with(&board, &heading, 80, 24);
    assert!(!text.contains(['\x1b', '\u{202e}']), "{text:?}");
    insta::assert_snapshot!(text);
}

#[test]
fn rates_are_those_of_the_last_second_and_shares_those_of_a_processor() {
    let board = board(12);
    let monotonic = board.selected().expect("there is a first row");
    assert_eq!((monotonic.key, monotonic.calls), (MONOTONIC, 78_000));
    assert!((monotonic.rate - 12_000.0).abs() < 1e-6);
    assert!((monotonic.share.expect("is timed") - 12_000.0 * 25e-9).abs() < 1e-9);
    assert_eq!(monotonic.average_ps, Some(25_000));
    let lines = board.lines();
    let futex = lines.iter().find(|line| line.key == FUTEX).expect("is there");
    assert!((futex.rate - 200.0).abs() < 1e-6);
    assert_eq!(futex.average_ps, Some(3_000_000));
    let total = board.total(|line| matches!(line.key, Called::Vdso(_)));
    assert!((total.last().expect("a rate") - 12_000.0).abs() < 1e-6);
}

#[test]
fn keys_select_sort_pause_and_reset() {
    let mut board = board(12);
    assert_eq!(names(&board), ["clock_gettime(MONOTONIC)", "futex", "gettimeofday"]);
    board.act(Action::Down);
    assert_eq!(board.selected().map(|line| line.key), Some(FUTEX));
    board.act(Action::Sort);
    assert_eq!(board.order(), Order::Time);
    assert_eq!(names(&board)[0], "futex");
    assert_eq!(board.selected_index(), Some(0), "a row stays selected where it goes");
    board.act(Action::Last);
    board.act(Action::Down);
    assert_eq!(board.selected_index(), Some(2));
    board.act(Action::First);
    board.act(Action::Up);
    assert_eq!(board.selected_index(), Some(0));
    board.act(Action::Pause);
    board.read(reading(13));
    assert_eq!(board.shown().at(), Duration::from_secs(12), "stands still");
    board.act(Action::Down);
    assert_eq!(board.shown().selected_index(), Some(1), "but rows can be selected");
    board.act(Action::Pause);
    assert_eq!(board.shown().at(), Duration::from_secs(13));
    assert_eq!(board.selected_index(), Some(1));
    board.act(Action::Reset);
    board.read(reading(15));
    let calls = |key| board.lines().iter().find(|line| line.key == key).map(|line| line.calls);
    assert_eq!((calls(MONOTONIC), calls(FUTEX)), (Some(29_000), Some(400)));
}

#[test]
fn a_minute_is_kept() {
    let board = board(200);
    assert!(board.lines().iter().all(|line| line.history.len() == HISTORY));
}

#[test]
fn callers_of_another_row_are_not_shown() {
    let mut board = board(3);
    board.set_callers(callers(FUTEX, &[(&["park"], 1.0)]));
    assert_eq!(board.callers(), None);
    board.act(Action::Down);
    assert_eq!(board.callers().map(|callers| callers.stacks.len()), Some(1));
    board.act(Action::Down);
    assert_eq!(board.callers(), None);
}

#[test]
fn lines_for_pipes_add_up() {
    let mut plain = PlainLines::default();
    let lines: Vec<String> =
        (1..=3).map(|second| plain.next(&reading(second), 1_763_784_000)).collect();
    assert_eq!(
        lines[1],
        "2025-11-22T04:00:00Z +1s vdso 2000 syscalls 200 clock_gettime(MONOTONIC) 2000 \
         sys_futex 200\n"
    );
    let said = |name: &str| -> u64 {
        let of = |line: &String| {
            let mut words = line.split_whitespace().skip_while(|word| *word != name);
            words.nth(1).map_or(0, |calls| calls.parse().expect("a number"))
        };
        lines.iter().map(of).sum()
    };
    assert_eq!(said("clock_gettime(MONOTONIC)"), 6_000);
    assert_eq!((said("gettimeofday"), said("sys_futex")), (7, 600));
    assert_eq!((said("vdso"), said("syscalls")), (6_007, 600));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_size_and_no_numbers_break_it(
        width in 0_u16..220,
        height in 0_u16..60,
        rows in prop::collection::vec((0_u32..9, "\\PC{0,90}", any::<u64>(), any::<u64>()), 0..40),
        seconds in prop::collection::vec(0_u64..1 << 40, 1..4),
        keys in prop::collection::vec(0_usize..12, 0..12),
        is_ascii in any::<bool>(),
    ) {
        let all = [Action::Up, Action::Down, Action::First, Action::Last, Action::Sort,
            Action::Pause, Action::Reset, Action::Clocks, Action::Open, Action::Help, Action::Processes,
            Action::Back];
        let mut board = Board::default();
        for at in seconds {
            let rows = rows.iter().map(|(number, name, calls, time)| {
                let key = if number % 2 == 0 { Called::Syscall(*number) } else { Called::Vdso(5) };
                row(key, name, calls.wrapping_add(at), *time)
            });
            board.read(Reading {
                at: Duration::from_millis(at), processes: at, rows: rows.collect(), ..Reading::default()
            });
            keys.iter().for_each(|key| board.act(all[*key]));
            board.set_callers(CallersOf { key: Some(Called::Vdso(5)), ..server() });
            let text = drawn_with(&board, &Heading { is_ascii, ..heading() }, width, height);
            prop_assert!(text.is_ascii() || !is_ascii, "{text}");
        }
    }
}
