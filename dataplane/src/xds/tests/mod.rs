mod bad_days;
mod flavours;
mod server;
mod sync;
