//! The roles that the programs log in as, beside the owner of a database; see [`migrations::roles`].

use anyhow::{Context, Result};
use migrations::roles;
use url::Url;

use crate::process::Environment;

/// How each of them gets into one database.
#[derive(Clone, Debug)]
pub struct Roles {
    /// Of the database: it migrates, and tests look at rows through it.
    pub owner: String,
    /// Of api, worker, scheduler and `ctl`.
    pub programs: String,
    /// Of the card gateway.
    pub gateway: String,
    /// Of whoever only looks.
    pub reader: String,
}

impl Roles {
    /// The roles of the database at `owner`, all with one password.
    ///
    /// # Errors
    /// When `owner` is no URL with a user.
    pub fn of(owner: &str, password: &str) -> Result<Self> {
        let role = |name: &str| {
            let mut url = Url::parse(owner).context("the URL of the database")?;
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

    /// Of a deployment that has no roles yet: everybody is the owner.
    #[must_use]
    pub fn owner_alone(owner: &str) -> Self {
        let [owner, programs, gateway, reader] = [(); 4].map(|()| owner.to_owned());
        Self { owner, programs, gateway, reader }
    }

    /// Makes them, and grants what those of the unified API need; `gateway migrate` grants the gateway's.
    ///
    /// # Errors
    /// When Postgres refuses.
    pub async fn grant(&self) -> Result<()> {
        roles::grant(&self.owner, &self.programs, roles::PROGRAMS).await?;
        roles::grant(&self.owner, &self.reader, roles::READER).await?;
        roles::grant(&self.owner, &self.gateway, &[]).await
    }

    /// What the programs and the operator's tools are started with.
    pub(crate) fn of_programs(&self) -> Environment {
        environment(&[("DATABASE_URL", &self.programs), ("GATEWAY_DATABASE_URL", &self.gateway)])
    }

    /// What `migrate` and `gateway migrate` are started with.
    pub(crate) fn of_migrations(&self) -> Environment {
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
