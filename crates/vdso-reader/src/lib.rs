//! Reading any vDSO image, the kernel's or ours: bytes in, facts out.
//!
//! [`Image::parse`] reads symbols, versions, segments and notes as programs do at run time, through the dynamic table.
//! [`maps`] and [`auxv`] give the address of an image in a process. This crate opens no file and makes no system call.

pub mod auxv;
mod error;
pub mod image;
pub mod maps;
mod parse;
pub mod text;
pub mod view;

pub use error::ImageError;
pub use image::{
    Binding, Class, Hex, Image, Machine, Note, Section, Segment, Symbol, SymbolKind, Version,
};

#[cfg(test)]
mod image_tests;
#[cfg(test)]
mod kernels_tests;

/// Tests the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
