//! Which program this is.

use std::sync::OnceLock;

use gpulet_exporter::BuildInfo;

/// What `--version` says after the name.
pub(crate) fn version() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let BuildInfo { version, revision, rustc } = info();
        let known = |text: String| if text.is_empty() { "unknown".to_owned() } else { text };
        format!("{version} (revision {}, rustc {})", known(revision), known(rustc))
    })
}

/// Version, commit and compiler.
pub(crate) fn info() -> BuildInfo {
    BuildInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision: env!("GPULET_BUILD_REVISION").to_owned(),
        rustc: env!("GPULET_BUILD_RUSTC").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_knows_its_compiler() {
        let info = info();
        assert!(info.rustc.starts_with(|c: char| c.is_ascii_digit()), "{info:?}");
        assert!(info.revision.bytes().all(|b| b.is_ascii_hexdigit()), "{info:?}");
        assert!(version().starts_with(env!("CARGO_PKG_VERSION")));
    }
}
