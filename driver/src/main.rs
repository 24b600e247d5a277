//! The tool `jeton`.

fn main() {}
