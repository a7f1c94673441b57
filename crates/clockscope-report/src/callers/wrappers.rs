//! Functions that only pass a call on, and functions that start programs and threads. They are not the lines
//! to change.
//!
//! The lists are short on purpose: a function that is missing here is shown, which does no harm; an entry too
//! many would hide the line to change.

use clockscope_model::callers::{CalledRow, FrameKind, FrameRow};
use clockscope_model::names::{self, file_name};
use clockscope_model::trace::Via;
use clockscope_text::foreign::Foreign;
use clockscope_text::lines::{cut_left, width};

/// Mark behind the name of a function without a frame of its own.
pub(super) const INLINED: &str = " (inlined)";
/// Beginnings of functions that ask for the time on behalf of their caller.
const WRAPPERS: [&str; 7] = [
    // Rust: Instant::now, SystemTime::now, elapsed, and the functions that they call.
    "std::time::, std::sys::time::, std::sys::pal::unix::time::, std::sys::unix::time::",
    // C++: steady_clock::now and system_clock::now of libstdc++ (_V2) and libc++.
    "std::chrono::, boost::chrono::, absl::GetCurrentTimeNanos, absl::Now",
    // Go: the package `time`, and the runtime's functions that call the vDSO for it.
    "time., runtime.nanotime, runtime.walltime, runtime.time_now",
    // HotSpot: System.nanoTime and System.currentTimeMillis.
    "os::javaTime, os::elapsed_counter, JVM_NanoTime, JVM_CurrentTimeMillis",
    // Java: Instant.now and others, by the names of their packages and classes.
    "java.lang.System., java.time., java.util.Date., java.util.Calendar., java.util.GregorianCalendar., \
     jdk.internal.misc.VM.getNanoTimeAdjustment",
    // .NET: DateTime.UtcNow, Stopwatch.GetTimestamp and others, without the type that they return.
    "System.DateTime::, System.DateTimeOffset::, System.Diagnostics.Stopwatch::, System.Environment::get_TickCount, \
     System.TimeProvider",
    // Node: process.hrtime, performance.now and the clock of timers, with the files of their scripts.
    "hrtime node:internal/process/, hrtimeBigInt node:internal/process/, now node:internal/perf/, \
     getLibuvNow node:internal/",
];
/// The C library's own functions that ask for the time: in a static program they are in the program's file.
const OF_C: [&str; 5] = ["gettimeofday", "time", "timespec_get", "ftime", "clock"];
/// Functions of runtimes, by the beginnings of their names: in a stack with functions of the runtime's
/// language, they only pass the call on.
const OF_V8: &str = "v8:: heap::base:: cppgc:: node:: uv_ Builtins_";
/// The files of a JVM itself.
const OF_JVM: [&str; 2] = ["libjvm.so", "libjava.so"];
/// The files of .NET itself.
const OF_DOTNET: [&str; 2] = ["libcoreclr.so", "libSystem.Native.so"];
/// Languages whose functions have no machine frames, with the beginnings of the files of their interpreters.
const INTERPRETERS: [(&str, &str); 6] = [
    ("Python", "libpython python"),
    ("Ruby", "libruby ruby"),
    ("Perl", "libperl perl"),
    ("PHP", "libphp php"),
    ("Lua", "liblua luajit libluajit lua"),
    // `beam.smp`. The program's functions are in its JIT compiler's code.
    ("Erlang", "beam"),
];
/// Parts of the paths of source files that belong to a library or a language, not to the program.
const LIBRARIES: &str = "/site-packages/ /dist-packages/ /lib/python /node_modules/ /pkg/mod/ /usr/local/go/src/ \
    /usr/lib/go- /.cargo/registry/ /rustc/ /usr/include/";
