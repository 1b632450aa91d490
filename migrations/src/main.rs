//! `migrate`: brings the database at `DATABASE_URL`, or in the file `DATABASE_URL_FILE`, to the newest schema, and ends.

use std::{env, fs};

use anyhow::{Context, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let database_url = match env::var("DATABASE_URL_FILE") {
        Ok(file) => {
            fs::read_to_string(&file).with_context(|| format!("DATABASE_URL_FILE: {file}"))?.trim_end().to_owned()
        }
        Err(_) => env::var("DATABASE_URL").context("DATABASE_URL is not set")?,
    };
    migrations::run(&database_url).await?;
    println!("the schema is up to date");
    Ok(())
}
