//! Enums of which each variant has a number that stays, and words.

/// Defines such an enum with the list of its variants and the words of each, which it is shown as.
macro_rules! numbered {
    (
        $(#[$about:meta])* pub enum $enum:ident;
        $(#[$listed:meta])* pub const ALL;
        $(#[$said:meta])* pub const fn $words:ident;
        $($(#[$meaning:meta])* $variant:ident = $number:literal $(, $doc:ident =)? $text:literal,)*
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $enum {
            $($(#[$meaning])* $(#[doc($doc = $text)])? $variant = $number,)*
        }

        impl $enum {
            $(#[$listed])*
            pub const ALL: [Self; [$($number),*].len()] = [$(Self::$variant),*];

            $(#[$said])*
            pub const fn $words(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl core::fmt::Display for $enum {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.$words())
            }
        }
    };
}

pub(crate) use numbered;
