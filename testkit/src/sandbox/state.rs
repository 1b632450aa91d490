//! The files that the sandbox keeps in `.dev/` between starts.

use std::{
    collections::BTreeMap,
    env, fs,
    fs::{File, TryLockError},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    GatewayAccount, PortalUser,
    files::{random_hex, write_private},
    ports, postgres,
    process::{Environment, operator},
    prometheus::configuration,
    tools,
};

/// The variable `name` unless it is empty: the URL of an external server to use.
pub(super) fn external(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Secrets that must stay the same as long as the data.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Secrets {
    key_pepper: String,
    encryption_key: String,
    /// The key of the card gateway; missing in older files.
    #[serde(default)]
    gateway_card_key: String,
    #[serde(default)]
    gateway_pepper: String,
    /// The password of the programs' roles in Postgres.
    #[serde(default)]
    pub(super) roles_password: String,
    /// The database of the accounts: `private`, or the URL of an external one.
    pub(super) database: String,
    /// Stored here because keys are shown only once.
    pub(super) accounts: BTreeMap<String, DemoAccount>,
    #[serde(default)]
    pub(super) gateway_accounts: BTreeMap<String, GatewayAccount>,
    /// The `api_key` with which each account was connected. Keys rotated by hand since then are not overwritten.
    #[serde(default)]
    pub(super) connected: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) portal_user: Option<PortalUser>,
}

impl Secrets {
    pub(super) fn environment(&self) -> Environment {
        let operator = operator();
        // Users of the sandbox run their webhook receiver on the same machine.
        let set = [
            ("USER", operator.as_str()),
            ("KEY_PEPPER", &self.key_pepper),
            ("ENCRYPTION_KEY", &self.encryption_key),
            ("GATEWAY_CARD_KEY", &self.gateway_card_key),
            ("GATEWAY_PEPPER", &self.gateway_pepper),
            ("WEBHOOK_ALLOW_LOOPBACK", "true"),
        ];
        set.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

/// An account created at the first start.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct DemoAccount {
    pub(super) id: String,
    pub(super) mode: String,
    pub(super) provider: String,
    pub(super) timezone: String,
    pub(super) secret_key: String,
    pub(super) secret_key_id: String,
    pub(super) publishable_key: String,
    pub(super) allowed_origins: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) signing_secret: Option<String>,
}

/// `sandbox.json`: everything a program needs to use the running sandbox.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Description {
    pub(super) api_url: String,
    pub(super) gateway_url: String,
    pub(super) portal_url: String,
    /// An owner of the merchant with the accounts `mock` and `live`.
    pub(super) portal_user: PortalUser,
    pub(super) metrics: BTreeMap<String, String>,
    /// For the role of the programs, which owns nothing.
    pub(super) database_url: String,
    /// For the role of the card gateway.
    pub(super) gateway_database_url: String,
    pub(super) redis_url: String,
    pub(super) accounts: BTreeMap<String, DemoAccount>,
    /// The gateway account behind the demo account `gateway`.
    pub(super) gateway_account: GatewayAccount,
    /// Gateway accounts with other settings.
    pub(super) gateway_accounts: BTreeMap<String, GatewayAccount>,
}

/// The folder `.dev` of this checkout.
#[derive(Debug)]
pub(super) struct SandboxFolder {
    root: PathBuf,
}

impl SandboxFolder {
    pub(super) fn open() -> Result<Self> {
        let root = tools::project_root().join(".dev");
        fs::create_dir_all(&root).with_context(|| format!("cannot create {}", root.display()))?;
        Ok(Self { root })
    }

