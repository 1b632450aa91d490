//! The user that runs Postgres: the current user, or another one if that is root.

use std::{
    env, fs,
    fs::DirBuilder,
    os::unix::{
        fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use nix::unistd::{User, geteuid};

/// The user that owns the files and runs the server.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    /// Set for root only: the user and the group to switch to.
    other: Option<(u32, u32)>,
}

impl Owner {
    /// For root, the user `postgres` or else `nobody`; otherwise the current user.
    pub(crate) fn choose() -> Result<Self> {
        if !geteuid().is_root() {
            return Ok(Self { other: None });
        }
        for name in ["postgres", "nobody"] {
            if let Some(user) = User::from_name(name)? {
                return Ok(Self { other: Some((user.uid.as_raw(), user.gid.as_raw())) });
            }
        }
        anyhow::bail!("Postgres does not run as root, and there is neither a user postgres nor a user nobody")
    }

    /// `requested`, or a substitute in /var/tmp if the owner may not traverse one of the parent directories, as under
    /// /root.
    pub(crate) fn reachable(&self, requested: &Path) -> Result<PathBuf> {
        let requested = std::path::absolute(requested)?;
        let can_traverse =
            |above: &Path| fs::metadata(above).is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0);
        let above: Vec<&Path> = requested.ancestors().skip(1).filter(|above| above.exists()).collect();
        if self.other.is_none() || above.into_iter().all(can_traverse) {
            return Ok(requested);
        }
        Ok(Path::new("/var/tmp").join(format!("unified-payments-{:016x}", hash(&requested))))
    }

    /// Makes `directory` private to the owner. Names in /var/tmp are predictable, so a directory of another user is
    /// rejected.
    pub(crate) fn prepare(&self, directory: &Path) -> Result<()> {
        let describe = || format!("cannot prepare {}", directory.display());
        if let Some(parent) = directory.parent() {
            fs::create_dir_all(parent).with_context(describe)?;
        }
        if fs::symlink_metadata(directory).is_err() {
            DirBuilder::new().mode(0o700).create(directory).with_context(describe)?;
        }
        let metadata = fs::symlink_metadata(directory).with_context(describe)?;
        let allowed = [Some(geteuid().as_raw()), self.other.map(|(user, _)| user)];
        ensure!(
            metadata.is_dir() && allowed.contains(&Some(metadata.uid())),
            "{} belongs to another user",
            directory.display()
        );
        self.hand_over(directory)?;
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).with_context(describe)
    }

    /// Makes the owner the owner of one of our files or directories.
    pub(crate) fn hand_over(&self, path: &Path) -> Result<()> {
        if let Some((user, group)) = self.other {
            chown(path, Some(user), Some(group))
                .with_context(|| format!("cannot change the owner of {}", path.display()))?;
        }
        Ok(())
    }

    /// Makes `command` run as the owner.
    pub(crate) fn run(&self, command: &mut Command) {
        if let Some((user, group)) = self.other {
            command.uid(user).gid(group);
        }
    }

    /// A temporary directory that the owner can reach.
    pub(crate) fn temp_dir(&self) -> Result<PathBuf> {
        let requested = env::temp_dir();
        let reachable_path = self.reachable(&requested.join("any"))?;
        Ok(if reachable_path.starts_with(&requested) { requested } else { PathBuf::from("/var/tmp") })
    }
}

/// FNV-1a: short and stable across builds, which the standard hasher does not guarantee.
fn hash(path: &Path) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    path.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step)
}
