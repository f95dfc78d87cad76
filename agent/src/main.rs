//! The binary `gpulet`.
mod config;
fn main() {
    let _ = config::Source::new(None, config::Overrides::default()).read();
}
