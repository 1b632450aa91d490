//! Substitutes for container images: ours follows the Dockerfile with the Debian packages of this machine, the others
//! use the programs installed on this machine.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use testkit::tools::{self, Tool};

use crate::shell::run;

/// The packages of `debian:bookworm-slim` that our programs and their healthcheck need.
pub(crate) const SLIM: [&str; 8] =
    ["base-files", "bash", "coreutils", "libc6", "libcap-ng0", "libgcc-s1", "libtinfo6", "util-linux"];

/// The entry point of the official image for a non-root user.
const POSTGRES: &str = include_str!("postgres.sh");

/// The users of the official images.
const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\npostgres:x:999:999::/var/lib/postgresql:/bin/bash\n\
                      nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n";
const NSSWITCH: &str = "passwd: files\ngroup: files\nhosts: files dns\n";

/// The files of an image and its default settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image {
    pub(crate) root: PathBuf,
    pub(crate) user: Option<String>,
    pub(crate) entrypoint: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) workdir: &'static str,
    pub(crate) stop_signal: &'static str,
    /// Folders to create: path, owner and mode.
    pub(crate) folders: Vec<(&'static str, u32, &'static str)>,
    /// The folder of its programs, if outside /usr.
    pub(crate) tools: Option<PathBuf>,
}

impl Image {
    /// The substitute for the image of this name, or `None` if its program is not available.
    pub(crate) fn find(name: &str, folder: &Path) -> Result<Option<Self>> {
        let (name, _) = name.rsplit_once(':').context("an image with a version")?;
        let root = folder.join(name.replace('/', "-"));
        let common = |workdir| Self { root: root.clone(), workdir, stop_signal: "TERM", ..Self::default() };
        Ok(Some(match name {
            "unified-payments" => {
                let user = if root.exists() { instruction("USER ")? } else { build_ours(&root)? };
                Self { user: Some(user), ..common("/") }.with_path("")
            }
            "postgres" => {
                let entrypoint = vec!["docker-entrypoint.sh".to_owned()];
                let folders = vec![("/var/lib/postgresql/data", 999, "0700"), ("/run/postgresql", 999, "3777")];
                let mut image = Self { entrypoint, folders, stop_signal: "INT", ..common("/") };
                image.environment.push(("PGDATA".to_owned(), "/var/lib/postgresql/data".to_owned()));
                image.environment.push(("LANG".to_owned(), "C.UTF-8".to_owned()));
                let image = image.with_programs_of(&tools::postgres_programs()?)?;
                image.with_script("docker-entrypoint.sh", POSTGRES)?
            }
            "redis" => Self { folders: vec![("/data", 999, "0755")], ..common("/data") }
                .with_programs_of(&tools::redis_server()?)?,
            "prom/prometheus" => {
                let folders = vec![("/prometheus", 65534, "0755")];
                let programs = tools::prometheus_programs()?;
                let entrypoint = vec![programs.path.join("prometheus").display().to_string()];
                Self { folders, entrypoint, ..common("/prometheus") }.with_programs_of(&programs)?
            }
            "grafana/grafana" => return Ok(None),
            other => bail!("there is no substitute for the image {other}"),
        }))
    }

    /// Another healthcheck, and why, if this machine's version of the program lacks the command of the original.
    pub(crate) fn replacement_healthcheck(&self) -> Result<Option<(&'static str, Vec<String>)>> {
        if self.workdir != "/prometheus" {
            return Ok(None);
        }
        let help =
            Command::new(tools::prometheus_programs()?.path.join("promtool")).args(["check", "--help"]).output()?;
        let help = String::from_utf8_lossy(&[help.stdout, help.stderr].concat()).into_owned();
        let test = ["wget", "-q", "-O", "/dev/null", "http://localhost:9090/-/ready"].map(str::to_owned).to_vec();
        Ok((!help.contains("check ready")).then_some(("this promtool has no `check ready`", test)))
    }

