//! Scales of axes: from a value to a place, linear or logarithmic, and where the ticks are.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;

/// Values beyond this are drawn at the end of the axis: sums and powers of them stay finite.
const GREATEST: f64 = 1e30;
/// The least value on a logarithmic axis.
const LEAST: f64 = 1e-30;
/// On an axis of [`Wish::Fitting`] from this quotient of largest and smallest value on.
const LOGARITHMIC_FROM: f64 = 15.0;

/// What kind of axis is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Linear, around the values.
    Linear,
    /// Linear, with zero on it.
    FromZero,
    /// The same, with ticks at whole numbers only.
    Whole,
    /// Logarithmic; values that are not positive are drawn at its low end.
    Logarithmic,
    /// Logarithmic if all values are positive and far apart, otherwise linear with zero.
    Fitting,
}

/// A scale. Places on it are numbers between `low` and `high`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    /// Whether places are decimal logarithms of values.
    pub logarithmic: bool,
    /// Place of the low end.
    pub low: f64,
    /// Place of the high end.
    pub high: f64,
    /// Places of the ticks.
    pub ticks: Vec<f64>,
}

impl Scale {
    /// A scale on which all `values` lie, with about `ticks` ticks; values that are not finite are
    /// left out. Without values it goes from 0 to 1.
    #[must_use]
    pub(crate) fn new(values: impl IntoIterator<Item = f64>, wish: Wish, ticks: u32) -> Scale {
        let values: Vec<f64> = values
            .into_iter()
            .filter(|v| v.is_finite())
            .map(|v| v.clamp(-GREATEST, GREATEST))
            .collect();
        let positive = values.iter().copied().filter(|v| *v > 0.0);
        let least_positive = positive.fold(f64::INFINITY, f64::min);
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let logarithmic = match wish {
            Wish::Linear | Wish::FromZero | Wish::Whole => false,
            Wish::Logarithmic => least_positive.is_finite(),
            Wish::Fitting => low > 0.0 && low.is_finite() && high / low >= LOGARITHMIC_FROM,
        };
        if values.is_empty() {
            Self::linear(0.0, 1.0, ticks)
        } else if wish == Wish::Whole {
            let mut scale = Self::linear_around(low.min(0.0), high.max(0.0), ticks);
            scale.ticks.retain(|tick| (tick - tick.round()).abs() < 1e-6);
            scale
        } else if logarithmic {
            Self::logarithmic(least_positive.max(LEAST), high.max(LEAST), ticks)
        } else if wish == Wish::Linear {
            Self::linear_around(low, high, ticks)
        } else {
            Self::linear_around(low.min(0.0), high.max(0.0), ticks)
        }
    }

    /// The place of a value, between the ends of the scale.
    #[must_use]
    pub(crate) fn place(&self, value: f64) -> f64 {
        let place = match (self.logarithmic, value > 0.0) {
            (false, _) => value,
            (true, true) => value.log10(),
            (true, false) => self.low,
        };
        if place.is_nan() { self.low } else { place.clamp(self.low, self.high) }
    }

    /// The value at a place.
    #[must_use]
    pub(crate) fn value(&self, place: f64) -> f64 {
        if self.logarithmic { 10.0_f64.powf(place) } else { place }
    }

    /// A linear scale with a little room at each end, none beside zero.
    fn linear_around(low: f64, high: f64, ticks: u32) -> Scale {
        let span = high - low;
        let room = if span > high.abs().max(low.abs()) * 1e-9 && span > 0.0 {
            span * 0.05
        } else {
            (high.abs() * 0.05).max(1e-9)
        };
        let low = if low == 0.0 { 0.0 } else { low - room };
        let high = if high == 0.0 && low < 0.0 { 0.0 } else { high + room };
        Self::linear(low, high, ticks)
    }

