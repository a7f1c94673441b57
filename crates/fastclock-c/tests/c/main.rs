//! The C library: its header, and the library as programs use it.

mod header;
mod installed;
mod page_file;
mod page_layout;
mod prefix;
mod preload;