/// Folders of shared libraries that are not the program's.
const SHARED: &str = "/usr/lib/ /lib/ /usr/local/lib/";
/// Packages of the JDK.
const OF_JDK: &str = "java. javax. jdk. sun. com.sun.";
/// Folder of Python's own extensions in C.
const PYTHON_EXTENSIONS: &str = "/lib-dynload/";
/// Python's own functions that ask for the time on behalf of their caller, and the ends of their files.
const IN_PYTHON: [(&str, &str); 3] = [
    ("BaseEventLoop.time", "asyncio/base_events.py"),
    ("time", "asyncio/base_events.py"),
    ("Loop.time", "uvloop/loop.pyx"),
];
/// Functions of CPython with their names in Python: of the module `time`, and of `datetime`.
const PYTHON_CLOCKS: [(&str, &str); 3] =
    [("time_", "time."), ("datetime_datetime_", "datetime."), ("datetime_date_", "date.")];
/// Functions of HotSpot with their names in Java.
const JVM_CLOCKS: [(&str, &str); 3] = [
    ("os::javaTimeNanos", "System.nanoTime"),
    ("os::javaTimeMillis", "System.currentTimeMillis"),
    ("os::javaTimeSystemUTC", "Instant.now"),
];
/// Functions below the first one of the program: of the C library (glibc and musl), of Go and of Rust.
const STARTERS: &str = "_start _start_c start_thread clone __clone clone3 __clone3 __libc_start_main \
    __libc_start_main_impl __libc_start_call_main libc_start_main_stage2 \
    runtime.goexit runtime.goexit.abi0 runtime.main \
    __rust_try";
/// Functions of Rust's standard library below the first one of the program, by the beginnings of their names.
const RUST_STARTERS: &str = "std::rt::lang_start std::sys::backtrace::__rust_begin_short_backtrace \
    std::panicking:: std::panic::catch_unwind std::sys::pal::unix::thread:: std::sys::thread::unix:: \
    std::thread::Builder::spawn_unchecked core::ops::function::FnOnce::call_once";
/// Functions of HotSpot below the first one of the program, by the beginnings of their names.
const JVM_STARTERS: &str = "JavaCalls:: thread_entry JavaThread:: Thread::call_run thread_native_entry jni_ \
    invokeStaticMain JavaMain ThreadJavaMain";
/// The same of Node, from its loop of events to the first function of JavaScript.
const NODE_STARTERS: &str = "Builtins_JSEntry Builtins_AsyncFunctionAwaitResolveClosure \
    v8::Function::Call v8::internal:: node::InternalMakeCallback node::InternalCallbackScope:: \
    node::MakeCallback node::AsyncWrap::MakeCallback node::Environment:: uv_run uv__run_ \
    node::SpinEventLoop node::NodeMainInstance:: node::Start";

/// Whether `path` begins with one of `names`.
fn begins_with(path: &str, names: &str) -> bool {
    names.split(' ').any(|name| path.starts_with(name))
}

fn function_of(frame: &FrameRow) -> Option<&str> {
    frame.function.as_ref().map(Foreign::verbatim)
}

/// The path of the file that a frame's code is in; empty if it is not known.
fn module_of(frame: &FrameRow) -> &str {
    frame.module.as_ref().map_or("", Foreign::verbatim)
}

/// Whether this innermost frame is the C library's function for the call, which adds no information:
/// `clock_gettime` of libc below `clock_gettime`.
pub(super) fn is_same_call(frame: &FrameRow, called: &CalledRow) -> bool {
    let Some(function) = function_of(frame) else { return false };
    let mut plain = plain(function);
    for prefix in ["vdso_", "libc_", "kernel_"] {
        plain = plain.strip_prefix(prefix).unwrap_or(plain);
    }
    let plain = plain.strip_suffix("64").unwrap_or(plain);
    let name = called.name.strip_suffix("64").unwrap_or(&called.name);
    plain == name || (called.via == Via::Syscall && plain == "syscall")
}

/// File name of musl if it is not named after its loader.
const MUSL: &str = "libc.so";

