//! Exports the functions of `host::interpose` to libraries that look them up at run time, as the crate getrandom does.

fn main() {
    println!("cargo:rustc-link-arg=-rdynamic");
}
