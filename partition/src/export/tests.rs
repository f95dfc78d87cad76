//! What export does.
