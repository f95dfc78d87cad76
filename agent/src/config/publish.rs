//! Where the NodeResourceTopology object goes.

use clap::ValueEnum;

/// Where the NodeResourceTopology object goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Publish {
    /// To the API server where there is access to one, else into the file
    #[default]
    Auto,
    /// To the API server; never into the file
    Always,
    /// Into the file; the API server is never asked for anything
    Never,
}

impl std::str::FromStr for Publish {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        <Self as ValueEnum>::from_str(text, false).map_err(|_| {
            format!("`{}` is not auto, always or never", text.chars().take(64).collect::<String>())
        })
    }
}
