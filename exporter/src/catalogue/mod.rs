//! Every metric, declared once.
