//! What happens with what someone else has changed.

/// What happens with GPUs that were as declared, and that someone else has divided otherwise since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Drift {
    /// It is told.
    #[default]
    Report,
    /// It is changed back.
    Repair,
}

impl std::str::FromStr for Drift {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "report" => Ok(Self::Report),
            "repair" => Ok(Self::Repair),
            _ => Err(format!("`{}` is not report or repair", text.chars().take(64).collect::<String>())),
        }
    }
}
