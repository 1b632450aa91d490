//! `migrate`: brings the database at `DATABASE_URL`, or in the file `DATABASE_URL_FILE`, to the newest schema, and ends.

use std::{env, fs};

use anyhow::{Context, Result, bail};

#[tokio::main]
async fn main() -> Result<()> {
    let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let database_url = match (set("DATABASE_URL"), set("DATABASE_URL_FILE")) {
        (Some(_), Some(_)) => bail!("DATABASE_URL is set, and so is DATABASE_URL_FILE: one of them must go"),
        (Some(url), None) => url,
        (None, Some(file)) => {
            let text = fs::read_to_string(&file).with_context(|| format!("DATABASE_URL_FILE: {file}"))?;
            text.trim_end_matches(['\r', '\n']).to_owned()
        }
        (None, None) => bail!("DATABASE_URL is not set"),
    };
    migrations::run(&database_url).await?;
    println!("the schema is up to date");
    Ok(())
}
