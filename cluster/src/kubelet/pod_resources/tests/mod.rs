mod calls;
mod conversion;
mod server;
