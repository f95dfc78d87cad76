//! The driver's C interface, made safe to call: all `unsafe` of this crate is below here.
//!
//! - [`library`]: loading, initialising and shutting down
//! - [`symbol`]: the symbols that are called, each with its C type
//! - [`calls`]: one method per shape of a C function; every call is tracked and counted
//! - [`changing`]: the calls that change a GPU
//! - [`handle`]: what the driver hands out
//! - [`field`]: values of `nvmlDeviceGetFieldValues`
//! - [`event_set`]: waiting for events
//! - [`leave`]: ending the process under a call that hangs

pub(crate) mod calls;
pub(crate) mod changing;
pub(crate) mod event_set;
pub(crate) mod field;
pub(crate) mod handle;
pub(crate) mod leave;
pub(crate) mod library;
pub(crate) mod plain;
pub(crate) mod symbol;