/// Whether a frame belongs to the C library, the loader or the vDSO.
pub(crate) fn is_of_c_library(frame: &FrameRow) -> bool {
    const FILES: &str = "libc.so. libc-2. libpthread librt.so ld-linux ld-musl [vdso] libc.musl";
    let name = file_name(module_of(frame));
    name == MUSL || begins_with(name, FILES)
}

/// Whether a function asks for the time on behalf of its caller.
pub(crate) fn is_wrapper(frame: &FrameRow) -> bool {
    let Some(function) = function_of(frame) else { return false };
    let path = match (of_javascript(function).or_else(|| of_dotnet(function)), &frame.file) {
        (Some(name), _) => name.to_owned(),
        (None, Some(file)) if is_in(frame, "[javascript]") => format!("{function} {file}"),
        (None, Some(file)) if is_in(frame, "[python]") => {
            let file = file.verbatim();
            let is_it = |(own, end): &(&str, &str)| *own == function && file.ends_with(end);
            return IN_PYTHON.iter().any(is_it) || file.starts_with("<frozen importlib");
        }
        (None, _) if frame.kind == FrameKind::Native && OF_C.contains(&function) => return true,
        (None, _) => without_versions(&path_of(function)),
    };
    WRAPPERS.iter().flat_map(|names| names.split(", ")).any(|name| path.starts_with(name))
}

/// Whether a frame is in a module of this name, such as `[javascript]`: functions executed by V8.
pub(super) fn is_in(frame: &FrameRow, module: &str) -> bool {
    frame.module.as_ref().is_some_and(|name| *name == module)
}

/// A function of JavaScript by its name in V8's perf map, `JS:*name file:line:column`, without the mark of
/// the compiler.
fn of_javascript(function: &str) -> Option<&str> {
    Some(function.strip_prefix("JS:")?.trim_start_matches(['~', '^', '*', '+', '\'']))
}

/// A method of .NET by its name in a perf map, `int32 [Assembly] Name.Space.Type::Method(int32)[Tier1]`, from
/// its type on.
fn of_dotnet(function: &str) -> Option<&str> {
    let (_, method) = function.rsplit_once("] ").filter(|(before, _)| before.contains(" ["))?;
    (method.contains("::") && method.ends_with(']')).then_some(method)
}

/// Whether a function is in a language that a runtime executes.
fn is_managed(frame: &FrameRow) -> bool {
    is_in(frame, "[java]")
        || is_in(frame, "[javascript]")
        || is_in(frame, "[python]")
        || function_of(frame).is_some_and(|name| {
            of_javascript(name).is_some() || is_in(frame, "[jit]") && of_dotnet(name).is_some()
        })
}

/// Whether a frame belongs to a runtime's own machine code. `in_runtime`: the stack has functions of the
/// runtime's language.
fn is_of_runtime(frame: &FrameRow, in_runtime: bool) -> bool {
    let path = module_of(frame);
    let file = file_name(path);
    interpreter(frame).is_some()
        || in_runtime
            && (path.contains(PYTHON_EXTENSIONS)
                || OF_JVM.contains(&file)
                || OF_DOTNET.contains(&file)
                || begins_with(function_of(frame).unwrap_or_default(), OF_V8))
}

/// The language of the interpreter that a frame's machine code belongs to.
fn interpreter(frame: &FrameRow) -> Option<&'static str> {
    language_of(file_name(module_of(frame)))
}

/// The language that a file interprets, by its name.
pub(super) fn language_of(file: &str) -> Option<&'static str> {
    // `python3.11`, `libruby-3.1.so`, and not `perl_tool`.
    let goes_on = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_it =
        |start: &str| file.strip_prefix(start).is_some_and(|rest| !rest.starts_with(goes_on));
    INTERPRETERS.iter().find(|(_, files)| files.split(' ').any(is_it)).map(|(name, _)| *name)
}

/// A line of a stack: a frame, or a run of frames of a runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// The frame with this index.
    Frame(usize),
    /// A run of frames internal to a runtime, with the name to print for them.
    Runtime(String),
}

