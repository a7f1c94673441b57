//! Colours of the pictures: what plotters draws in, and what the page puts in their place.
//!
//! plotters writes fixed colours into the SVG. They are those of a light page; the style sheet of
//! the page replaces each by a variable, by attribute, so that a dark page has its own. Hues are
//! those of Okabe and Ito, which people who do not see all colours can tell apart, made darker on
//! light and lighter on dark ground until each has a contrast of 3 to 1 or more.
//!
//! # References
//!
//! Okabe and Ito, Color Universal Design, 2008. WCAG 2.2, criteria 1.4.3 and 1.4.11.

use plotters::style::RGBColor;

/// A colour with a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    /// Text, and marks that must be seen first.
    Ink,
    /// Text of less weight: labels of axes.
    Muted,
    /// Lines of the grid.
    Grid,
    /// What does not count: rejected batches, ideal lines.
    Faint,
    /// Series 1.
    Blue,
    /// Series 2.
    Green,
    /// Series 3.
    Vermillion,
    /// Series 4.
    Purple,
    /// Series 5.
    Orange,
    /// Series 6.
    Sky,
}

/// All of them: colour, its hexadecimal form on light ground, the same on dark ground, and the
/// name of its variable.
const ALL: [(Colour, u32, u32, &str); 10] = [
    (Colour::Ink, 0x1B_1D_21, 0xEC_EE_F1, "ink"),
    (Colour::Muted, 0x54_58_60, 0xB4_B9_C2, "muted"),
    (Colour::Grid, 0xDD_DF_E3, 0x3A_3F_48, "grid"),
    (Colour::Faint, 0x8B_8F_97, 0x7F_86_92, "faint"),
    (Colour::Blue, 0x00_66_A8, 0x5D_B7_EF, "blue"),
    (Colour::Green, 0x00_80_60, 0x35_C8_9B, "green"),
    (Colour::Vermillion, 0xC4_50_00, 0xF7_8C_4A, "vermillion"),
    (Colour::Purple, 0x9A_48_82, 0xE2_9C_C6, "purple"),
    (Colour::Orange, 0xA8_6C_00, 0xF0_B4_33, "orange"),
    (Colour::Sky, 0x2A_86_BC, 0x9A_D4_F6, "sky"),
];

/// Colours of series whose order is all that tells them apart.
const SERIES: [Colour; 6] =
    [Colour::Blue, Colour::Vermillion, Colour::Green, Colour::Purple, Colour::Orange, Colour::Sky];

impl Colour {
    /// The colour of series number `index`, from 0; after the last the first follows.
    #[must_use]
    pub(crate) fn of_series(index: usize) -> Colour {
        SERIES[index % SERIES.len()]
    }

    /// The colour of a route; the same on all pages.
    #[must_use]
    pub(crate) fn of_route(route: &str) -> Colour {
        match route {
            "libc" => Colour::Blue,
            "vdso" => Colour::Green,
            "syscall" => Colour::Vermillion,
            "tsc" => Colour::Purple,
            _ => Colour::Orange,
        }
    }

    /// What plotters draws in.
    #[must_use]
    pub(crate) fn rgb(self) -> RGBColor {
        let [_, red, green, blue] = self.entry().1.to_be_bytes();
        RGBColor(red, green, blue)
    }

    fn entry(self) -> &'static (Colour, u32, u32, &'static str) {
        ALL.iter().find(|entry| entry.0 == self).unwrap_or(&ALL[0])
    }
}

/// The variables of the style sheet, for light or for dark ground.
#[must_use]
pub(crate) fn variables(dark: bool) -> String {
    ALL.iter()
        .map(|(_, on_light, on_dark, name)| {
            format!("--{name}:#{:06X};", if dark { on_dark } else { on_light })
        })
        .collect()
}

/// The rules that put the variables in the place of the colours that plotters wrote.
#[must_use]
pub(crate) fn rules() -> String {
    ALL.iter()
        .map(|(_, hex, _, name)| {
            format!(
                "svg [fill=\"#{hex:06X}\"]{{fill:var(--{name})}}\
                 svg [stroke=\"#{hex:06X}\"]{{stroke:var(--{name})}}\n"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance, WCAG 2.2.
    fn luminance(hex: u32) -> f64 {
        let [_, red, green, blue] = hex.to_be_bytes();
        let linear = |channel: u8| {
            let share = f64::from(channel) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
    }

    fn contrast(a: u32, b: u32) -> f64 {
        let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
        if a > b { a / b } else { b / a }
    }

    #[test]
    fn colours_stand_out_from_their_ground() {
        for (colour, light, dark, _) in ALL {
            let least = match colour {
                Colour::Grid => 1.2,
                Colour::Ink | Colour::Muted => 4.5,
                _ => 3.0,
            };
            assert!(contrast(light, 0xFF_FF_FF) >= least, "{colour:?} on light");
            assert!(contrast(dark, 0x16_18_1D) >= least, "{colour:?} on dark");
        }
    }

    #[test]
    fn each_colour_has_its_own_code() {
        for (index, entry) in ALL.iter().enumerate() {
            assert!(ALL[..index].iter().all(|other| other.1 != entry.1 && other.3 != entry.3));
            assert_eq!(entry.0.entry().3, entry.3);
        }
        assert_eq!(Colour::Blue.rgb(), RGBColor(0x00, 0x66, 0xA8));
        assert_eq!(rules().matches("var(--").count(), 2 * ALL.len());
    }
}