    /// Adds a program in /etc, because a container gets only /etc and /usr of the image, and /usr is this machine's.
    fn with_script(mut self, name: &str, text: &str) -> Result<Self> {
        let folder = self.root.join("etc/image");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), text)?;
        fs::set_permissions(folder.join(name), Permissions::from_mode(0o755))?;
        for (_, path) in self.environment.iter_mut().filter(|(variable, _)| variable == "PATH") {
            path.insert_str(0, "/etc/image:");
        }
        Ok(self)
    }

    fn with_path(mut self, first: &str) -> Self {
        let rest = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        self.environment.push(("PATH".to_owned(), format!("{first}{rest}")));
        self
    }

    /// A root with the /usr of this machine, where the tool is installed.
    fn with_programs_of(mut self, tool: &Tool) -> Result<Self> {
        if !self.root.exists() {
            fs::create_dir_all(self.root.join("etc"))?;
            symlink("/usr", self.root.join("usr"))?;
            write_etc(&self.root, PASSWD, "root:x:0:\npostgres:x:999:\nnogroup:x:65534:\n")?;
        }
        self.tools = tool.libraries().is_some().then(|| tools::project_root().join(".dev/tools"));
        if let Some(libraries) = tool.libraries() {
            self.environment.push(("LD_LIBRARY_PATH".to_owned(), libraries.to_string_lossy().into_owned()));
        }
        let folder = if tool.path.is_dir() { Some(tool.path.as_path()) } else { tool.path.parent() };
        let folder = folder.context("the folder of the program")?;
        Ok(self.with_path(&format!("{}:", folder.display())))
    }
}

/// Follows the last stage of the Dockerfile and returns its user.
fn build_ours(root: &Path) -> Result<String> {
    let installed = after("--no-install-recommends ")?.replace('\\', "");
    let packages = SLIM.into_iter().chain(installed.split_whitespace());
    for package in packages {
        let listed = run(Command::new("dpkg").args(["--listfiles", package]))?;
        for path in listed.lines().filter(|path| path.starts_with('/')) {
            copy(Path::new(path), root).with_context(|| format!("{path} of {package}"))?;
        }
    }
    fs::create_dir_all(root.join("etc"))?;
    write_etc(root, "root:x:0:0:root:/root:/bin/bash\n", "root:x:0:\n")?;
    fs::write(root.join("etc/shadow"), "root:*:1::::::\n")?;
    for program in ["groupadd", "useradd"] {
        let arguments = after(&format!("{program} "))?.replace('\\', "");
        run(Command::new(program).arg("--prefix").arg(root).args(arguments.split_whitespace()))?;
    }
    let dockerfile = dockerfile()?;
    let programs = dockerfile.lines().find_map(|line| line.trim().strip_prefix("&& cp ")).context("the programs")?;
    fs::create_dir_all(root.join("usr/local/bin"))?;
    for program in programs.split_whitespace().filter_map(|path| path.strip_prefix("target/release/")) {
        let (built, target) = (tools::built_program(program)?, root.join("usr/local/bin").join(program));
        fs::write(&target, "")?;
        run(Command::new("mount").arg("--bind").arg(built).arg(&target))?;
        run(Command::new("mount").args(["-o", "remount,bind,ro"]).arg(target))?;
    }
    let user = instruction("USER ")?;
    let passwd = fs::read_to_string(root.join("etc/passwd"))?;
    ensure!(passwd.contains(&format!(":x:{user}:")), "no user {user} in {passwd}");
    Ok(user)
}

/// Copies a file of a package. /bin, /lib, /lib64 and /sbin are links into /usr.
fn copy(file: &Path, root: &Path) -> Result<()> {
    // dpkg also lists documents and translations, which a minimal installation does not have.
    let Ok(metadata) = fs::symlink_metadata(file) else { return Ok(()) };
    let is_linked = ["/bin", "/lib", "/lib64", "/sbin"].iter().any(|top| file.starts_with(top));
    let inside = Path::new(if is_linked { "usr" } else { "" }).join(file.strip_prefix("/")?);
    let to = root.join(inside);
    let is_top = file.components().count() == 2;
    if metadata.is_dir()
        || is_top
        || to.symlink_metadata().is_ok()
        || !["usr", "etc"].iter().any(|top| to.starts_with(root.join(top)))
    {
        return Ok(());
    }
    fs::create_dir_all(to.parent().context("no parent folder")?)?;
    if metadata.is_symlink() {
        symlink(fs::read_link(file)?, to)?;
    } else {
        fs::copy(file, to)?;
    }
    Ok(())
}

fn write_etc(root: &Path, passwd: &str, group: &str) -> Result<()> {
    for (name, text) in [("passwd", passwd), ("group", group), ("nsswitch.conf", NSSWITCH)] {
        fs::write(root.join("etc").join(name), text)?;
        chown(root.join("etc").join(name), Some(0), Some(0))?;
    }
    Ok(())
}

fn dockerfile() -> Result<String> {
    Ok(fs::read_to_string(tools::project_root().join("Dockerfile"))?)
}

/// The rest of the first line of the Dockerfile that has `mark`.
fn after(mark: &str) -> Result<String> {
    let text = dockerfile()?;
    let rest = text.split(mark).nth(1).and_then(|rest| rest.lines().next());
    rest.map(|rest| rest.trim().to_owned()).with_context(|| format!("the Dockerfile has no {mark}"))
}

fn instruction(name: &str) -> Result<String> {
    after(&format!("\n{name}"))
}
