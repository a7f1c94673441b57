//! The thread that draws on the terminal and reads keys from it.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEventKind};
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{cursor, execute};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};

use clockscope_model::callers::Called;
use clockscope_report::top::board::{Action, Board, View};
use clockscope_report::top::reading::{CallersOf, Reading};
use clockscope_report::top::screen::{self, Heading};
use clockscope_sys::terminal::{self, Keys};

/// How long to wait for a key, and then look whether there is something to draw.
const GLANCE: Duration = Duration::from_millis(50);
/// How long the tracer waits for the terminal to be given back before this process stops.
const PATIENCE: Duration = Duration::from_secs(1);

enum Message {
    Reading(Reading),
    Callers(CallersOf),
    /// Give the terminal back, and say so.
    Leave(Sender<()>),
    /// Take it again.
    ComeBack,
}

/// What the thread tells.
#[derive(Default)]
struct Told {
    leave: AtomicBool,
    selected: Mutex<Option<Called>>,
    shows_processes: AtomicBool,
}

/// The screen, until this is dropped.
pub(super) struct Display {
    /// `None` once it is to end.
    messages: Option<Sender<Message>>,
    told: Arc<Told>,
    thread: Option<JoinHandle<()>>,
}

impl Display {
    /// Starts the thread. The screen is taken when there is something to show.
    ///
    /// # Errors
    ///
    /// When there is no terminal, or no thread can be had.
    pub(super) fn start(heading: Heading) -> io::Result<Self> {
        let terminal = terminal::controlling()?;
        let (sender, messages) = mpsc::channel();
        let told = Arc::new(Told::default());
        let shared = Arc::clone(&told);
        let painter = Painter {
            terminal,
            screen: None,
            away: false,
            board: Board::default(),
            heading,
            told: shared,
        };
        let thread = thread::Builder::new()
            .name("display".to_owned())
            .spawn(move || painter.paint(&messages))?;
        Ok(Self { messages: Some(sender), told, thread: Some(thread) })
    }

    /// Shows a reading.
    pub(super) fn show(&self, reading: Reading) {
        self.send(Message::Reading(reading));
    }

    /// Shows who makes the calls of a row.
    pub(super) fn show_callers(&self, callers: CallersOf) {
        self.send(Message::Callers(callers));
    }

    /// Whether the processes are on the screen.
    pub(super) fn shows_processes(&self) -> bool {
        self.told.shows_processes.load(Relaxed)
    }

