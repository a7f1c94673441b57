//! Reading any vDSO image, the kernel's or ours: bytes in, facts out.
//!
//! [`Image::parse`] reads symbols, versions, segments and notes the way a program finds them at run
//! time, through the dynamic table; [`maps`] and [`auxv`] find out where an image lies in a process.
//! Nothing here opens a file or calls the kernel.

pub mod auxv;
mod error;
pub mod image;
pub mod maps;
mod parse;
pub mod text;
pub mod view;

pub use error::ImageError;
pub use image::{
    Binding, Class, Hex, Image, Machine, Note, Section, Segment, SegmentKind, Symbol, SymbolKind,
    Version,
};

#[cfg(test)]
mod image_tests;
#[cfg(test)]
mod kernels_tests;

/// The example of the README is tried.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
