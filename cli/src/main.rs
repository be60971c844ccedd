//! The `weft` binary.

fn main() {}
