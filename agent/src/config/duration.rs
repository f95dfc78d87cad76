//! Durations as people write them: `500ms`, `1s`, `1m30s`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A duration in the configuration file or on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span(pub(crate) Duration);

const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a duration; expected whole numbers with units h, m, s or ms, such as 500ms, 10s or 1m30s"
)]
pub(crate) struct ParseSpanError {
    text: String,
}

impl FromStr for Span {
    type Err = ParseSpanError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| ParseSpanError { text: text.chars().take(64).collect() })
    }
}

fn parse(text: &str) -> Option<Span> {
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at_checked(digits)?;
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at_checked(letters)?;
        let (_, milliseconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
        total = number.parse::<u64>().ok()?.checked_mul(*milliseconds)?.checked_add(total)?;
        rest = after;
    }
    (!text.is_empty()).then(|| Span(Duration::from_millis(total)))
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if rest == 0 {
            return f.write_str("0s");
        }
        for (name, milliseconds) in UNITS {
            let number = rest / milliseconds;
            rest %= milliseconds;
            if number > 0 {
                write!(f, "{number}{name}")?;
            }
        }
        Ok(())
    }
}

impl Span {
    /// A check that a duration lies between two others.
    pub(crate) fn between(
        least: &'static str,
        most: &'static str,
    ) -> impl Fn(Self) -> Result<Duration, String> {
        move |span| {
            let bounds = least.parse::<Self>().ok().zip(most.parse::<Self>().ok());
            match bounds {
                Some((low, high)) if (low..=high).contains(&span) => Ok(span.0),
                _ => Err(format!("`{span}` is not between {least} and {most}")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_read_and_print_as_people_write_them() {
        for (text, milliseconds) in
            [("500ms", 500), ("1s", 1000), ("1m30s", 90_000), ("2h", 7_200_000), ("0s", 0)]
        {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.0, Duration::from_millis(milliseconds));
            assert_eq!(span.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in [
            "",
            "5",
            "s",
            "1.5s",
            "-1s",
            "1 s",
            "1d",
            "99999999999999999999s",
            "18446744073709551615h",
            "1sé",
        ] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }

    #[test]
    fn bounds_are_told() {
        let check = Span::between("100ms", "1m");
        assert_eq!(check("1m".parse().unwrap()), Ok(Duration::from_secs(60)));
        assert_eq!(check("99ms".parse().unwrap()), Err("`99ms` is not between 100ms and 1m".to_owned()));
    }

    proptest! {
        #[test]
        fn printing_and_parsing_agree(milliseconds in 0u64..1_000_000_000) {
            let span = Span(Duration::from_millis(milliseconds));
            prop_assert_eq!(span.to_string().parse::<Span>().unwrap(), span);
        }

        #[test]
        fn any_text_parses_or_is_refused(text in "[0-9hmsé .-]{0,12}") {
            let _ = text.parse::<Span>();
        }
    }
}