/// The lines of a stack (indices, the innermost first): successive frames of a runtime's own machine code
/// become one line.
pub(super) fn lines(stack: &[usize], frames: &[FrameRow]) -> Vec<Line> {
    let row = |index: &usize| frames.get(*index);
    let in_runtime = stack.iter().any(|index| row(index).is_some_and(is_managed));
    let is_folded =
        |index: &usize| row(index).is_some_and(|frame| is_of_runtime(frame, in_runtime));
    let mut lines = Vec::new();
    for run in stack.chunk_by(|a, b| is_folded(a) && is_folded(b)) {
        let rows: Vec<&FrameRow> = run.iter().filter_map(row).collect();
        let clock = rows.iter().find_map(|frame| python_clock(frame));
        match (run, clock) {
            (_, Some(clock)) => lines.push(Line::Runtime(clock)),
            ([only], None) if rows.iter().any(|row| row.function.is_some()) || !is_folded(only) => {
                lines.push(Line::Frame(*only));
            }
            _ => {
                let name = rows.first().and_then(|frame| frame.module.as_ref());
                let name = name.map_or("runtime", |module| file_name(module.verbatim()));
                lines.push(Line::Runtime(format!("[{name}]")));
            }
        }
    }
    lines
}

/// The name in Python of a frame's function, if that is a clock function: `time.perf_counter`.
fn python_clock(frame: &FrameRow) -> Option<String> {
    if interpreter(frame) != Some("Python") && !module_of(frame).contains(PYTHON_EXTENSIONS) {
        return None;
    }
    let function = function_of(frame)?;
    PYTHON_CLOCKS.iter().find_map(|(own, name)| {
        let rest = function.strip_prefix(own).filter(|rest| *rest != "exec")?;
        Some(format!("{name}{rest}"))
    })
}

/// The name in Java of a frame's function, if that is a clock function: `System.nanoTime`.
fn jvm_clock(frame: &FrameRow) -> Option<String> {
    let (file, function) = (file_name(module_of(frame)), function_of(frame)?);
    let is_it = |(own, _): &&(&str, &str)| OF_JVM.contains(&file) && function.starts_with(own);
    JVM_CLOCKS.iter().find(is_it).map(|(_, name)| (*name).to_owned())
}

/// Number of frames (indices, the innermost first) below the program's first function: functions that start
/// programs and threads, and the runtime that executes the program.
pub(super) fn starters(stack: &[usize], frames: &[FrameRow]) -> usize {
    let in_runtime = stack.iter().any(|index| frames.get(*index).is_some_and(is_managed));
    let starts = |index: usize| {
        let frame = frames.get(index);
        frame.is_some_and(|frame| is_starter(frame) || (in_runtime && starts_managed(frame)))
    };
    let mut count = 0;
    while count < stack.len() {
        let at = stack.len() - 1 - count;
        // The C `main` written by Rust's runtime is not the program's.
        let is_main = |index: usize| frames.get(index).and_then(function_of) == Some("main");
        let is_runtimes_main = is_main(stack[at]) && at > 0 && starts(stack[at - 1]);
        if !starts(stack[at]) && !is_runtimes_main {
            break;
        }
        count += 1;
    }
    count
}

fn starts_managed(frame: &FrameRow) -> bool {
    let Some(function) = function_of(frame) else { return false };
    let path = path_of(function);
    !is_managed(frame) && (begins_with(&path, JVM_STARTERS) || begins_with(&path, NODE_STARTERS))
}

fn is_starter(frame: &FrameRow) -> bool {
    // A frame below the program's first function, in a C library without symbols.
    let Some(function) = function_of(frame) else { return is_of_c_library(frame) };
    let name = function.split('@').next().unwrap_or(function);
    let path = path_of(function);
    STARTERS.split(' ').any(|starter| starter == name)
        || begins_with(&path, RUST_STARTERS)
        || (path.contains(" as core::ops::function::FnOnce<") && path.ends_with(">::call_once"))
}

