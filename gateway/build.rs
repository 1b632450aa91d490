//! A new `.sql` file changes no source file, so cargo has to be told to look.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
