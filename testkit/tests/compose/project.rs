//! The services of compose.yaml, with variables substituted.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::yaml;

/// Keys that do not concern how a container runs, or that this engine does not implement.
const IGNORED: [&str; 6] = ["build", "deploy", "logging", "profiles", "pull_policy", "restart"];
/// The default size of /dev/shm.
const DEFAULT_SHM: u64 = 64 << 20;

#[derive(Debug)]
pub(crate) struct Project {
    pub(crate) services: BTreeMap<String, Service>,
    /// The file of each secret.
    pub(crate) secrets: BTreeMap<String, String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) image: String,
    /// It has a profile, so that `up` does not start it.
    pub(crate) is_tool: bool,
    pub(crate) entrypoint: Option<Vec<String>>,
    pub(crate) command: Vec<String>,
    pub(crate) user: Option<String>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) secrets: Vec<String>,
    pub(crate) volumes: Vec<String>,
    pub(crate) tmpfs: Vec<String>,
    pub(crate) ports: Vec<String>,
    pub(crate) depends_on: Vec<(String, String)>,
    pub(crate) health: Option<Health>,
    pub(crate) init: bool,
    pub(crate) read_only: bool,
    pub(crate) no_capabilities: bool,
    pub(crate) no_new_privileges: bool,
    pub(crate) files: Option<u64>,
    pub(crate) shm: u64,
    /// Maximum bytes.
    pub(crate) memory: Option<u64>,
    /// Maximum processes.
    pub(crate) pids: Option<u64>,
    pub(crate) grace: Duration,
}

#[derive(Clone, Debug)]
pub(crate) struct Health {
    pub(crate) test: Vec<String>,
    pub(crate) timeout: Duration,
}

impl Project {
    /// Reads compose.yaml and .env of a folder.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let text = fs::read_to_string(folder.join(".env")).context(".env")?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let variables = lines.filter_map(|line| line.split_once('=')).collect();
        let mut document = yaml::read(&fs::read_to_string(folder.join("compose.yaml"))?)?;
        substitute(&mut document, &variables)?;
        let secrets = document["secrets"].as_object().context("secrets")?.iter();
        let secrets =
            secrets.map(|(name, secret)| Ok((name.clone(), text_of(&secret["file"])?))).collect::<Result<_>>()?;
        let services = document["services"].as_object().context("services")?.iter();
        let read = |(name, definition): (&String, &Value)| {
            let service = Service::read(name, definition).with_context(|| format!("service {name}"))?;
            Ok((name.clone(), service))
        };
        Ok(Self { secrets, services: services.map(read).collect::<Result<_>>()? })
    }

    pub(crate) fn service(&self, name: &str) -> Result<&Service> {
        self.services.get(name).with_context(|| format!("there is no service {name}"))
    }
}

impl Service {
    fn read(name: &str, definition: &Value) -> Result<Self> {
        let mut remaining = definition.as_object().context("a map")?.clone();
        remaining.retain(|key, _| !IGNORED.contains(&key.as_str()));
        let mut take = |key: &str| remaining.remove(key).unwrap_or_default();
        let mut drops = words(&take("cap_drop"))?;
        let mut options = words(&take("security_opt"))?;
        let limits = &definition["deploy"]["resources"]["limits"];
        let service = Self {
            name: name.to_owned(),
            image: text_of(&take("image"))?,
            is_tool: definition["profiles"].is_array(),
            entrypoint: Some(words(&take("entrypoint"))?).filter(|words| !words.is_empty()),
            command: words(&take("command"))?,
            user: take("user").as_str().map(str::to_owned),
            environment: pairs(&take("environment"))?,
            secrets: words(&take("secrets"))?,
            volumes: words(&take("volumes"))?,
            tmpfs: words(&take("tmpfs"))?,
            ports: words(&take("ports"))?,
            depends_on: conditions(&take("depends_on"))?,
            health: health(&take("healthcheck"))?,
            init: is_set(&take("init"))?,
            read_only: is_set(&take("read_only"))?,
            no_capabilities: drops.pop().is_some_and(|drop| drop == "ALL"),
            no_new_privileges: options.pop().is_some_and(|option| option == "no-new-privileges:true"),
            files: take("ulimits")["nofile"].as_str().map(str::parse).transpose()?,
            shm: take("shm_size").as_str().map_or(Ok(DEFAULT_SHM), bytes)?,
            memory: limits["memory"].as_str().map(bytes).transpose()?,
            pids: limits["pids"].as_str().map(str::parse).transpose()?,
            grace: take("stop_grace_period").as_str().map_or(Ok(Duration::from_secs(10)), duration)?,
        };
        ensure!(remaining.is_empty(), "these keys are not supported: {remaining:?}");
        ensure!(drops.is_empty() && options.is_empty(), "{drops:?} or {options:?} is not supported");
        Ok(service)
    }
}