/// A name of the C library without leading underscores, `GI_` and the version.
fn plain(function: &str) -> &str {
    let name = function.split('@').next().unwrap_or(function).trim_start_matches('_');
    name.strip_prefix("GI_").map_or(name, |name| name.trim_start_matches('_'))
}

/// The path of a demangled function, without template arguments, parameters, and the return type that C++
/// writes in front of templates.
fn path_of(function: &str) -> String {
    // Rust: `<std::time::Instant as core::ops::Sub>::sub` is a function of the type.
    if let Some(inner) = function.strip_prefix('<') {
        let own = |name: &str| ["core::", "std::", "alloc::"].iter().any(|c| name.starts_with(c));
        return match inner.split_once(" as ") {
            // A trait of the program makes the function the program's code, for any type.
            Some((_, of)) if !own(of) => of.to_owned(),
            _ => inner.to_owned(),
        };
    }
    let mut depth = 0_usize;
    let mut path = String::with_capacity(function.len());
    for c in function.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 => break,
            _ if depth > 0 => {}
            ' ' => path.clear(),
            c => path.push(c),
        }
    }
    path
}

/// A function's name in at most `room` columns. A long name of C++ loses its parameters, template arguments and return
/// type before its beginning.
pub(super) fn fitted(function: &str, room: usize) -> String {
    let is_cpp = function.contains('(') && !function.starts_with('<');
    if width(function) <= room || !is_cpp {
        return cut_left(function, room);
    }
    let name = function.strip_suffix(INLINED).unwrap_or(function);
    let rest = &function[name.len()..];
    let path = path_of(name);
    let name = if path.is_empty() { name } else { &path };
    cut_left(&format!("{name}{rest}"), room)
}

/// The path without the version in Abseil's namespace: `absl::lts_20230802::Now`.
fn without_versions(path: &str) -> String {
    match path.strip_prefix("absl::lts_").and_then(|rest| rest.split_once("::")) {
        Some((_, rest)) => format!("absl::{rest}"),
        None => path.to_owned(),
    }
}

/// The innermost frame of the program itself, if the stack shows it: outside of libraries, if there is such a frame.
pub(super) fn own_frame<'a>(
    frames: &[&'a FrameRow],
    called: &CalledRow,
    complete: bool,
) -> Option<&'a FrameRow> {
    let outer = &frames[is_the_call(frames, called)..];
    // A complete stack without such a frame is a thread of the C library itself; a cut one may have a caller.
    let own = outer.get(of_program(outer));
    // If the stack is cut inside a runtime, the caller is unknown.
    if own.is_some_and(|frame| !complete && is_of_runtime(frame, true))
        || unread_language(frames, called).is_some()
    {
        return None;
    }
    own.or_else(|| outer.first().filter(|_| complete)).copied()
}

/// The clock function that the program itself calls, unless it is the C library's: `time.perf_counter`,
/// `System.nanoTime`, `std::chrono::...::now`; the library's function, if one reads the clock for the program.
pub(super) fn asked_through(frames: &[&FrameRow], called: &CalledRow) -> Option<String> {
    let outer = &frames[is_the_call(frames, called)..];
    let (passed, own) = (passed_through(outer), of_program(outer));
    if own > passed {
        return Some(names::frame(outer[own - 1]));
    }
    let inner = outer.get(..passed).filter(|inner| inner.len() < outer.len())?;
    let known = inner.iter().find_map(|frame| python_clock(frame).or_else(|| jvm_clock(frame)));
    known.or_else(|| {
        let asked = inner.last().filter(|frame| is_managed(frame) || is_wrapper(frame))?;
        asked.function.is_some().then(|| names::frame(asked))
    })
}

/// The language of an interpreter that makes the call, if none of its functions is in the stack, and no function of the
/// program in machine code.
pub(super) fn unread_language(frames: &[&FrameRow], called: &CalledRow) -> Option<&'static str> {
    let outer = &frames[is_the_call(frames, called)..];
    let own = outer.get(of_program(outer));
    let is_own = own.is_some_and(|frame| !is_passive(frame));
    let language = outer.iter().find_map(|frame| interpreter(frame));
    language.filter(|_| !is_own && !outer.iter().any(|frame| is_managed(frame)))
}

