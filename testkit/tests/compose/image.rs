//! What stands in the place of images: for ours the Dockerfile, done by hand from this machine's Debian packages; for the others
//! the programs that this machine has.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use testkit::tools::{self, Tool};

use crate::shell::run;

/// Packages of `debian:bookworm-slim`, of which our programs and their healthcheck need the files. The rest of it is not there.
pub(crate) const SLIM: [&str; 8] =
    ["base-files", "bash", "coreutils", "libc6", "libcap-ng0", "libgcc-s1", "libtinfo6", "util-linux"];

/// The entry point of the official image, for a user that is not root.
const POSTGRES: &str = include_str!("postgres.sh");

/// The users of the official images.
const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\npostgres:x:999:999::/var/lib/postgresql:/bin/bash\n\
                      nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n";
const NSSWITCH: &str = "passwd: files\ngroup: files\nhosts: files dns\n";

/// The files of an image and what it says of how it is run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image {
    pub(crate) root: PathBuf,
    pub(crate) user: Option<String>,
    pub(crate) entrypoint: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) workdir: &'static str,
    pub(crate) stop_signal: &'static str,
    /// Folders that are there: path, owner and mode.
    pub(crate) folders: Vec<(&'static str, u32, &'static str)>,
    /// A folder of the machine outside of /usr in which its programs lie.
    pub(crate) tools: Option<PathBuf>,
}

impl Image {
    /// What stands for the image of this name, or nothing where the machine has nothing like it.
    pub(crate) fn find(name: &str, place: &Path) -> Result<Option<Self>> {
        let (name, _) = name.rsplit_once(':').context("an image of a version")?;
        let root = place.join(name.replace('/', "-"));
        let common = |workdir| Self { root: root.clone(), workdir, stop_signal: "TERM", ..Self::default() };
        Ok(Some(match name {
            "unified-payments" => {
                let user = if root.exists() { instruction("USER ")? } else { ours(&root)? };
                Self { user: Some(user), ..common("/") }.path("")
            }
            "postgres" => {
                let entrypoint = vec!["docker-entrypoint.sh".to_owned()];
                let folders = vec![("/var/lib/postgresql/data", 999, "0700"), ("/run/postgresql", 999, "3777")];
                let mut image = Self { entrypoint, folders, stop_signal: "INT", ..common("/") };
                image.environment.push(("PGDATA".to_owned(), "/var/lib/postgresql/data".to_owned()));
                image.environment.push(("LANG".to_owned(), "C.UTF-8".to_owned()));
                let image = image.of_machine(&tools::postgres_programs()?)?;
                image.script("docker-entrypoint.sh", POSTGRES)?
            }
            "redis" => {
                Self { folders: vec![("/data", 999, "0755")], ..common("/data") }.of_machine(&tools::redis_server()?)?
            }
            "prom/prometheus" => {
                let folders = vec![("/prometheus", 65534, "0755")];
                let programs = tools::prometheus_programs()?;
                let entrypoint = vec![programs.path.join("prometheus").display().to_string()];
                Self { folders, entrypoint, ..common("/prometheus") }.of_machine(&programs)?
            }
            "grafana/grafana" => return Ok(None),
            other => bail!("nothing here stands for the image {other}"),
        }))
    }

    /// What is asked in the place of a healthcheck that the machine's version of the program does not have, and why.
    pub(crate) fn instead(&self) -> Result<Option<(&'static str, Vec<String>)>> {
        if self.workdir != "/prometheus" {
            return Ok(None);
        }
        let help =
            Command::new(tools::prometheus_programs()?.path.join("promtool")).args(["check", "--help"]).output()?;
        let help = String::from_utf8_lossy(&[help.stdout, help.stderr].concat()).into_owned();
        let instead = ["wget", "-q", "-O", "/dev/null", "http://localhost:9090/-/ready"].map(str::to_owned).to_vec();
        Ok((!help.contains("check ready")).then_some(("this promtool has no `check ready`", instead)))
    }

    /// A program of the image's own. Of its root only /etc and /usr are there in a container, and /usr is this machine's.
    fn script(mut self, name: &str, text: &str) -> Result<Self> {
        let folder = self.root.join("etc/image");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), text)?;
        fs::set_permissions(folder.join(name), Permissions::from_mode(0o755))?;
        for (_, path) in self.environment.iter_mut().filter(|(variable, _)| variable == "PATH") {
            path.insert_str(0, "/etc/image:");
        }
        Ok(self)
    }

    fn path(mut self, first: &str) -> Self {
        let rest = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        self.environment.push(("PATH".to_owned(), format!("{first}{rest}")));
        self
    }

    /// A root with the /usr of this machine.
    fn of_machine(mut self, tool: &Tool) -> Result<Self> {
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
        let folder = folder.context("a program in no folder")?;
        Ok(self.path(&format!("{}:", folder.display())))
    }
}

/// Does what the Dockerfile says after its last `FROM`, and gives back the user it names.
fn ours(root: &Path) -> Result<String> {
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
    let built = dockerfile()?;
    let programs = built.lines().find_map(|line| line.trim().strip_prefix("&& cp ")).context("the programs")?;
    fs::create_dir_all(root.join("usr/local/bin"))?;
    for program in programs.split_whitespace().filter_map(|path| path.strip_prefix("target/release/")) {
        let (built, place) = (tools::built(program)?, root.join("usr/local/bin").join(program));
        fs::write(&place, "")?;
        run(Command::new("mount").arg("--bind").arg(built).arg(&place))?;
        run(Command::new("mount").args(["-o", "remount,bind,ro"]).arg(place))?;
    }
    let user = instruction("USER ")?;
    let passwd = fs::read_to_string(root.join("etc/passwd"))?;
    ensure!(passwd.contains(&format!(":x:{user}:")), "nobody is {user} in {passwd}");
    Ok(user)
}

/// Copies a file of a package; /lib and its like are links to what is in /usr.
fn copy(file: &Path, root: &Path) -> Result<()> {
    // Left out of a small installation are documents and translations, which dpkg lists all the same.
    let Ok(found) = fs::symlink_metadata(file) else { return Ok(()) };
    let linked = ["/bin", "/lib", "/lib64", "/sbin"].iter().any(|top| file.starts_with(top));
    let inside = Path::new(if linked { "usr" } else { "" }).join(file.strip_prefix("/")?);
    let to = root.join(inside);
    let is_top = file.components().count() == 2;
    if found.is_dir()
        || is_top
        || to.symlink_metadata().is_ok()
        || !["usr", "etc"].iter().any(|top| to.starts_with(root.join(top)))
    {
        return Ok(());
    }
    fs::create_dir_all(to.parent().context("in a folder")?)?;
    if found.is_symlink() {
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

/// What follows a mark on its line.
fn after(mark: &str) -> Result<String> {
    let text = dockerfile()?;
    let rest = text.split(mark).nth(1).and_then(|rest| rest.lines().next());
    rest.map(|rest| rest.trim().to_owned()).with_context(|| format!("the Dockerfile has no {mark}"))
}

fn instruction(name: &str) -> Result<String> {
    after(&format!("\n{name}"))
}
