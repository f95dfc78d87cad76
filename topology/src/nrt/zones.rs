//! The object from its inputs.

use super::attributes;
use super::built::Built;
use super::inputs::Inputs;
use super::object::Body;

/// Builds the object. Whatever the input, this gives an answer that no scheduler stumbles over: what does not fit in is
/// left out and told as a note.
pub fn build(inputs: &Inputs<'_>) -> Built {
    let body = Body { attributes: attributes::of(inputs), zones: Vec::new() };
    Built { body, notes: Vec::new(), why: Vec::new() }
}
