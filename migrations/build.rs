//! Makes cargo rebuild when a `.sql` file is added.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