/// Substitutes `${NAME}`, `${NAME:-default}` and `${NAME:?error}` in all strings.
fn substitute(value: &mut Value, variables: &BTreeMap<&str, &str>) -> Result<()> {
    match value {
        Value::String(text) => *text = substituted(text, variables)?,
        Value::Array(items) => items.iter_mut().try_for_each(|item| substitute(item, variables))?,
        Value::Object(map) => map.values_mut().try_for_each(|value| substitute(value, variables))?,
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

fn substituted(text: &str, variables: &BTreeMap<&str, &str>) -> Result<String> {
    let (mut result, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('$') {
        result += before;
        if let Some(after) = after.strip_prefix('$') {
            result.push('$');
            rest = after;
            continue;
        }
        let (inside, after) =
            after.strip_prefix('{').and_then(|text| text.split_once('}')).context("a $ without a name")?;
        let end = inside.find(':').unwrap_or(inside.len());
        let value = variables.get(&inside[..end]).copied().filter(|value| !value.is_empty());
        match (value, &inside[end..]) {
            (Some(value), _) => result += value,
            (None, "") => {}
            (None, form) => match form.strip_prefix(":-") {
                Some(default) => result += default,
                None => bail!("{inside}"),
            },
        }
        rest = after;
    }
    Ok(result + rest)
}

fn text_of(value: &Value) -> Result<String> {
    value.as_str().map(str::to_owned).with_context(|| format!("not a string: {value}"))
}

/// A list of strings, or a single string.
fn words(value: &Value) -> Result<Vec<String>> {
    if let Some(items) = value.as_array() {
        return items.iter().map(text_of).collect();
    }
    if value.is_null() { Ok(Vec::new()) } else { Ok(vec![text_of(value)?]) }
}

/// `{NAME: value}` or `[NAME=value]`.
fn pairs(value: &Value) -> Result<BTreeMap<String, String>> {
    if let Some(map) = value.as_object() {
        return map.iter().map(|(name, value)| Ok((name.clone(), text_of(value)?))).collect();
    }
    let pair = |word: String| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    words(value)?.into_iter().map(|word| pair(word).context("NAME=value")).collect()
}

/// `{service: {condition: …}}` or `[service]`.
fn conditions(value: &Value) -> Result<Vec<(String, String)>> {
    if let Some(map) = value.as_object() {
        return map.iter().map(|(name, value)| Ok((name.clone(), text_of(&value["condition"])?))).collect();
    }
    Ok(words(value)?.into_iter().map(|name| (name, "service_started".to_owned())).collect())
}

fn health(value: &Value) -> Result<Option<Health>> {
    if value.is_null() || value["disable"] == "true" {
        return Ok(None);
    }
    let mut test = words(&value["test"])?;
    ensure!(!test.is_empty(), "a healthcheck without a test");
    match test.remove(0).as_str() {
        "CMD" => {}
        "CMD-SHELL" => test.splice(..0, ["/bin/sh".to_owned(), "-c".to_owned()]).for_each(drop),
        other => bail!("a healthcheck test must begin with CMD or CMD-SHELL, not {other}"),
    }
    let timeout = value["timeout"].as_str().map_or(Ok(Duration::from_secs(30)), duration)?;
    for key in ["interval", "start_period"] {
        value[key].as_str().map(duration).transpose()?;
    }
    value["retries"].as_str().map(str::parse::<u32>).transpose()?;
    Ok(Some(Health { test, timeout }))
}

fn is_set(value: &Value) -> Result<bool> {
    match value.as_str() {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => bail!("neither true nor false: {other}"),
    }
}

fn duration(text: &str) -> Result<Duration> {
    let seconds = text.strip_suffix('s').context("seconds")?;
    Ok(Duration::from_secs(seconds.parse()?))
}

fn bytes(text: &str) -> Result<u64> {
    let lower = text.to_lowercase();
    let number = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match lower[number.len()..].trim_end_matches('b') {
        "k" => 10,
        "m" => 20,
        "g" => 30,
        other => bail!("unknown unit {other}"),
    };
    Ok(number.parse::<u64>()? << shift)
}

#[test]
fn variables_are_substituted_as_compose_does() -> Result<()> {
    let variables = BTreeMap::from([("A", "1"), ("B", "")]);
    let result = substituted("$$x ${A} ${A:-2} ${B:-3-4} ${C:-} ${A:?no}", &variables)?;
    assert_eq!(result, "$x 1 1 3-4  1");
    assert!(substituted("${B:?say it}", &variables).is_err());
    assert_eq!((bytes("256mb")?, bytes("1G")?, duration("50s")?), (256 << 20, 1 << 30, Duration::from_secs(50)));
    Ok(())
}
