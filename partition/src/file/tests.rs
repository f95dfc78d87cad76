//! What file does.
