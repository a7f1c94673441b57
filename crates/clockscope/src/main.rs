//! clockscope: the cost of reading the clock, and of calling the kernel, for a Linux program.

fn main() -> std::process::ExitCode {
    clockscope::main()
}
