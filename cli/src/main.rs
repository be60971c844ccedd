//! The `weft` binary.
#![forbid(unsafe_code)]

mod args;
mod output;

fn main() {
    match args::Cli::from_process() {
        Ok(c) => println!("{c:?}"),
        Err(e) => e.exit(),
    }
}
