//! What resolve does.
