//! `migrate`: migrates the database at `DATABASE_URL`, as its owner, to the newest schema. It also creates the roles of
//! `PROGRAMS_DATABASE_URL` and `READER_DATABASE_URL`, if set, and grants their privileges. Each variable may be in a
//! file: `…_FILE`.

use std::{env, fs};

use anyhow::{Context, Result, bail};

use crate::roles;

/// The program.
///
/// # Errors
/// The configuration is invalid, or the database could not be migrated.
#[tokio::main]
pub async fn start() -> Result<()> {
    let owner = setting("DATABASE_URL")?.context("DATABASE_URL is not set")?;
    crate::run(&owner).await?;
    println!("the schema is up to date");
    for (name, grants) in [("PROGRAMS_DATABASE_URL", roles::PROGRAMS), ("READER_DATABASE_URL", roles::READER)] {
        if let Some(url) = setting(name)? {
            roles::grant(&owner, &url, grants).await.context(name)?;
            println!("the role of {name} has exactly the privileges it needs");
        }
    }
    Ok(())
}

/// The value of the variable, or of the file named by the variable with `_FILE`.
fn setting(name: &str) -> Result<Option<String>> {
    let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let in_file = format!("{name}_FILE");
    match (set(name), set(&in_file)) {
        (Some(_), Some(_)) => bail!("both {name} and {in_file} are set; set only one of them"),
        (Some(url), None) => Ok(Some(url)),
        (None, Some(file)) => {
            let text = fs::read_to_string(&file).with_context(|| format!("{in_file}: {file}"))?;
            Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
        }
        (None, None) => Ok(None),
    }
}
