//! What `docker compose` does with compose.yaml, as far as it is used here: up, scale, run, exec and stop.

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
    container::{Container, World},
    image::Image,
    network::Network,
    project::Project,
    shell::run,
};

const PATIENCE: Duration = Duration::from_secs(90);
/// A healthcheck is asked more often than compose.yaml says, so that the test is over sooner.
const POLL: Duration = Duration::from_millis(200);

pub(crate) struct Engine {
    world: World,
    images: BTreeMap<String, Option<Image>>,
    pub(crate) containers: Vec<Container>,
    /// What could not be done as compose.yaml says, and why.
    pub(crate) left_out: BTreeSet<String>,
    started: usize,
}

impl Engine {
    /// Reads `folder`, in which compose.yaml and .env are, and keeps everything of its own in `place`.
    pub(crate) fn open(folder: &Path, place: &Path, group: String) -> Result<Self> {
        let project = Project::read(folder)?;
        fs::create_dir_all(place)?;
        run(Command::new("mount").args(["-t", "tmpfs", "-o", "mode=0755", "place"]).arg(place))?;
        let world =
            World { folder: folder.to_owned(), place: place.to_owned(), project, network: Network::create()?, group };
        Ok(Self { world, images: BTreeMap::new(), containers: Vec::new(), left_out: BTreeSet::new(), started: 0 })
    }

    /// Starts every service that is no tool, as often as it says, in the order of what they wait for, and waits until all are
    /// well. What runs already is left alone.
    pub(crate) fn up(&mut self, scale: &[(&str, usize)]) -> Result<()> {
        let services: Vec<_> = self.world.project.services.values().filter(|one| !one.is_tool).cloned().collect();
        let mut done = BTreeSet::new();
        while done.len() < services.len() {
            let is_next = |name: &str, on: &[(String, String)]| {
                !done.contains(name) && on.iter().all(|(on, _)| done.contains(on))
            };
            let next =
                services.iter().find(|one| is_next(&one.name, &one.depends_on)).context("a circle of services")?;
            done.insert(next.name.clone());
            let times = scale.iter().find(|(name, _)| *name == next.name).map_or(1, |(_, times)| *times);
            for _ in self.of(&next.name).count()..times {
                self.await_conditions(&next.depends_on)?;
                let Some(image) = self.image(&next.image)? else {
                    self.left_out.insert(format!("{}: there is no such program here", next.name));
                    break;
                };
                if let Some((why, instead)) = image.instead()?
                    && let Some(health) =
                        self.world.project.services.get_mut(&next.name).and_then(|it| it.health.as_mut())
                {
                    self.left_out.insert(format!("the healthcheck of {}: {why}", next.name));
                    health.test = instead;
                }
                self.start(&image, &next.name, None).map(|container| self.containers.push(container))?;
            }
        }
        services.iter().try_for_each(|service| self.await_health(&service.name))
    }

    /// One more of a service, without waiting for it.
    fn start(&mut self, image: &Image, service: &str, other: Option<&[&str]>) -> Result<Container> {
        self.started += 1;
        let service = self.world.project.service(service)?;
        Container::start(&self.world, image, service, self.started, other)
    }

    /// `docker compose run --rm -T`, with something on its standard input; what it prints.
    pub(crate) fn run(&mut self, service: &str, arguments: &[&str], input: &str) -> Result<String> {
        let said = self.world.project.service(service)?.clone();
        self.await_conditions(&said.depends_on)?;
        let image = self.image(&said.image)?.context("no image")?;
        let container = self.start(&image, service, Some(arguments))?;
        let address = container.address;
        let printed = container.talk(input);
        self.world.network.forget(address);
        printed
    }

    /// `docker compose exec`, in the first of a service; what it prints.
    pub(crate) fn exec(&self, service: &str, words: &[&str]) -> Result<String> {
        let container = self.of(service).next().with_context(|| format!("no {service} runs"))?;
        run(&mut container.inside(words))
    }

    /// The containers of a service.
    pub(crate) fn of(&self, service: &str) -> impl Iterator<Item = &Container> {
        self.containers.iter().filter(move |container| container.service.name == service)
    }

    /// Tells these to stop, all at once, and waits; each must end with 0 in its time.
    pub(crate) fn stop(&mut self, which: impl Fn(&Container) -> bool) -> Result<Vec<String>> {
        let (mut stopping, rest): (Vec<_>, Vec<_>) = self.containers.drain(..).partition(which);
        self.containers = rest;
        for container in &mut stopping {
            container.tell_to_stop()?;
        }
        for container in &mut stopping {
            let status = container.ending()?;
            ensure!(status.success(), "{} ended ({status})\n{}", container.name, container.log());
            self.world.network.forget(container.address);
        }
        Ok(stopping.into_iter().map(|container| container.name).collect())
    }

    fn image(&mut self, name: &str) -> Result<Option<Image>> {
        if !self.images.contains_key(name) {
            let found =
                Image::find(name, &self.world.place.join("images")).with_context(|| format!("the image {name}"))?;
            self.images.insert(name.to_owned(), found);
        }
        Ok(self.images[name].clone())
    }

    fn await_conditions(&mut self, conditions: &[(String, String)]) -> Result<()> {
        for (service, condition) in conditions {
            match condition.as_str() {
                "service_started" => {}
                "service_healthy" => self.await_health(service)?,
                "service_completed_successfully" => self.await_end(service)?,
                other => bail!("the condition {other} is not understood"),
            }
        }
        Ok(())
    }

    /// Waits until all containers of a service are well; of one without a healthcheck, until it has ended well if that is what it does.
    fn await_health(&mut self, service: &str) -> Result<()> {
        for at in 0..self.containers.len() {
            if self.containers[at].service.name != service {
                continue;
            }
            let deadline = Instant::now() + PATIENCE;
            while self.containers[at].service.health.is_some()
                && let Err(complaint) = self.containers[at].health()?
            {
                let container = &self.containers[at];
                ensure!(
                    Instant::now() < deadline,
                    "{} is not healthy: {complaint}\n{}",
                    container.name,
                    container.log()
                );
                sleep(POLL);
            }
        }
        Ok(())
    }

    /// Waits until the containers of a service have ended with 0.
    fn await_end(&mut self, service: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        for container in self.containers.iter_mut().filter(|container| container.service.name == service) {
            let status = loop {
                if let Some(status) = container.ended()? {
                    break status;
                }
                ensure!(Instant::now() < deadline, "{} does not end\n{}", container.name, container.log());
                sleep(POLL);
            };
            ensure!(status.success(), "{} ended ({status})\n{}", container.name, container.log());
        }
        Ok(())
    }
}
