//! What is logged, and in which form.

use std::fmt;
use std::str::FromStr;

use tracing_subscriber::filter::{LevelFilter, Targets};

/// From which level on messages are logged: one level for all, and others for parts of the program.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LogLevel {
    text: String,
    targets: Targets,
}

/// What logs whole answers that it cannot read, such as the page of a proxy, each time anew. The errors that come of them
/// say what matters.
const TALKATIVE: &str = "kube_client::client";

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Why a text is not a log level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a log level; expected {}, and PART=LEVEL after commas, such as info,gpulet_nvml=debug", LEVELS.join(", "))]
pub(crate) struct ParseLogLevelError {
    text: String,
}

impl FromStr for LogLevel {
    type Err = ParseLogLevelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // `Targets` itself would take a mistyped level for the name of a part.
        let good = |directive: &str| match directive.split_once('=') {
            None => LEVELS.contains(&directive),
            Some((part, level)) => !part.is_empty() && LEVELS.contains(&level),
        };
        let targets = text.split(',').all(good).then(|| text.parse().ok()).flatten();
        targets
            .map(|targets| Self { text: text.to_owned(), targets })
            .ok_or_else(|| ParseLogLevelError { text: text.chars().take(64).collect() })
    }
}

impl LogLevel {
    /// The filter that it stands for.
    pub(crate) fn targets(&self) -> Targets {
        let targets = self.targets.clone();
        if self.text.contains("kube_client") {
            targets
        } else {
            targets.with_target(TALKATIVE, LevelFilter::OFF)
        }
    }
}

impl Default for LogLevel {
    fn default() -> Self {
        Self { text: "info".to_owned(), targets: Targets::new().with_default(LevelFilter::INFO) }
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// In which form messages are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// To the journal where standard error leads there, as text on a terminal, as JSON elsewhere.
    #[default]
    Auto,
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let formats = [Self::Auto, Self::Text, Self::Json];
        let format = formats.into_iter().find(|format| format.to_string() == text);
        format.ok_or_else(|| {
            format!(
                "`{}` is not a log format; expected auto, text or json",
                text.chars().take(64).collect::<String>()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_checked() {
        for good in ["info", "off", "warn,gpulet_nvml=debug", "gpulet=trace"] {
            assert_eq!(good.parse::<LogLevel>().unwrap().to_string(), good);
        }
        for bad in ["", "inof", "info,", "=debug", "gpulet=loud", "INFO "] {
            assert!(bad.parse::<LogLevel>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_default_is_what_its_word_says() {
        assert_eq!(LogLevel::default(), "info".parse().unwrap());
    }

    #[test]
    fn answers_of_others_are_logged_only_where_that_is_asked_for() {
        let logs = |text: &str| {
            let level: LogLevel = text.parse().unwrap();
            level.targets().would_enable(TALKATIVE, &tracing::Level::WARN)
        };
        assert!(!logs("info") && !logs("trace") && logs("info,kube_client=warn"));
    }

    #[test]
    fn formats_are_checked() {
        for format in [LogFormat::Auto, LogFormat::Text, LogFormat::Json] {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert!("yaml".parse::<LogFormat>().is_err());
    }
}
