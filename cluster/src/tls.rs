//! What TLS is made of.

/// Makes ring the provider of cryptography for the whole process, before anything speaks TLS. Whoever did so before did the
/// same: there is no other in the program.
pub(crate) fn provide() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}