/// Index of the program's innermost frame: the first one outside of libraries, or else the first one behind those that
/// only pass the call on.
fn of_program(outer: &[&FrameRow]) -> usize {
    let passed = passed_through(outer);
    let in_runtime = outer.iter().any(|frame| is_managed(frame));
    let is_own = |(at, frame): (usize, &&FrameRow)| {
        // Behind a library's function of a language, machine code is the runtime's.
        let may_be = at == 0 || !in_runtime || is_managed(frame);
        may_be && !is_passive(frame)
    };
    let behind = outer.get(passed..).unwrap_or_default();
    passed + behind.iter().enumerate().position(is_own).unwrap_or(0)
}

/// Whether a frame is not the program's own: that of a library, an interpreter, or the start of a thread.
fn is_passive(frame: &FrameRow) -> bool {
    is_of_library(frame)
        || is_starter(frame)
        || is_of_c_library(frame)
        || interpreter(frame).is_some()
}

/// Whether a frame belongs to a library, by its source file or the file of its code. The program itself is none, wherever
/// it is installed.
fn is_of_library(frame: &FrameRow) -> bool {
    let file = frame.file.as_ref().map_or("", Foreign::verbatim);
    let (function, module) = (function_of(frame).unwrap_or_default(), module_of(frame));
    if is_in(frame, "[java]") {
        return begins_with(function, OF_JDK);
    }
    // A launcher that a package has installed, as `gunicorn`, has no functions.
    let is_launcher = is_in(frame, "[python]")
        && function == "<module>"
        && file
            .rsplit_once('/')
            .is_some_and(|(folder, name)| folder.ends_with("/bin") && !name.contains('.'));
    is_launcher
        || LIBRARIES.split(' ').any(|part| file.contains(part))
        || file_name(module).contains(".so") && begins_with(module, SHARED)
}

/// 1 if the first frame is the call itself.
fn is_the_call(frames: &[&FrameRow], called: &CalledRow) -> usize {
    usize::from(frames.first().is_some_and(|frame| is_same_call(frame, called)))
}

