//! The commands of `docker compose` that the test needs: up, scale, run, exec and stop.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    container::{Container, Host},
    image::Image,
    network::Network,
    project::Project,
    shell::run,
};

const TIMEOUT: Duration = Duration::from_secs(90);
/// Shorter than the healthcheck intervals in compose.yaml, so that the test is faster.
const POLL: Duration = Duration::from_millis(200);

pub(crate) struct Engine {
    host: Host,
    images: BTreeMap<String, Option<Image>>,
    pub(crate) containers: Vec<Container>,
    /// What could not be run as in compose.yaml, and why.
    pub(crate) skipped: BTreeSet<String>,
    started: usize,
}

impl Engine {
    /// Reads compose.yaml and .env in `project_folder`, and keeps all its own files in `state_folder`.
    pub(crate) fn open(project_folder: &Path, state_folder: &Path, group_prefix: String) -> Result<Self> {
        let project = Project::read(project_folder)?;
        fs::create_dir_all(state_folder)?;
        run(Command::new("mount").args(["-t", "tmpfs", "-o", "mode=0755", "state"]).arg(state_folder))?;
        let (project_folder, state_folder) = (project_folder.to_owned(), state_folder.to_owned());
        let host = Host { project_folder, state_folder, project, network: Network::create()?, group_prefix };
        Ok(Self { host, images: BTreeMap::new(), containers: Vec::new(), skipped: BTreeSet::new(), started: 0 })
    }

    /// Starts every service without a profile in the order of their dependencies, one container each unless `scale` has
    /// another number, and waits until all are healthy. Running containers are kept.
    pub(crate) fn up(&mut self, scale: &[(&str, usize)]) -> Result<()> {
        let services: Vec<_> =
            self.host.project.services.values().filter(|service| !service.is_tool).cloned().collect();
        let mut done = BTreeSet::new();
        while done.len() < services.len() {
            let is_next = |name: &str, on: &[(String, String)]| {
                !done.contains(name) && on.iter().all(|(on, _)| done.contains(on))
            };
            let next = services
                .iter()
                .find(|service| is_next(&service.name, &service.depends_on))
                .context("the services depend on each other in a cycle")?;
            done.insert(next.name.clone());
            let count = scale.iter().find(|(name, _)| *name == next.name).map_or(1, |(_, count)| *count);
            for _ in self.containers_of(&next.name).count()..count {
                self.await_conditions(&next.depends_on)?;
                let Some(image) = self.image(&next.image)? else {
                    self.skipped.insert(format!("{}: its program is not installed", next.name));
                    break;
                };
                if let Some((why, test)) = image.replacement_healthcheck()?
                    && let Some(health) =
                        self.host.project.services.get_mut(&next.name).and_then(|service| service.health.as_mut())
                {
                    self.skipped.insert(format!("the healthcheck of {}: {why}", next.name));
                    health.test = test;
                }
                self.start(&image, &next.name, None).map(|container| self.containers.push(container))?;
            }
        }
        services.iter().try_for_each(|service| self.await_health(&service.name))
    }

    /// Starts one container, without waiting until it is healthy.
    fn start(&mut self, image: &Image, service: &str, arguments: Option<&[&str]>) -> Result<Container> {
        self.started += 1;
        let service = self.host.project.service(service)?;
        Container::start(&self.host, image, service, self.started, arguments)
    }

    /// `docker compose run --rm -T` with `input` on stdin; returns stdout.
    pub(crate) fn run(&mut self, service: &str, arguments: &[&str], input: &str) -> Result<String> {
        let definition = self.host.project.service(service)?.clone();
        self.await_conditions(&definition.depends_on)?;
        let image = self.image(&definition.image)?.context("no image")?;
        let container = self.start(&image, service, Some(arguments))?;
        let address = container.address;
        let output = container.finish(input);
        self.host.network.remove_address(address);
        output
    }

    /// `docker compose exec` in the first container of a service; returns stdout.
    pub(crate) fn exec(&self, service: &str, words: &[&str]) -> Result<String> {
        let container = self.containers_of(service).next().with_context(|| format!("{service} is not running"))?;
        run(&mut container.exec_command(words))
    }

    pub(crate) fn containers_of(&self, service: &str) -> impl Iterator<Item = &Container> {
        self.containers.iter().filter(move |container| container.service.name == service)
    }

    /// Stops these containers concurrently; each must exit with 0 within its grace period. Returns their names.
    pub(crate) fn stop(&mut self, which: impl Fn(&Container) -> bool) -> Result<Vec<String>> {
        let (mut stopping, rest): (Vec<_>, Vec<_>) = self.containers.drain(..).partition(which);
        self.containers = rest;
        for container in &mut stopping {
            container.request_stop()?;
        }
        for container in &mut stopping {
            let status = container.await_exit()?;
            ensure!(status.success(), "{} exited with {status}\n{}", container.name, container.log());
            self.host.network.remove_address(container.address);
        }
        Ok(stopping.into_iter().map(|container| container.name).collect())
    }

    fn image(&mut self, name: &str) -> Result<Option<Image>> {
        if !self.images.contains_key(name) {
            let image = Image::find(name, &self.host.state_folder.join("images"))
                .with_context(|| format!("the image {name}"))?;
            self.images.insert(name.to_owned(), image);
        }
        Ok(self.images[name].clone())
    }

    fn await_conditions(&mut self, conditions: &[(String, String)]) -> Result<()> {
        for (service, condition) in conditions {
            match condition.as_str() {
                "service_started" => {}
                "service_healthy" => self.await_health(service)?,
                "service_completed_successfully" => self.await_completion(service)?,
                other => bail!("the condition {other} is not supported"),
            }
        }
        Ok(())
    }

    /// Waits until all containers of a service are healthy.
    fn await_health(&mut self, service: &str) -> Result<()> {
        for index in 0..self.containers.len() {
            if self.containers[index].service.name != service {
                continue;
            }
            let deadline = Instant::now() + TIMEOUT;
            while self.containers[index].service.health.is_some()
                && let Err(error) = self.containers[index].health()?
            {
                let container = &self.containers[index];
                ensure!(Instant::now() < deadline, "{} is not healthy: {error}\n{}", container.name, container.log());
                sleep(POLL);
            }
        }
        Ok(())
    }

    /// Waits until the containers of a service have exited with 0.
    fn await_completion(&mut self, service: &str) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        for container in self.containers.iter_mut().filter(|container| container.service.name == service) {
            let status = loop {
                if let Some(status) = container.exit_status()? {
                    break status;
                }
                ensure!(Instant::now() < deadline, "{} is still running\n{}", container.name, container.log());
                sleep(POLL);
            };
            ensure!(status.success(), "{} exited with {status}\n{}", container.name, container.log());
        }
        Ok(())
    }
}
