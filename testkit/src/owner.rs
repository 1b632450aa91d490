//! The user that runs Postgres: ourselves, or another one if we are root.

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

/// Who owns the files and runs the server.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    /// Set for root only: the user and the group to become.
    other: Option<(u32, u32)>,
}

impl Owner {
    /// The user `postgres` or else `nobody` for root, and ourselves for everyone else.
    pub(crate) fn choose() -> Result<Self> {
        if !geteuid().is_root() {
            return Ok(Self { other: None });
        }
        for name in ["postgres", "nobody"] {
            if let Some(user) = User::from_name(name)? {
                return Ok(Self { other: Some((user.uid.as_raw(), user.gid.as_raw())) });
            }
        }
        anyhow::bail!("Postgres refuses to run as root, and there is neither a user postgres nor a user nobody")
    }

    /// `wanted`, or a place in /var/tmp that stands for it if the owner may not pass one of the directories above it, as
    /// under /root.
    pub(crate) fn reachable(&self, wanted: &Path) -> Result<PathBuf> {
        let wanted = std::path::absolute(wanted)?;
        let passable = |above: &Path| fs::metadata(above).is_ok_and(|found| found.permissions().mode() & 0o001 != 0);
        let above: Vec<&Path> = wanted.ancestors().skip(1).filter(|above| above.exists()).collect();
        if self.other.is_none() || above.into_iter().all(passable) {
            return Ok(wanted);
        }
        Ok(Path::new("/var/tmp").join(format!("unified-payments-{:016x}", hash(&wanted))))
    }

    /// Makes `directory` the owner's own and closed to others. One that somebody else made there is refused: names in
    /// /var/tmp can be foreseen.
    pub(crate) fn prepare(&self, directory: &Path) -> Result<()> {
        let describe = || format!("cannot prepare {}", directory.display());
        if let Some(parent) = directory.parent() {
            fs::create_dir_all(parent).with_context(describe)?;
        }
        if fs::symlink_metadata(directory).is_err() {
            DirBuilder::new().mode(0o700).create(directory).with_context(describe)?;
        }
        let found = fs::symlink_metadata(directory).with_context(describe)?;
        let allowed = [Some(geteuid().as_raw()), self.other.map(|(user, _)| user)];
        ensure!(
            found.is_dir() && allowed.contains(&Some(found.uid())),
            "{} belongs to another user",
            directory.display()
        );
        self.give(directory)?;
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).with_context(describe)
    }

    /// Hands a file or directory of ours to the owner.
    pub(crate) fn give(&self, path: &Path) -> Result<()> {
        if let Some((user, group)) = self.other {
            chown(path, Some(user), Some(group)).with_context(|| format!("cannot give {} away", path.display()))?;
        }
        Ok(())
    }

    /// Lets `command` run as the owner.
    pub(crate) fn run(&self, command: &mut Command) {
        if let Some((user, group)) = self.other {
            command.uid(user).gid(group);
        }
    }

    /// A directory for temporary files that the owner can reach.
    pub(crate) fn temporary(&self) -> Result<PathBuf> {
        let wanted = env::temp_dir();
        let reached = self.reachable(&wanted.join("any"))?;
        Ok(if reached.starts_with(&wanted) { wanted } else { PathBuf::from("/var/tmp") })
    }
}

/// FNV-1a: short, and the same in every build, which the standard hasher does not promise.
fn hash(path: &Path) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    path.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step)
}