/// Number of innermost frames that belong to the C library, a language's clock or a runtime.
fn passed_through(frames: &[&FrameRow]) -> usize {
    let in_runtime = frames.iter().any(|frame| is_managed(frame));
    let passes_on = |frame: &&&FrameRow| {
        is_of_c_library(frame) || is_wrapper(frame) || is_of_runtime(frame, in_runtime)
    };
    frames.iter().take_while(passes_on).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str) -> FrameRow {
        FrameRow { function: Some(function.into()), ..FrameRow::default() }
    }

    #[test]
    fn long_names_of_cpp_lose_what_is_not_the_name() {
        let long = "std::vector<int, std::allocator<int> > shop::Cart::sum<int>(std::vector<int> const&) (inlined)";
        assert_eq!(fitted(long, 200), long);
        assert_eq!(fitted(long, 40), "shop::Cart::sum (inlined)");
        assert_eq!(fitted("<app::Stamp as core::ops::Fn(u8)>::call", 12), "…(u8)>::call");
        assert_eq!(fitted("com.example.Clock.now", 10), "…Clock.now");
    }

    #[test]
    fn the_librarys_own_function_is_the_call_itself() {
        let called =
            |via, name: &str| CalledRow { via, name: name.to_owned(), ..CalledRow::default() };
        let time = called(Via::Vdso, "clock_gettime");
        for name in [
            "clock_gettime",
            "__clock_gettime",
            "clock_gettime@@GLIBC_2.17",
            "__GI___clock_gettime",
            "__vdso_clock_gettime",
            "__clock_gettime64",
        ] {
            assert!(is_same_call(&frame(name), &time), "{name}");
        }
        for name in ["gettimeofday", "my_clock_gettime", "clock", "syscall", "read"] {
            assert!(!is_same_call(&frame(name), &time), "{name}");
        }
        assert!(is_same_call(&frame("syscall"), &called(Via::Syscall, "futex")));
        assert!(is_same_call(&frame("__libc_pwrite64"), &called(Via::Syscall, "pwrite64")));
        assert!(!is_same_call(&FrameRow::default(), &time));
    }

    #[test]
    fn the_c_library_is_known_by_its_file() {
        let in_file = |path: &str| FrameRow { module: Some(path.into()), ..FrameRow::default() };
        for path in [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib/ld-musl-x86_64.so.1",
            "[vdso]",
            "/opt/libc.so",
        ] {
            assert!(is_of_c_library(&in_file(path)), "{path}");
        }
        for path in ["/usr/lib/libcrypto.so.3", "/usr/bin/libc", "/opt/libcapi.so"] {
            assert!(!is_of_c_library(&in_file(path)), "{path}");
        }
    }

    /// A frame of a stack in `stacks.txt`: `FUNCTION | MODULE | SOURCE FILE`, with `-` for a function without a name.
    fn frame_of(row: &str) -> FrameRow {
        let mut words = row.split(" | ").map(Foreign::from);
        FrameRow {
            function: words.next().filter(|name| *name != "-"),
            module: words.next(),
            file: words.next(),
            ..FrameRow::default()
        }
    }

    /// A stack with `>` at the program's own frame, and below it, after `=`, what the frames alone do not show.
    fn told(rows: &[&str]) -> Vec<String> {
        let called = CalledRow { name: "clock_gettime".to_owned(), ..CalledRow::default() };
        let frames: Vec<FrameRow> = rows.iter().map(|row| frame_of(row)).collect();
        let refs: Vec<&FrameRow> = frames.iter().collect();
        let stack: Vec<usize> = (0..frames.len()).collect();
        let own = |complete| own_frame(&refs, &called, complete).map(std::ptr::from_ref);
        let is_own = |frame| own(true) == Some(std::ptr::from_ref(frame));
        let marked = |(row, frame)| format!("{} {row}", if is_own(frame) { '>' } else { ' ' });
        let mut told: Vec<String> = rows.iter().zip(&frames).map(marked).collect();
        if own(false) != own(true) {
            told.push("= not known if the stack is cut".to_owned());
        }
        told.extend(asked_through(&refs, &called).map(|name| format!("= asks {name}")));
        told.extend(unread_language(&refs, &called).map(|name| format!("= unread {name}")));
        let lines = lines(&stack, &frames);
        if lines.iter().any(|line| matches!(line, Line::Runtime(_))) {
            let name = |line| match line {
                Line::Frame(index) => names::frame(&frames[index]),
                Line::Runtime(name) => name,
            };
            let names = Vec::from_iter(lines.into_iter().map(name));
            told.push(format!("= lines {}", names.join(", ")));
        }
        let starters = starters(&stack, &frames);
        told.extend((starters > 0).then(|| format!("= starters {starters}")));
        told
    }

    #[test]
    fn in_every_language_the_line_is_the_users() {
        for stack in include_str!("stacks.txt").trim_end().split("\n\n") {
            let expected: Vec<&str> = stack.lines().skip(1).collect();
            let frames = expected.iter().take_while(|line| !line.starts_with('='));
            let rows: Vec<&str> = frames.map(|line| &line[2..]).collect();
            assert_eq!(told(&rows), expected, "{stack}");
        }
        assert_eq!(told(&[]), [""; 0]);
    }

    #[test]
    fn wrappers_are_known_in_their_languages() {
        for row in include_str!("wrappers.txt").lines() {
            let (kind, name) = row.split_once(' ').unwrap();
            assert_eq!(is_wrapper(&frame(name)), kind == "wrapper", "{name}");
        }
        let dotnet = frame_of("void [shop] Shop.DateTime::Now()[Tier0] | [jit]");
        assert!(!is_wrapper(&dotnet));
    }
}