    fn linear(low: f64, high: f64, ticks: u32) -> Scale {
        let rough = (high - low) / f64::from(ticks.max(1));
        let power = 10.0_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power);
        let step = step.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(rough);
        let first = (low / step).ceil();
        let places = (0..=2 * ticks + 2).map(|n| (first + f64::from(n)) * step);
        let ticks = places.take_while(|place| *place <= high + step * 1e-6).collect();
        Scale { logarithmic: false, low, high, ticks }
    }

    fn logarithmic(low: f64, high: f64, ticks: u32) -> Scale {
        let (low, high) = (low.log10(), high.log10());
        let room = ((high - low) * 0.04).max(0.05);
        let (low, high) = (low - room, high + room);
        let candidates: [&[f64]; 3] = [&[1.0, 2.0, 3.0, 5.0, 7.0], &[1.0, 2.0, 5.0], &[1.0]];
        for mantissas in candidates {
            let places = log_places(low, high, mantissas, 1);
            let is_crowded = mantissas.len() > 3 && high - low > 1.0;
            if places.len() <= ticks as usize && places.len() >= 2 && !is_crowded {
                return Scale { logarithmic: true, low, high, ticks: places };
            }
        }
        let decades = log_places(low, high, &[1.0], 1);
        if decades.len() < 2 {
            let places = log_places(low, high, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], 1);
            let places = if places.len() < 2 { vec![low + room, high - room] } else { places };
            let every = places.len().div_ceil((ticks as usize).max(1));
            let ticks = places.into_iter().step_by(every).collect();
            return Scale { logarithmic: true, low, high, ticks };
        }
        let every = decades.len().div_ceil((ticks as usize).max(1));
        let ticks = log_places(low, high, &[1.0], every);
        Scale { logarithmic: true, low, high, ticks }
    }
}

/// For plotters, a scale is an axis of places with the ticks that were chosen here.
impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, pixels: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.low..self.high).map(place, pixels)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // Light lines and points of a mesh lie between the bold ones: none are wanted.
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Scale {
    fn format(place: &f64) -> String {
        format!("{place}")
    }
}

/// The places of `mantissas` in each `every`th decade between `low` and `high`.
fn log_places(low: f64, high: f64, mantissas: &[f64], every: usize) -> Vec<f64> {
    (-31..=31)
        .step_by(every)
        .flat_map(|decade| mantissas.iter().map(move |m| f64::from(decade) + m.log10()))
        .filter(|place| (low..=high).contains(place))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_linear_scale_has_round_ticks() {
        let scale = Scale::new([0.0, 9.0], Wish::FromZero, 5);
        assert_eq!(scale.ticks, [0.0, 2.0, 4.0, 6.0, 8.0]);
        let scale = Scale::new([-3.0, 4.0], Wish::Linear, 4);
        assert_eq!(scale.ticks, [-2.0, 0.0, 2.0, 4.0]);
    }

    #[test]
    fn a_logarithmic_scale_has_decades_where_there_are_many() {
        let scale = Scale::new([1.0, 1e6], Wish::Logarithmic, 8);
        assert_eq!(scale.ticks, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let scale = Scale::new([1e-9, 1e9], Wish::Logarithmic, 7);
        assert!(scale.ticks.len() <= 8 && scale.ticks.len() >= 4, "{scale:?}");
    }

    #[test]
    fn the_range_decides_where_it_may() {
        assert!(Scale::new([0.3, 220.0], Wish::Fitting, 6).logarithmic);
        assert!(!Scale::new([20.0, 220.0], Wish::Fitting, 6).logarithmic);
        assert!(!Scale::new([0.0, 220.0], Wish::Fitting, 6).logarithmic);
        assert!(!Scale::new([0.0, -1.0], Wish::Logarithmic, 6).logarithmic);
    }

    #[test]
    fn no_value_and_one_value_have_a_scale() {
        assert_eq!(Scale::new([], Wish::Logarithmic, 5).high, 1.0);
        for wish in [Wish::Linear, Wish::FromZero, Wish::Logarithmic, Wish::Fitting] {
            for value in [0.0, 5.0, -5.0, 1e300, 1e-300] {
                let scale = Scale::new([value, f64::NAN], wish, 5);
                assert!(scale.low < scale.high, "{value} {wish:?} {scale:?}");
                assert!(!scale.ticks.is_empty(), "{value} {wish:?} {scale:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn each_value_has_a_place_and_ticks_are_on_the_scale(
            values in prop::collection::vec(any::<f64>(), 0..20),
            kind in 0_usize..4,
            wanted in 1_u32..12,
        ) {
            let wish = [Wish::Linear, Wish::FromZero, Wish::Logarithmic, Wish::Fitting][kind];
            let scale = Scale::new(values.iter().copied(), wish, wanted);
            prop_assert!(scale.low < scale.high, "{scale:?}");
            prop_assert!(scale.low.is_finite() && scale.high.is_finite());
            let most = 2 * wanted as usize + 3;
            prop_assert!(scale.ticks.len() <= most.max(9), "{scale:?}");
            for value in values {
                let place = scale.place(value);
                prop_assert!((scale.low..=scale.high).contains(&place));
            }
        }
    }
}
