//! What overrides does.
