//! The library of C: its header, and the library as other programs meet it.

mod header;
mod installed;
mod page_file;
mod page_layout;
mod prefix;
mod preload;
