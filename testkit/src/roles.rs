//! The roles that the programs log in as, besides the owner of a database; see [`migrations::roles`].

use anyhow::{Context, Result};
use migrations::roles;
use url::Url;

use crate::process::Environment;

/// The database URL of each role.
#[derive(Clone, Debug)]
pub struct Roles {
    /// The owner of the database: runs migrations and reads rows in tests.
    pub owner: String,
    /// api, worker, scheduler and `ctl`.
    pub programs: String,
    /// The card gateway.
    pub gateway: String,
    /// Read-only access.
    pub reader: String,
}

impl Roles {
    /// The URLs of all roles for the database at `owner`, with one password.
    ///
    /// # Errors
    /// When `owner` is not a URL that can hold a user name.
    pub fn of(owner: &str, password: &str) -> Result<Self> {
        let role = |name: &str| {
            let mut url = Url::parse(owner).context("the URL of the database is invalid")?;
            let set = url.set_username(name).and_then(|()| url.set_password(Some(password)));
            set.ok().context("the URL of the database has no host")?;
            Ok::<_, anyhow::Error>(url.into())
        };
        Ok(Self {
            owner: owner.to_owned(),
            programs: role("payments_programs")?,
            gateway: role("payments_gateway")?,
            reader: role("payments_reader")?,
        })
    }

    /// For a deployment without roles: every program connects as the owner.
    #[must_use]
    pub fn owner_only(owner: &str) -> Self {
        let [owner, programs, gateway, reader] = [(); 4].map(|()| owner.to_owned());
        Self { owner, programs, gateway, reader }
    }

    /// Creates the roles and grants the rights that the unified API needs; `gateway migrate` grants the gateway's.
    ///
    /// # Errors
    /// When Postgres rejects a statement.
    pub async fn grant(&self) -> Result<()> {
        roles::grant(&self.owner, &self.programs, roles::PROGRAMS).await?;
        roles::grant(&self.owner, &self.reader, roles::READER).await?;
        roles::grant(&self.owner, &self.gateway, &[]).await
    }

    /// The database URLs for the programs and for `ctl`.
    pub(crate) fn program_environment(&self) -> Environment {
        environment(&[("DATABASE_URL", &self.programs), ("GATEWAY_DATABASE_URL", &self.gateway)])
    }

    /// The database URLs for `migrate` and `gateway migrate`.
    pub(crate) fn migration_environment(&self) -> Environment {
        if self.programs == self.owner {
            return environment(&[("DATABASE_URL", &self.owner)]);
        }
        environment(&[
            ("DATABASE_URL", &self.owner),
            ("PROGRAMS_DATABASE_URL", &self.programs),
            ("READER_DATABASE_URL", &self.reader),
            ("GATEWAY_DATABASE_URL", &self.gateway),
        ])
    }
}

fn environment(urls: &[(&str, &String)]) -> Environment {
    urls.iter().map(|(name, url)| ((*name).to_owned(), (*url).clone())).collect()
}