    /// The selected row.
    pub(super) fn selected(&self) -> Option<Called> {
        *self.told.selected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the user wants to leave.
    pub(super) fn wants_to_leave(&self) -> bool {
        self.told.leave.load(Relaxed)
    }

    /// Gives the terminal back; returns when that is done.
    pub(super) fn leave_for_a_while(&self) {
        let (done, wait) = mpsc::channel();
        self.send(Message::Leave(done));
        // A terminal that takes nothing (Ctrl-S) must not keep this process from stopping.
        let _ = wait.recv_timeout(PATIENCE);
    }

    /// Takes the terminal again.
    pub(super) fn come_back(&self) {
        self.send(Message::ComeBack);
    }

    /// A thread that has ended has given the terminal back; the programs are traced all the same.
    fn send(&self, message: Message) {
        if let Some(messages) = &self.messages {
            let _ = messages.send(message);
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        drop(self.messages.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The terminal as the view wants it; as it was before when dropped, also in a panic.
struct Screen {
    terminal: Terminal<CrosstermBackend<File>>,
    _keys: Keys,
}

impl Screen {
    fn take(terminal: &File) -> io::Result<Self> {
        let keys = Keys::single(terminal)?;
        let backend = CrosstermBackend::new(terminal.try_clone()?);
        // A terminal that does not know its size has the usual one.
        let viewport = match crossterm::terminal::size() {
            Ok((1.., 1..)) => Viewport::Fullscreen,
            _ => Viewport::Fixed(Rect::new(0, 0, 80, 24)),
        };
        let terminal = Terminal::with_options(backend, TerminalOptions { viewport })?;
        let mut screen = Self { terminal, _keys: keys };
        // The other screen is empty at first, so nothing need be cleared.
        execute!(screen.terminal.backend_mut(), EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(self.terminal.backend_mut(), LeaveAlternateScreen, cursor::Show);
    }
}

struct Painter {
    terminal: File,
    screen: Option<Screen>,
    /// The terminal was given back for a while.
    away: bool,
    board: Board,
    heading: Heading,
    told: Arc<Told>,
}

impl Painter {
    fn paint(mut self, messages: &Receiver<Message>) {
        let mut changed = false;
        loop {
            let wait = if self.screen.is_some() { Duration::ZERO } else { GLANCE };
            let message = match messages.recv_timeout(wait) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let is_news = message.is_some();
            changed |= message.is_some_and(|message| self.hear(message));
            if is_news {
                continue;
            }
            match self.show(&mut changed) {
                Ok(()) => {}
                // A terminal that is gone shows nothing and needs nothing.
                Err(_) => return,
            }
        }
    }

    /// Takes a message in; says whether there is something new to draw.
    fn hear(&mut self, message: Message) -> bool {
        match message {
            Message::Reading(reading) => self.board.read(reading),
            Message::Callers(callers) => self.board.set_callers(callers),
            Message::Leave(done) => {
                self.screen = None;
                self.away = true;
                let _ = done.send(());
            }
            Message::ComeBack => self.away = false,
        }
        self.tell_shown();
        true
    }

    /// Draws what has changed, and answers a key. Without the terminal it waits to be let have it.
    fn show(&mut self, changed: &mut bool) -> io::Result<()> {
        if self.screen.is_none() {
            let nothing = self.board.at().is_zero();
            if self.away || nothing || !terminal::is_ours(&self.terminal) {
                return Ok(());
            }
            self.screen = Some(Screen::take(&self.terminal)?);
            *changed = true;
        }
        let Some(screen) = &mut self.screen else { return Ok(()) };
        if std::mem::take(changed) {
            let (board, heading) = (&self.board, &self.heading);
            screen.terminal.draw(|frame| screen::draw(frame, board, heading))?;
        }
        // Not by crossterm, which reads for ever from a terminal that is gone.
        terminal::wait_for_key(&self.terminal, GLANCE)?;
        if event::poll(Duration::ZERO)? {
            *changed |= self.answer(&event::read()?);
        }
        Ok(())
    }

    /// Does what an event asks for; says whether there is something new to draw.
    fn answer(&mut self, event: &Event) -> bool {
        let key = match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => key.code,
            Event::Resize(..) => return true,
            _ => return false,
        };
        let action = match key {
            KeyCode::Esc if self.board.shown().view() != View::Table => Action::Back,
            KeyCode::Char('q') | KeyCode::Esc => {
                self.told.leave.store(true, Relaxed);
                return false;
            }
            KeyCode::Up | KeyCode::Char('k') => Action::Up,
            KeyCode::Down | KeyCode::Char('j') => Action::Down,
            KeyCode::Home | KeyCode::Char('g') => Action::First,
            KeyCode::End | KeyCode::Char('G') => Action::Last,
            KeyCode::Char('s') => Action::Sort,
            KeyCode::Char('p' | ' ') => Action::Pause,
            KeyCode::Char('r') => Action::Reset,
            KeyCode::Char('c') => Action::Clocks,
            KeyCode::Char('?' | 'h') => Action::Help,
            KeyCode::Char('w') => Action::Processes,
            KeyCode::Enter => Action::Open,
            _ => return false,
        };
        self.board.act(action);
        self.tell_shown();
        true
    }

    fn tell_shown(&self) {
        let shown = self.board.shown();
        self.told.shows_processes.store(shown.view() == View::Processes, Relaxed);
        let selected = shown.selected().map(|line| line.key);
        *self.told.selected.lock().unwrap_or_else(PoisonError::into_inner) = selected;
    }
}
