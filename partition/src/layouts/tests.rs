//! What layouts does.
