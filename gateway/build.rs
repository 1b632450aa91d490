//! A new `.sql` file changes no source file, so cargo must be told to watch the folder.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
