//! The thread that draws on the terminal and reads keys from it.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use clockscope_report::top::reading::Reading;
use clockscope_report::top::screen::Screen;
use clockscope_sys::terminal::{self, Keys};

/// Wait for a key before the next look for something to draw.
const GLANCE: Duration = Duration::from_millis(50);
/// Wait for the display thread to give the terminal back before this process stops.
const PATIENCE: Duration = Duration::from_secs(1);
/// Control sequences that enter the alternate screen and hide the cursor, and undo both (`console_codes(4)`,
/// xterm's control sequences).
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
const LEAVE: &[u8] = b"\x1b[?1049l\x1b[?25h";
const ESCAPE: u8 = 0x1b;

enum Message {
    Reading(Reading),
    /// Gives the terminal back, then sends on the channel.
    Leave(Sender<()>),
    /// Takes the terminal again.
    ComeBack,
}

/// The live view on the terminal, until it is dropped.
pub(super) struct Display {
    /// `None` once the thread is to end.
    messages: Option<Sender<Message>>,
    wants_to_leave: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Display {
    /// Starts the thread. The thread takes the screen when there is a first reading to show.
    ///
    /// # Errors
    ///
    /// When there is no terminal, or the thread cannot be started.
    pub(super) fn start(screen: Screen) -> io::Result<Self> {
        let terminal = terminal::controlling()?;
        let (sender, messages) = mpsc::channel();
        let wants_to_leave = Arc::new(AtomicBool::new(false));
        let leave = Arc::clone(&wants_to_leave);
        let painter = Painter { terminal, taken: None, away: false, screen, leave };
        let thread = thread::Builder::new()
            .name("display".to_owned())
            .spawn(move || painter.paint(&messages))?;
        Ok(Self { messages: Some(sender), wants_to_leave, thread: Some(thread) })
    }

    /// Shows a reading.
    pub(super) fn show(&self, reading: Reading) {
        self.send(Message::Reading(reading));
    }

    /// Whether the user has pressed a key to leave.
    pub(super) fn wants_to_leave(&self) -> bool {
        self.wants_to_leave.load(Relaxed)
    }

    /// Gives the terminal back; waits at most [`PATIENCE`] for that.
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

    /// Sending fails if the thread has ended and given the terminal back; tracing goes on without it.
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

/// The terminal in the view's mode. Dropping this restores the terminal, also during a panic.
struct Taken {
    terminal: File,
    _keys: Keys,
}

impl Taken {
    fn take(terminal: &File) -> io::Result<Self> {
        let keys = Keys::single(terminal)?;
        let mut taken = Self { terminal: terminal.try_clone()?, _keys: keys };
        taken.terminal.write_all(ENTER)?;
        Ok(taken)
    }

    fn draw(&mut self, screen: &Screen) -> io::Result<()> {
        let (columns, rows) = terminal::size(&self.terminal);
        let lines = screen.draw(columns, rows).join("\r\n");
        // Writes from the top left corner and erases the old lines.
        self.terminal.write_all(format!("\x1b[H\x1b[J{lines}").as_bytes())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let _ = self.terminal.write_all(LEAVE);
    }
}

struct Painter {
    terminal: File,
    taken: Option<Taken>,
    /// Whether the terminal is given back for a while.
    away: bool,
    screen: Screen,
    leave: Arc<AtomicBool>,
}

impl Painter {
    /// Draws and reads keys, until the channel closes or the terminal fails.
    fn paint(mut self, messages: &Receiver<Message>) {
        loop {
            let wait = if self.taken.is_some() { Duration::ZERO } else { GLANCE };
            let done = match messages.recv_timeout(wait) {
                Ok(Message::Reading(reading)) => {
                    self.screen.read(reading);
                    self.show()
                }
                Ok(Message::Leave(done)) => {
                    (self.taken, self.away) = (None, true);
                    let _ = done.send(());
                    Ok(())
                }
                Ok(Message::ComeBack) => {
                    self.away = false;
                    Ok(())
                }
                Err(RecvTimeoutError::Timeout) if self.taken.is_some() => self.wait_for_key(),
                Err(RecvTimeoutError::Timeout) => Ok(()),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if done.is_err() {
                return;
            }
        }
    }

    /// Draws, if the view has the terminal or may take it now.
    fn show(&mut self) -> io::Result<()> {
        if self.taken.is_none() && !self.away && terminal::is_ours(&self.terminal) {
            self.taken = Some(Taken::take(&self.terminal)?);
        }
        self.taken.as_mut().map_or(Ok(()), |taken| taken.draw(&self.screen))
    }

    fn wait_for_key(&self) -> io::Result<()> {
        let keys = terminal::keys(&self.terminal, GLANCE)?;
        // Escape alone leaves. Arrow keys and the like begin with the same byte.
        if keys.contains(&b'q') || keys == [ESCAPE] {
            self.leave.store(true, Relaxed);
        }
        Ok(())
    }
}
