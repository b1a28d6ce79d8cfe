//! The units of Grafana that the dashboards use.

use serde::Deserialize;

/// By Grafana's id of it. One that is not here is an error where the dashboard is read.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Unit {
    Short,
    /// Operations in a second.
    Ops,
    /// Requests in a second.
    Reqps,
    S,
    Bytes,
}

impl Unit {
    /// How `value` is shown.
    pub(super) fn label(self, value: f64) -> String {
        let (one, suffix) = self.scale(value);
        let rounded = format!("{:.2}", value / one);
        let short = rounded.trim_end_matches('0').trim_end_matches('.');
        format!("{short}{suffix}")
    }

    /// What `value` is shown in multiples of, and how they are called.
    pub(super) fn scale(self, value: f64) -> (f64, &'static str) {
        const KIB: f64 = 1024.0;
        let scales: &[(f64, &str)] = match self {
            Self::Short => &[(1e6, " Mil"), (1e3, " K"), (1.0, "")],
            Self::Ops => &[(1e3, "K ops/s"), (1.0, " ops/s")],
            Self::Reqps => &[(1e3, "K req/s"), (1.0, " req/s")],
            Self::S => &[
                (3600.0, " hours"),
                (60.0, " mins"),
                (1.0, " s"),
                (1e-3, " ms"),
                (1e-6, " µs"),
            ],
            Self::Bytes => &[
                (KIB * KIB * KIB, " GiB"),
                (KIB * KIB, " MiB"),
                (KIB, " KiB"),
                (1.0, " B"),
            ],
        };
        // Nothing is shown in the unit itself.
        let shown = if value > 0.0 { value } else { 1.0 };
        // What a label stands at is computed, and may miss a round number by the last digit.
        let fitting = scales.iter().find(|(one, _)| shown * (1.0 + 1e-9) >= *one);
        fitting.or(scales.last()).copied().unwrap_or((1.0, ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_grafana_shows_them() {
        for (unit, value, shown) in [
            (Unit::Short, 0.0, "0"),
            (Unit::Short, 0.25, "0.25"),
            (Unit::Short, 520.0, "520"),
            (Unit::Short, 1500.0, "1.5 K"),
            (Unit::Short, 2e6, "2 Mil"),
            (Unit::Ops, 80.0, "80 ops/s"),
            (Unit::Ops, 0.5, "0.5 ops/s"),
            (Unit::Reqps, 2000.0, "2K req/s"),
            (Unit::S, 0.999_999_999_999, "1 s"),
            (Unit::S, 0.000_25, "250 µs"),
            (Unit::S, 0.008, "8 ms"),
            (Unit::S, 30.0, "30 s"),
            (Unit::S, 300.0, "5 mins"),
            (Unit::S, 0.0, "0 s"),
            (Unit::Bytes, 12_582_912.0, "12 MiB"),
            (Unit::Bytes, 100.0, "100 B"),
        ] {
            assert_eq!(unit.label(value), shown);
        }
    }
}