    /// The lock, held while the file is open; `None` if another process holds it. The system releases it however the
    /// process ends.
    pub(super) fn lock(&self) -> Result<Option<File>> {
        let path = self.root.join("lock");
        let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error).context("cannot lock the sandbox"),
        }
    }

    pub(super) fn description(&self) -> PathBuf {
        self.root.join("sandbox.json")
    }

    pub(super) fn postgres(&self) -> PathBuf {
        self.root.join("postgres")
    }

    pub(super) fn redis(&self) -> PathBuf {
        self.root.join("redis")
    }

    /// The folder for the gateway's outgoing mail.
    pub(super) fn mail(&self) -> PathBuf {
        self.root.join("mail")
    }

    /// The path of an empty log for the process `name`.
    pub(super) fn new_log(&self, name: &str) -> Result<PathBuf> {
        let folder = self.root.join("logs");
        fs::create_dir_all(&folder)?;
        let path = folder.join(format!("{name}.log"));
        File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    pub(super) fn read_description(&self) -> Result<Option<Description>> {
        read(&self.description())
    }

    pub(super) fn write_description(&self, description: &Description) -> Result<()> {
        write(&self.description(), description)
    }

    /// Writes the configuration for a Prometheus started here.
    pub(super) fn write_prometheus(&self, metrics: &BTreeMap<String, String>) -> Result<()> {
        let target = |url: &str| url.trim_start_matches("http://").trim_end_matches("/metrics").to_owned();
        let targets: Vec<_> = metrics.iter().map(|(job, url)| (job.clone(), target(url))).collect();
        let rules = tools::project_root().join("dashboards/alerts.yml");
        write_private(&self.root.join("prometheus.yml"), &configuration(5, &targets, &rules))
    }

    /// Removes the description, because nothing listens on its addresses yet.
    pub(super) fn remove_description(&self) {
        let _ = fs::remove_file(self.description());
    }

    pub(super) fn secrets(&self) -> Result<Secrets> {
        let path = self.root.join("secrets.json");
        let mut secrets: Secrets = match read(&path)? {
            Some(stored) => stored,
            None => Secrets {
                key_pepper: random_hex(32)?,
                encryption_key: random_hex(32)?,
                gateway_card_key: String::new(),
                gateway_pepper: String::new(),
                roles_password: String::new(),
                database: String::new(),
                accounts: BTreeMap::new(),
                gateway_accounts: BTreeMap::new(),
                connected: BTreeMap::new(),
                portal_user: None,
            },
        };
        // Older files lack these.
        let added_later = [&mut secrets.gateway_card_key, &mut secrets.gateway_pepper, &mut secrets.roles_password];
        let mut changed = false;
        for missing in added_later.into_iter().filter(|secret| secret.is_empty()) {
            *missing = random_hex(32)?;
            changed = true;
        }
        if changed {
            self.write_secrets(&secrets)?;
        }
        Ok(secrets)
    }

    pub(super) fn write_secrets(&self, secrets: &Secrets) -> Result<()> {
        write(&self.root.join("secrets.json"), secrets)
    }

    /// The port that `name` had at the last start if it is free, else `preferred` if free, else any.
    pub(super) fn port(&self, name: &str, preferred: Option<u16>) -> Result<u16> {
        let candidates = [self.last_port(name)?, preferred].into_iter().flatten();
        let port = match candidates.into_iter().find(|port| ports::is_free(*port)) {
            Some(port) => port,
            None => ports::free()?,
        };
        self.store_port(name, port)?;
        Ok(port)
    }

    pub(super) fn last_port(&self, name: &str) -> Result<Option<u16>> {
        Ok(self.ports()?.get(name).copied())
    }

    pub(super) fn store_port(&self, name: &str, port: u16) -> Result<()> {
        let mut ports = self.ports()?;
        ports.insert(name.to_owned(), port);
        write(&self.root.join("ports.json"), &ports)
    }

    fn ports(&self) -> Result<BTreeMap<String, u16>> {
        Ok(read(&self.root.join("ports.json"))?.unwrap_or_default())
    }

    /// Deletes the data and the keys but not the downloaded programs.
    pub(super) fn erase(&self) -> Result<()> {
        for folder in
            [postgres::home(&self.postgres())?, self.postgres(), self.redis(), self.mail(), self.root.join("logs")]
        {
            if folder.exists() {
                fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
            }
        }
        for file in ["sandbox.json", "secrets.json", "ports.json", "prometheus.yml"].map(|name| self.root.join(name)) {
            if file.exists() {
                fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
            }
        }
        Ok(())
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    if !path.exists() {
        return Ok(None);
    }
    let parse = || Ok(serde_json::from_str(&fs::read_to_string(path)?)?);
    let parsed: Result<T> = parse();
    parsed.map(Some).with_context(|| format!("cannot read {}; ./dev reset deletes it", path.display()))
}

fn write<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    write_private(path, &(serde_json::to_string_pretty(value)? + "\n"))
}
