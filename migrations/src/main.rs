//! `migrate`: brings the database at `DATABASE_URL` to the newest schema, and ends.

use std::env;

use anyhow::{Context, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let database_url = env::var("DATABASE_URL").context("DATABASE_URL is not set")?;
    migrations::run(&database_url).await?;
    println!("the schema is up to date");
    Ok(())
}
