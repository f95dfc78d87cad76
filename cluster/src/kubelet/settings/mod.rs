//! The kubelet's settings, as the kubelet comes to them: defaults, then its configuration file, then its drop-ins, then
//! its flags (source: the kubelet's own `server.go`; what of it differs between versions stands in `docs/kubelet.md`).

mod document;
mod fields;
mod flags;
mod quantity;
#[cfg(test)]
mod tests;

use std::error::Error;

use gpulet_inventory::kubelet::{KubeletFile, KubeletFiles, KubeletSettings};
use serde_json::Value;

use super::configz::{Configz, ConfigzError};
use document::Document;
use fields::Given;

pub use document::DocumentError;
pub use fields::FieldError;
pub use flags::FlagError;

/// Why the settings are not known.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A file is no configuration of a kubelet.
    #[error(
        "{path} is no configuration of a kubelet: {source}; correct it, the kubelet will not start with it either"
    )]
    File {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: DocumentError,
    },
    /// A flag cannot be understood.
    #[error(transparent)]
    Flag(#[from] FlagError),
    /// A field cannot be understood.
    #[error("the kubelet's settings in {place} cannot be understood")]
    Field {
        /// Where it was found.
        place: String,
        /// Why.
        #[source]
        source: FieldError,
    },
    /// The kubelet did not tell them.
    #[error(transparent)]
    Configz(#[from] ConfigzError),
    /// Neither files nor the kubelet itself tell them.
    #[error(
        "the kubelet's settings are not known: {files}; and the kubelet itself was asked in vain: {configz}"
    )]
    Nowhere {
        /// What is wrong with the files.
        files: String,
        /// What is wrong with the kubelet's answer.
        #[source]
        configz: Box<SettingsError>,
    },
    /// The files do not tell them, and the kubelet was not to be asked.
    #[error(
        "the kubelet's settings are not known: {files}; let gpulet ask the kubelet, which takes `get` on `nodes/configz`"
    )]
    FilesOnly {
        /// What is wrong with the files.
        files: String,
    },
}

impl SettingsError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::File { .. } => "MalformedFile",
            Self::Flag(_) => "MalformedFlag",
            Self::Field { source: FieldError::MemoryUnknown { .. }, .. } => "MemoryUnknown",
            Self::Field { .. } => "MalformedField",
            Self::Configz(error) => error.reason(),
            Self::Nowhere { .. } | Self::FilesOnly { .. } => "SettingsUnknown",
        }
    }
}

/// The settings: of the kubelet's files where those are to be had, else of the kubelet's own account.
///
/// `files` are what was found of them, or why they were not. `memory_bytes` is the memory of the whole machine, of which
/// an eviction threshold may be a part.
///
/// # Errors
/// If neither way leads to them; the error has both reasons.
pub async fn settings(
    files: Result<&KubeletFiles, &str>,
    configz: Option<&Configz>,
    memory_bytes: Option<u64>,
) -> Result<KubeletSettings, SettingsError> {
    let files = match files.map(|files| of_files(files, memory_bytes)) {
        Ok(Ok(settings)) => return Ok(settings),
        Ok(Err(error)) => chain(&error),
        Err(why) => why.to_owned(),
    };
    let Some(configz) = configz else { return Err(SettingsError::FilesOnly { files }) };
    let told = match configz.read().await {
        Ok(told) => of_configz(&told.body, memory_bytes, &told.place),
        Err(error) => Err(error.into()),
    };
    told.map_err(|error| SettingsError::Nowhere { files, configz: Box::new(error) })
}

/// The settings of a kubelet that starts with these files and arguments.
///
/// # Errors
/// A file, flag or field that a kubelet could not use either.
pub fn of_files(files: &KubeletFiles, memory_bytes: Option<u64>) -> Result<KubeletSettings, SettingsError> {
    let parse = |file: &KubeletFile| {
        Document::parse(&file.bytes).map_err(|source| SettingsError::File { path: file.path.clone(), source })
    };
    let mut document = Document::default();
    if let Some(config) = &files.config {
        document = parse(config)?;
        document.default_thresholds();
    }
    for file in &files.drop_ins {
        document.merge(parse(file)?);
    }
    let decided = flags::apply(&files.arguments, &mut document)?;
    let place = place(files, decided.flags);
    let given = Given { memory_bytes, ignore_eviction: decided.ignore_eviction };
    match fields::settings(&document, given) {
        Ok(settings) => Ok(KubeletSettings { source: place, ..settings }),
        Err(source) => Err(SettingsError::Field { place, source }),
    }
}

/// The settings in the kubelet's own account of them, the body of `/configz`; `place` says where that was.
///
/// # Errors
/// A body that is no such account.
pub fn of_configz(
    body: &[u8],
    memory_bytes: Option<u64>,
    place: &str,
) -> Result<KubeletSettings, SettingsError> {
    #[derive(serde::Deserialize)]
    struct Told {
        kubeletconfig: serde_json::Map<String, Value>,
    }
    let told: Told = serde_json::from_slice(body)
        .map_err(|source| ConfigzError::Garbled { place: place.to_owned(), source })?;
    let given = Given { memory_bytes, ignore_eviction: false };
    match fields::settings(&Document(told.kubeletconfig), given) {
        Ok(settings) => Ok(KubeletSettings { source: place.to_owned(), ..settings }),
        Err(source) => Err(SettingsError::Field { place: place.to_owned(), source }),
    }
}

/// An error with all of its causes.
fn chain(error: &dyn Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// `/var/lib/kubelet/config.yaml, 2 drop-ins and 1 flag`.
fn place(files: &KubeletFiles, flags: usize) -> String {
    let counted = |number: usize, thing: &str| match number {
        0 => None,
        1 => Some(format!("1 {thing}")),
        _ => Some(format!("{number} {thing}s")),
    };
    let config = files.config.as_ref().map_or("the kubelet's defaults", |config| config.path.as_str());
    let mut parts = vec![config.to_owned()];
    parts.extend(counted(files.drop_ins.len(), "drop-in"));
    parts.extend(counted(flags, "flag"));
    match parts.as_slice() {
        [before @ .., last] if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => parts.concat(),
    }
}
