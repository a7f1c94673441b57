//! Addresses of the vDSO functions that a program in this process would call. They are in the image that
//! `AT_SYSINFO_EHDR` names; under another clockscope that is not the kernel's image.

use vdso_reader::Image;

use super::loaded_vdso::{self, LoadError};

/// The functions that the image exports: symbol name, and address in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Functions(Vec<(String, usize)>);

/// Why there are no functions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFunctions {
    /// The kernel gave this process no vDSO.
    #[error("this process has no vDSO (no AT_SYSINFO_EHDR; the kernel was started with vdso=0?)")]
    NoImage,
    /// There is one but it could not be read.
    #[error("this process's vDSO cannot be read: {0}")]
    Unreadable(String),
}

impl Functions {
    /// The functions of this process's own image.
    ///
    /// # Errors
    ///
    /// When there is no image, or none that can be read.
    pub fn own() -> Result<Self, NoFunctions> {
        let unreadable = |why: &dyn std::fmt::Display| NoFunctions::Unreadable(why.to_string());
        let loaded = loaded_vdso::load(None).map_err(|error| match error {
            LoadError::NoVdso => NoFunctions::NoImage,
            error => unreadable(&error),
        })?;
        let image = Image::parse(&loaded.bytes).map_err(|error| unreadable(&error))?;
        let inside = image
            .symbols
            .iter()
            .filter(|symbol| symbol.defined && symbol.offset < loaded.bytes.len() as u64);
        let address = |symbol: &vdso_reader::Symbol| {
            Some((symbol.name.clone(), usize::try_from(loaded.base + symbol.offset).ok()?))
        };
        Ok(Self(inside.filter_map(address).collect()))
    }

    /// The address of the function with this symbol; `None` if the image does not export it.
    pub(super) fn address(&self, symbol: &str) -> Option<usize> {
        self.0.iter().find(|(name, _)| name == symbol).map(|(_, address)| *address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vdso_call::Call;

    #[test]
    fn the_usual_functions_lie_in_the_image() {
        let functions = Functions::own().unwrap();
        for call in [Call::Gettimeofday, Call::ClockGetres] {
            assert!(functions.address(&call.symbol()).is_some(), "{call:?} in {functions:?}");
        }
    }

    #[test]
    fn no_image_is_said_in_words() {
        assert!(NoFunctions::NoImage.to_string().contains("no vDSO"));
    }
}
