//! Real servers from the distribution's packages, on loopback or a Unix socket. Each has its own directory, and the
//! test ends it.

use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

use super::attaching::{signal, wait_until};
use super::conversation::Conversation;
use super::running::{Killed, children_of, finish, untraced};
use super::{installed_or_skip, or_skip, root_or_skip};

/// A running server.
pub(crate) struct Server {
    child: Killed,
    /// The signal for an orderly end.
    ended_by: &'static str,
    /// The TCP port, or 0.
    pub(crate) port: u16,
    /// The server's files; removed with this value.
    directory: TempDir,
}

impl Server {
    #[track_caller]
    fn start(
        command: &[OsString],
        directory: TempDir,
        port: u16,
        ended_by: &'static str,
        mut is_ready: impl FnMut() -> bool,
    ) -> Self {
        let mut process = Command::new(&command[0]);
        process.args(&command[1..]).stdin(Stdio::null()).stdout(Stdio::null());
        let child = process.stderr(Stdio::null()).spawn().expect("start a server");
        let server = Self { child: Killed(child), ended_by, port, directory };
        wait_until("the server is ready", &mut is_ready);
        server
    }

    /// The server's process id.
    pub(crate) fn pid(&self) -> i32 {
        self.child.0.id().try_into().expect("is a pid")
    }

    /// The server's child processes, sorted.
    pub(crate) fn children(&self) -> Vec<i32> {
        children_of(self.pid())
    }

    /// The directory with the server's files.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Ends the server, and checks that it ends well.
    #[track_caller]
    pub(crate) fn ends_well(mut self) {
        signal(self.ended_by, self.pid());
        let status = self.child.0.wait().expect("wait for a server");
        assert_eq!(status.code(), Some(0), "the server's end: {status:?}");
    }
}

fn directory() -> TempDir {
    tempfile::tempdir_in("/tmp").expect("make a temporary directory")
}

/// A TCP port of loopback that is free now.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("find a free port");
    listener.local_addr().expect("has an address").port()
}

fn accepts(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// redis-server without persistence.
#[track_caller]
pub(crate) fn redis() -> Option<Server> {
    let program = installed_or_skip(&["/usr/bin/redis-server"])?;
    installed_or_skip(&["/usr/bin/redis-cli"])?;
    let (place, port) = (directory(), free_port());
    let options = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"];
    let command = words![program, "--port", port.to_string(), options, place.path()];
    Some(Server::start(&command, place, port, "TERM", || accepts(port)))
}

/// The content of the file that nginx serves.
pub(crate) fn nginx_body() -> String {
    "every byte of this is looked at. ".repeat(200)
}

/// nginx with two workers and one file.
#[track_caller]
pub(crate) fn nginx() -> Option<Server> {
    let program = installed_or_skip(&["/usr/sbin/nginx"])?;
    installed_or_skip(&["/usr/bin/curl"])?;
    let (place, port) = (directory(), free_port());
    fs::create_dir(place.path().join("html")).expect("make a directory");
    fs::write(place.path().join("html/index.html"), nginx_body()).expect("write a page");
    let user = if super::is_root() { "user root;" } else { "" };
    let text = include_str!("../../benches/peers/servers/nginx.conf").replace("USER", user);
    let text = text.replace("WORKERS", "2").replace("PORT", &port.to_string());
    let configuration = place.path().join("nginx.conf");
    fs::write(&configuration, text).expect("write a configuration");
    let command = words![program, "-p", place.path(), "-c", configuration];
    Some(Server::start(&command, place, port, "QUIT", || accepts(port)))
}

/// A database cluster and its server, run as the user `postgres`, which needs root.
pub(crate) struct Postgres {
    programs: PathBuf,
    /// The server.
    pub(crate) server: Server,
}

/// Words that run a command as `postgres`, because the server refuses root.
pub(crate) fn as_postgres() -> [&'static str; 5] {
    ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]
}

/// The directory with PostgreSQL's newest programs.
pub(crate) fn postgres_programs() -> Option<PathBuf> {
    root_or_skip()?;
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let programs = versions.map(|version| version.path().join("bin"));
    let found = programs.filter(|path| path.join("postgres").exists()).max();
    or_skip(found, "no server in /usr/lib/postgresql")
}

/// Makes a cluster in a new directory.
#[track_caller]
pub(crate) fn postgres_cluster(programs: &Path) -> TempDir {
    let place = directory();
    let given = untraced(&words!["chown", "postgres", place.path()]);
    assert!(given.status.success(), "{given:?}");
    let initdb = words![as_postgres(), programs.join("initdb"), "-D", place.path().join("data")];
    let rest = ["-U", "postgres", "-A", "trust", "--no-sync", "--locale=C"];
    let made = untraced(&words![initdb, rest]);
    assert!(made.status.success(), "{made:?}");
    place
}

/// PostgreSQL on a Unix socket.
#[track_caller]
pub(crate) fn postgres() -> Option<Postgres> {
    let programs = postgres_programs()?;
    let place = postgres_cluster(&programs);
    let socket = place.path().to_owned();
    let server = words![programs.join("postgres"), "-D", socket.join("data"), "-k", socket];
    let options =
        ["listen_addresses=", "fsync=off", "jit=off", "autovacuum=off", "restart_after_crash=off"];
    let command = words![as_postgres(), server, options.map(|option| ["-c", option])];
    let ready = words!["pg_isready", "-q", "-h", socket, "-U", "postgres"];
    let is_ready = || untraced(&ready).status.success();
    let server = Server::start(&command, place, 0, "INT", is_ready);
    Some(Postgres { programs, server })
}

impl Postgres {
    /// psql as a conversation, and the process id of its backend.
    #[track_caller]
    pub(crate) fn session(&self) -> (Conversation, i32) {
        let psql = ["psql", "-X", "-q", "-A", "-t", "-U", "postgres", "-h"];
        let mut session = Conversation::start_silent(&words![psql, self.server.directory()]);
        session.say("select pg_backend_pid();");
        let pid = session.line().trim().parse().expect("a pid");
        (session, pid)
    }

    /// Runs a client program of PostgreSQL to its end.
    #[track_caller]
    pub(crate) fn client(&self, program: &str, arguments: &[&str]) -> Output {
        finish(self.start_client(program, arguments))
    }

    /// Starts a client program of PostgreSQL.
    #[track_caller]
    pub(crate) fn start_client(&self, program: &str, arguments: &[&str]) -> Child {
        let mut command = Command::new(self.programs.join(program));
        command.arg("-h").arg(self.server.directory()).args(["-U", "postgres"]).args(arguments);
        command.arg("postgres").stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(Stdio::piped()).spawn().expect("start a client")
    }
}
