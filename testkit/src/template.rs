//! The data of a Postgres with a migrated database, made once for all test processes: their servers start from copies.

use std::{
    fs::{self, File},
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, ensure};
use sqlx::Connection as _;

use crate::{
    postgres::{self, Postgres, admin, execute},
    process::target_folder,
    roles::Roles,
    tools,
};

/// The migrated database in it, with the roles of the programs. Databases are created from it.
pub(crate) const DATABASE: &str = "template_migrated";
/// Roles belong to the whole server, so all databases of a test Postgres share this password.
pub(crate) const ROLES_PASSWORD: &str = "of the roles: in tests";

/// What else decides what is in it, besides the migrations.
const SOURCES: [&str; 4] = [
    include_str!("template.rs"),
    include_str!("postgres.rs"),
    include_str!("roles.rs"),
    include_str!("../../migrations/src/roles.rs"),
];

/// Starts a Postgres in `directory`, which does not exist, from a copy.
///
/// # Errors
/// As for [`Postgres::start`], or when the migrations fail.
pub(crate) async fn start(directory: &Path, options: postgres::Options) -> Result<Postgres> {
    let folder = postgres::home(&target_folder()?.join("test-postgres"))?;
    fs::create_dir_all(&folder)?;
    {
        let lock = File::create(folder.join("lock"))?;
        lock.lock()?;
        let made = made(&folder).await?;
        let home = postgres::home(directory)?;
        fs::create_dir_all(&home)?;
        let status = Command::new("cp").args(["-a", "--reflink=auto"]).args([&made.join("."), &home]).status();
        ensure!(status.context("cannot start cp")?.success(), "cannot copy {}", made.display());
    }
    Postgres::start(directory, options).await
}

#[expect(clippy::disallowed_methods, reason = "of this machine, as Postgres sees it")]
fn today() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / (24 * 60 * 60))
}

/// The folder of the data, which this makes unless it exists.
async fn made(folder: &Path) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    let programs = tools::postgres_programs()?.program("postgres").get_program().to_owned();
    // The migrations create partitions for the coming months.
    (SOURCES, programs, migrations::checksums().collect::<Vec<_>>(), today()?).hash(&mut hasher);
    let made = folder.join(format!("migrated-{:016x}", hasher.finish()));
    if !made.exists() {
        // Templates of other migrations, or not finished.
        for old in fs::read_dir(folder)? {
            let old = old?;
            if old.file_name().as_encoded_bytes().starts_with(b"migrated-") {
                fs::remove_dir_all(old.path())?;
            }
        }
        let unfinished = folder.join("migrated-unfinished");
        let mut postgres = Postgres::start(&unfinished, postgres::Options::default()).await?;
        postgres.ensure_database(DATABASE).await?;
        let url = postgres.url(DATABASE);
        migrations::run(&url).await?;
        Roles::of(&url, ROLES_PASSWORD)?.grant().await?;
        hash_passwords_with_md5(&postgres).await?;
        postgres.stop().await?;
        fs::rename(unfinished, &made)?;
    }
    Ok(made)
}

/// Tests open thousands of connections, and to check a password by SCRAM costs Postgres as much processor time as all
/// else of a new connection.
async fn hash_passwords_with_md5(postgres: &Postgres) -> Result<()> {
    let mut admin = admin(&postgres.url("postgres")).await?;
    let own = postgres.password();
    let set = format!(
        r"SET password_encryption = 'md5';
          ALTER ROLE CURRENT_USER PASSWORD '{own}';
          DO $$ DECLARE role text; BEGIN
              FOR role IN SELECT rolname FROM pg_roles WHERE rolname LIKE 'payments\_%' LOOP
                  EXECUTE format('ALTER ROLE %I PASSWORD %L', role, '{ROLES_PASSWORD}');
              END LOOP;
          END $$"
    );
    execute(&mut admin, set).await?;
    Ok(admin.close().await?)
}
